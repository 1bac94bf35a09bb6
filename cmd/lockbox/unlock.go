package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// kindPassphrase is what a key slot's age file calls a passphrase.
const kindPassphrase = "scrypt"

// unlock returns what the engine asks for the keys of an archive when it is encrypted: the identities and the
// passphrase that were given, else a passphrase that is asked for at the terminal. An archive that is opened
// several times is asked for once.
func (a *app) unlock(archive string) seal.Unlock {
	return func(ctx context.Context, slots []seal.Slot) ([]seal.Identity, error) {
		k := &a.keys
		if ids, ok := k.unlocked[archive]; ok {
			return ids, nil
		}
		ids, p, err := a.keysFor(ctx, archive, slots)
		if err != nil {
			return nil, err
		}
		if k.unlocked == nil {
			k.unlocked, k.phrases = make(map[string][]seal.Identity), make(map[string][]byte)
		}
		for i, id := range ids {
			r := seal.Remember(id)
			ids[i], k.opened = r, append(k.opened, r)
		}
		k.unlocked[archive], k.phrases[archive] = ids, p
		return ids, nil
	}
}

// keysFor returns identities, and the passphrase when one of them is of a passphrase.
func (a *app) keysFor(ctx context.Context, archive string, slots []seal.Slot) ([]seal.Identity, []byte, error) {
	ids, err := a.identities(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids = slices.Clone(ids)
	byPassphrase := slices.ContainsFunc(slots, opensWithPassphrase)
	p, err := a.givenPassphrase(ctx)
	if err != nil {
		return nil, nil, err
	}
	p = bytes.Clone(p)
	switch {
	case p != nil && byPassphrase, p == nil && len(ids) > 0:
	case len(ids) > 0:
		return ids, nil, nil // it was given for the identity's sake
	case p != nil:
		clear(p)
		return nil, nil, a.locked(archive, "it has no key slot for a passphrase", "--identity FILE names a private key")
	case !byPassphrase:
		return nil, nil, a.locked(archive, "no key was given", "--identity FILE names a private key")
	default:
		p, err = a.askSecret(ctx, "Passphrase of "+quoted(archive))
		switch {
		case errors.Is(err, errNoTerminal):
			return nil, nil, a.locked(archive, "no key was given, and "+err.Error(), passphraseHint+"; --identity FILE names a private key")
		case err != nil:
			return nil, nil, err
		case len(p) == 0:
			return nil, nil, a.locked(archive, errEmptyPassphrase.Error(), "")
		}
	}
	if p != nil {
		id, err := passphraseIdentity(p)
		if err != nil {
			clear(p)
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	return ids, p, nil
}

func opensWithPassphrase(s seal.Slot) bool { return slices.Contains(s.Kinds, kindPassphrase) }

// locked is the error for an archive that stays closed because of a key that is missing.
func (a *app) locked(archive, why, hint string) error {
	return &failure{code: exitAuth, err: fmt.Errorf("cannot open %s: it is encrypted, and %s", quoted(archive), why), hint: hint}
}

// keyGiven reports whether there is a key, right or wrong, without asking anybody for one.
func (a *app) keyGiven() bool {
	return len(a.g.identities) > 0 || a.g.passphraseFile != "" ||
		a.sys.getenv(envPassphraseFile) != "" || a.sys.getenv(envPassphrase) != ""
}

// mustOpen reports whether the command line says something of an archive that only opening it shows.
func (a *app) mustOpen() bool {
	return a.keyGiven() || len(a.keys.pins) > 0 || a.g.expectRoot.digest != nil
}

// canAsk reports whether a person could be asked for what opens one of the slots.
func canAsk(slots []seal.Slot) bool {
	return slices.ContainsFunc(slots, opensWithPassphrase) && somebodyThere()
}

// keyFlag is the flag that says that an archive is to be opened with a key, "" when there is none. The environment
// says nothing about an archive.
func (a *app) keyFlag() string {
	switch {
	case a.g.passphraseFile != "" && a.keys.signKey == "": // else it may be the signing key's
		return "--passphrase-file"
	case len(a.g.identities) > 0:
		return "--identity"
	}
	return ""
}

// lockedAsAsked refuses an archive that is not encrypted when a flag says what it is to be unlocked with: somebody without
// the key may have put one of his own in its place.
func (a *app) lockedAsAsked(ar *store.Archive, archive string) error {
	flag := a.keyFlag()
	if flag == "" {
		return nil
	}
	in, err := ar.Info()
	if err != nil || in.Suite.Encrypted() {
		return err
	}
	return notLocked(archive, flag)
}

// notLocked is the error for an archive without key slots that a flag names a key for.
func notLocked(archive, flag string) error {
	return &failure{
		code: exitAuth, err: fmt.Errorf("%s is not encrypted, and %s asks for one that is", quoted(archive), flag),
		hint: "without that flag it is taken as it is; if it should be encrypted, it is not the archive that you made",
	}
}

// somebodyThere reports whether a person could be asked.
func somebodyThere() bool {
	t, err := openTerminal()
	if err != nil {
		return false
	}
	t.close()
	return true
}

// readOptions are the options for opening an archive for reading.
func (a *app) readOptions(archive string) store.Options {
	o := a.storeOptions()
	o.Unlock = a.unlock(archive)
	return o
}

// unexpectedRootDetail is how the engine begins to say that an archive is in another state than it must be.
const unexpectedRootDetail = "the archive's root is "

// noSlotDetail is how it begins to say that no key fits.
const noSlotDetail = "no key slot "

// authFailure puts into words why an archive cannot be opened though it may be whole. nil when err is none of that.
func (a *app) authFailure(archive string, err error) error {
	if !errors.Is(err, format.ErrAuth) {
		return nil
	}
	detail := err.Error()
	if e := (*format.Error)(nil); errors.As(err, &e) && e.Record == "" {
		detail = e.Detail
	}
	f := &failure{code: exitAuth, err: fmt.Errorf("cannot open %s: %s", quoted(archive), detail)}
	if a.g.expectRoot.digest != nil && strings.HasPrefix(detail, unexpectedRootDetail) {
		f.err = fmt.Errorf("%s is not in the expected state: %s", quoted(archive), detail)
		f.hint = unexpectedRootHint
		return f
	}
	// What shows of it without a key says what is the matter.
	o := a.storeOptions()
	o.ExpectRoot, o.Signers = nil, nil
	in, err := store.Peek(context.Background(), archive, o)
	switch {
	case err != nil:
	case !in.Suite.Signed() && len(a.keys.pins) > 0:
		f.err = fmt.Errorf("%s is not signed, and --signer asks for a signature", quoted(archive))
	case !in.Suite.Signed() && a.keys.signKey != "":
		return notSigned(archive)
	case in.Locked && strings.HasPrefix(detail, noSlotDetail):
		f.hint = fmt.Sprintf("lockbox key list %s shows what opens it", pathsafe.Quote(archive))
	}
	return f
}

// notSigned is the error for a signing key that an archive has no use for.
func notSigned(archive string) error {
	return &failure{
		code: exitUsage, err: fmt.Errorf("%s is not signed: --sign-key cannot be used with it", quoted(archive)),
		hint: "an archive is signed from the beginning or never: lockbox create NEW --sign-key FILE",
	}
}

// changeable refuses an archive that is signed by a key that was not given.
func (a *app) changeable(ar *store.Archive, archive string) error {
	in, err := ar.Info()
	if err != nil || !in.Suite.Signed() || a.keys.signKey != "" {
		return err
	}
	return &failure{
		code: exitAuth, err: fmt.Errorf("cannot change %s: it is signed by %s, and every change needs that key", quoted(archive), in.Signer.Fingerprint()),
		hint: "--sign-key FILE names the private key, or the public key whose private one an SSH agent has",
	}
}
