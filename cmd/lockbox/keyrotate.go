package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// rotateOptions is a command line of key rotate.
type rotateOptions struct {
	keys    newKeys
	signKey string
}

func newKeyRotateCommand(a *app) *cobra.Command {
	var opt rotateOptions
	cmd := &cobra.Command{
		Use:   "rotate ARCHIVE [FLAG...]",
		Short: "encrypt anew under a new content key, or sign by another key",
		Long: `Encrypt everything in an archive anew, under a new content key. Who has the old one, from
a slot that was removed for instance, can read nothing that the archive comes to hold
from then on. What he has seen or copied before stays seen.

Without further flags the new key goes to those who have a slot now: to the same public
keys, and to the passphrase, which must be given for that; for whom that is, is printed.
Who had the old key and could write to an archive that is not signed may have put a public
key of his own there: against him name the new ones. With --recipient,
--new-passphrase or --new-passphrase-file it goes to those that are named and to nobody
else.

--new-sign-key has another key sign a signed archive from now on: an encrypted one on the
way, one that is not encrypted in a transaction that writes nothing else. The old key is
needed for it. Copies from before stay signed by that, and valid to who trusts it: tell
those who give --signer the new key.

A new file is written beside the archive, so that there must be room for it, and takes its
place when it is complete; the old one is overwritten and removed. That would reach what
another hard link to it shows, so a file with a second name is refused: make that a copy of
its own, or remove it. Interrupted at any moment, the archive is there under its name, old
or new, whole.`,
		Example: `  lockbox key rotate private.lbx -i me.key
  lockbox key rotate private.lbx --passphrase-file old.txt --new-passphrase-file new.txt
  lockbox key rotate private.lbx -i me.key --recipient me.pub --recipient bob.pub
  lockbox key rotate signed.lbx --sign-key old --new-sign-key new`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := onlyArchive("key rotate", args)
			if err != nil {
				return err
			}
			return a.keyRotate(cmd.Context(), archive, opt)
		},
	}
	opt.keys.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	cmd.Flags().StringVar(&opt.signKey, "new-sign-key", "", "sign a signed archive by this key from now on")
	return cmd
}

func (a *app) keyRotate(ctx context.Context, archive string, opt rotateOptions) error {
	so := a.readOptions(archive)
	in, err := a.rotatable(ctx, archive, opt)
	if err != nil {
		return err
	}
	var ro store.RotateOptions
	if so.SignKey, err = a.signer(ctx); err != nil {
		return err
	}
	if opt.signKey != "" {
		if ro.SignKey, err = a.readSigner(ctx, "--new-sign-key", opt.signKey); err != nil {
			return err
		}
	}
	if !in.Suite.Encrypted() {
		so.ExpectRoot = &in.Root
		return a.resign(ctx, archive, so, in, ro.SignKey)
	}
	if opt.keys.any() {
		ro.Slots, err = opt.keys.slots(ctx, a, archive)
	} else {
		ro.Slots, err = a.sameSlots(ctx, archive, &so, in.Slots)
	}
	if err != nil {
		return err
	}
	so.ExpectRoot = &in.Root // its slots are what the new ones were made from
	a.startProgress("encrypting", -1)
	ro.Progress = a.bar.set
	sum, err := store.Rotate(ctx, archive, so, ro)
	a.endProgress()
	var tidy *store.TidyError
	switch {
	case errors.As(err, &tidy):
		a.say.Warnf("%s has its new key, but the old file could not be removed: %v", quoted(archive), tidy.Err)
		a.say.Hintf("the next change to the archive does it")
	case errors.Is(err, store.ErrSecondName):
		return &failure{
			code: exitFailed, err: fmt.Errorf("rotating the key of %s was refused, nothing was changed: %w", quoted(archive), err),
			hint: "cp makes a copy of its own of what is to stay; remove the other names, which find -samefile finds, then rotate",
		}
	case err != nil:
		if auth := a.authFailure(archive, err); auth != nil {
			return auth
		}
		return changeFailure(err, "rotating the key of", archive)
	case sum.Held:
		a.say.Warnf("a reader still needs the old file of %s, which stands beside it", quoted(archive))
		a.say.Hintf("the next change to the archive overwrites and removes it")
	}
	if ro.SignKey != nil && ro.SignKey.Public() != in.Signer {
		a.tellSigner(archive, in.Signer)
	}
	switch {
	case a.g.json:
		var o object
		o.begin().open("summary").bytes("archive", archive).int("slots", int64(len(ro.Slots))).int("before", sum.Before).int("after", sum.After)
		o.bool("held", sum.Held).uint("generation", sum.Generation).str("root", sum.Root.String())
		_, err = a.out.Write(o.close().line())
	case a.g.quiet:
		err = nil
	default:
		_, err = fmt.Fprintf(a.out, "encrypted %s anew for %s, generation %d\n", pathsafe.Quote(archive), plural(uint64(len(ro.Slots)), "key slot", "key slots"), sum.Generation)
		for _, s := range ro.Slots {
			whom := "a passphrase"
			if s.Label != "" {
				whom = pathsafe.Quote(s.Label)
			}
			if err == nil {
				_, err = fmt.Fprintf(a.out, "for %s\n", whom)
			}
		}
	}
	return err
}

// resign has another key sign an archive that is not encrypted.
func (a *app) resign(ctx context.Context, archive string, so store.Options, in store.Info, key seal.Signer) error {
	if key.Public() == in.Signer {
		return usagef("%s is signed by the key of --new-sign-key already", quoted(archive))
	}
	ar, err := a.openWrite(ctx, archive, so)
	if err != nil {
		return err
	}
	sum, err := ar.Resign(ctx, key)
	if err = a.closeWrite(ar, archive, &sum, err); err != nil {
		return changeFailure(err, "changing the signing key of", archive)
	}
	a.tellSigner(archive, in.Signer)
	switch {
	case a.g.json:
		var o object
		o.begin().open("summary").bytes("archive", archive).str("signer", key.Public().String()).uint("generation", sum.Generation).str("root", sum.Root.String())
		_, err = a.out.Write(o.close().line())
	case !a.g.quiet:
		_, err = fmt.Fprintf(a.out, "signed %s by %s from now on, generation %d\n", pathsafe.Quote(archive), key.Public().Fingerprint(), sum.Generation)
	}
	return err
}

// tellSigner says what another signing key does not change.
func (a *app) tellSigner(archive string, before seal.PublicKey) {
	a.say.Warnf("copies of %s from before stay signed by %s, and valid to who trusts that key", quoted(archive), before.Fingerprint())
	a.say.Hintf("tell those who give --signer the new key, and to stop taking the old one")
}

// rotatable looks at an archive, and refuses what cannot be rotated.
func (a *app) rotatable(ctx context.Context, archive string, opt rotateOptions) (store.Info, error) {
	ar, err := a.openRead(ctx, archive)
	if err != nil {
		return store.Info{}, err
	}
	in, err := ar.Info()
	switch {
	case err != nil:
	case in.Suite.Signed() && !in.Suite.Encrypted() && !opt.keys.any() && opt.signKey == "":
		err = &failure{
			code: exitFailed, err: fmt.Errorf("%s is signed and not encrypted: it has no content key", quoted(archive)),
			hint: "--new-sign-key FILE has another key sign it",
		}
	case !in.Suite.Encrypted() && (opt.signKey == "" || opt.keys.any()):
		err = withoutSlots(archive)
	case !in.Suite.Signed() && (a.keys.signKey != "" || opt.signKey != ""):
		err = notSigned(archive)
	default:
		err = a.changeable(ar, archive)
	}
	return in, a.closeRead(ar, archive, err)
}

// sameSlots makes the slots of an archive for a new content key: public keys are known by their labels, the
// passphrase by opening the archive with it and nothing else, which so is arranged to do.
func (a *app) sameSlots(ctx context.Context, archive string, so *store.Options, slots []seal.Slot) (same []seal.NewSlot, err error) {
	cannot := func(s seal.Slot, why string) error {
		return &failure{
			code: exitFailed, err: fmt.Errorf("key slot %d of %s cannot be made anew: %s", s.Number, quoted(archive), why),
			hint: "name who is to have the new key: --recipient KEY, --new-passphrase; or remove the slot before",
		}
	}
	phrases := 0
	for _, s := range slots {
		switch {
		case opensWithPassphrase(s):
			if phrases++; phrases > 1 {
				return nil, cannot(s, "only one passphrase can be given")
			}
			p := a.keys.phrases[archive]
			if p == nil {
				if p, err = a.askSecret(ctx, "Passphrase of "+quoted(archive)); errors.Is(err, errNoTerminal) {
					return nil, cannot(s, "its passphrase was not given")
				} else if err != nil {
					return nil, err
				}
				a.keys.phrases[archive] = p
			}
			id, err := passphraseIdentity(p)
			if err != nil {
				return nil, err
			}
			so.Unlock = func(context.Context, []seal.Slot) ([]seal.Identity, error) { return []seal.Identity{id}, nil }
			n, err := passphraseSlot(p)
			if err != nil {
				return nil, err
			}
			same = append(same, n)
		case s.Label == "":
			return nil, cannot(s, "it does not say whom it is for")
		default:
			r, err := seal.ParseRecipient(s.Label, a.ui(ctx))
			if err != nil {
				return nil, cannot(s, err.Error())
			}
			same = append(same, seal.NewSlot{Recipient: r, Label: s.Label})
		}
	}
	return same, nil
}
