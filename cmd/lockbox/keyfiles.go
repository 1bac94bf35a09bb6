package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// keyring is what a run knows of keys. Each is read when it is first needed, and once.
type keyring struct {
	passphrase []byte                     // as it was given; nil: not, or not yet looked for
	ids        []seal.Identity            // of --identity
	files      [][]byte                   // the files these come from
	unlocked   map[string][]seal.Identity // by archive: what it is opened with
	opened     []*seal.Remembering        // these, which remember what they opened
	phrases    map[string][]byte          // by archive: the passphrase among these
	pins       []seal.PublicKey           // of --signer
	signKey    string                     // of --sign-key
	signer     seal.Signer
	agents     []net.Conn
}

// wipe ends the use of keys.
func (k *keyring) wipe() {
	clear(k.passphrase)
	for _, p := range k.phrases {
		clear(p)
	}
	for _, r := range k.opened {
		r.Wipe()
	}
	for _, f := range k.files {
		clear(f)
	}
	for _, c := range k.agents {
		_ = c.Close()
	}
}

// registerSignKey gives a command that changes archives the flag for the key that signs.
func (a *app) registerSignKey(f *pflag.FlagSet, usage string) {
	f.StringVar(&a.keys.signKey, "sign-key", "", usage)
}

// signKeyUsage is the flag's text where nothing is made.
const signKeyUsage = "the key that the archive is signed by: every change of a signed archive needs it"

// maxKeyFile bounds what is read of a file of keys.
const maxKeyFile = 1 << 20

// readKeyFile reads a file of keys; the caller wipes what it returns.
func readKeyFile(ctx context.Context, what, name string) ([]byte, error) {
	b, err := readNamed(ctx, name, func(f *os.File) ([]byte, error) {
		return io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	})
	if err != nil {
		clear(b)
		return nil, unreadable(what, name, err)
	}
	if len(b) > maxKeyFile {
		clear(b)
		return nil, usagef("%s is too large for a %s", quoted(name), what)
	}
	return b, nil
}

// unreadable is the error for a file of keys that cannot be read. It never means the archive.
func unreadable(what, name string, err error) error {
	return &failure{code: exitFailed, err: fmt.Errorf("cannot read the %s %s: %w", what, quoted(name), withoutPath(err))}
}

// keyFailure is the error for keys that cannot be used: wrong ones are no key (exit 11), what is none at all
// is wrong usage.
func keyFailure(what, name string, err error) error {
	var f *failure
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &f):
		return err
	case errors.Is(err, format.ErrAuth):
		var e *format.Error
		if errors.As(err, &e) {
			return &failure{code: exitAuth, err: fmt.Errorf("%s %s: %s", what, quoted(name), e.Detail)}
		}
		return &failure{code: exitAuth, err: fmt.Errorf("%s %s: %w", what, quoted(name), err)}
	}
	return usagef("%s %s: %w", what, quoted(name), err)
}

// isPublicKey reports whether text begins with a public SSH key.
func isPublicKey(text string) bool {
	for _, kind := range []string{"ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"} {
		if strings.HasPrefix(text, kind) {
			return true
		}
	}
	return false
}

// publicOnly refuses a private key where a public one belongs.
func publicOnly(flag, name string, data []byte) error {
	if !bytes.Contains(data, []byte("PRIVATE KEY-----")) && !bytes.Contains(data, []byte("AGE-SECRET-KEY-")) {
		return nil
	}
	return &failure{
		code: exitUsage, err: fmt.Errorf("%s %s: it holds a private key", flag, quoted(name)),
		hint: "give the public one that belongs to it; ssh-keygen -y and age-keygen -y print it",
	}
}

// loadPins reads the keys of --signer: each is a public key, or a file of such keys.
func (a *app) loadPins(ctx context.Context) error {
	for _, s := range a.g.signers {
		data := []byte(s)
		if !isPublicKey(s) && !strings.Contains(s, " ssh-ed25519 ") {
			var err error
			if data, err = readKeyFile(ctx, "file of --signer", s); err == nil {
				err = publicOnly("--signer", s, data)
			}
			if err != nil {
				clear(data)
				return err
			}
		}
		keys, err := seal.ParsePins(data)
		if err != nil {
			return keyFailure("--signer", s, err)
		}
		a.keys.pins = append(a.keys.pins, keys...)
	}
	return nil
}

// recipientSlots reads the keys of --recipient: each is a recipient, or a file of them.
func (a *app) recipientSlots(ctx context.Context, recipients []string) (slots []seal.NewSlot, err error) {
	for _, s := range recipients {
		data := []byte(s)
		if strings.HasPrefix(s, "AGE-SECRET-KEY-") {
			return nil, usagef("--recipient takes a public key; a private key is never given on the command line, where others see it")
		}
		if !isPublicKey(s) && !strings.HasPrefix(s, "age1") {
			if data, err = readKeyFile(ctx, "file of --recipient", s); err == nil {
				err = publicOnly("--recipient", s, data)
			}
			if err != nil {
				clear(data)
				return nil, err
			}
		}
		more, err := seal.ParseRecipients(data, a.ui(ctx))
		if err != nil {
			return nil, keyFailure("--recipient", s, err)
		}
		for _, n := range more {
			for _, other := range slots {
				if sameKey(n.Label, other.Label) {
					return nil, usagef("the recipient %s was given twice", quoted(n.Label))
				}
			}
			slots = append(slots, n)
		}
	}
	return slots, nil
}

// sameKey reports whether two recipients are one. What follows the key of an SSH key is a comment.
func sameKey(a, b string) bool { return keyText(a) == keyText(b) }

func keyText(s string) string {
	f := strings.Fields(s)
	if len(f) > 2 && isPublicKey(s) {
		f = f[:2]
	}
	return strings.Join(f, " ")
}

// identities reads the private keys of --identity.
func (a *app) identities(ctx context.Context) ([]seal.Identity, error) {
	k := &a.keys
	if k.ids != nil {
		return k.ids, nil
	}
	var ids []seal.Identity
	for _, name := range a.g.identities {
		if strings.HasPrefix(name, "AGE-SECRET-KEY-") {
			return nil, usagef("--identity names a file: a private key is never given on the command line, where others see it")
		}
		data, err := readKeyFile(ctx, "identity file", name)
		if err != nil {
			return nil, err
		}
		if isPublicKey(string(data)) || strings.HasPrefix(string(data), "age1") {
			return nil, &failure{
				code: exitUsage, err: fmt.Errorf("--identity %s: it holds a public key", quoted(name)),
				hint: "what is locked for a public key is opened with the private one that belongs to it",
			}
		}
		k.files = append(k.files, data) // an SSH key with a passphrase is decrypted when it is used
		more, err := seal.ParseIdentities(data, a.ui(ctx))
		if err != nil {
			return nil, keyFailure("--identity", name, err)
		}
		ids = append(ids, more...)
	}
	k.ids = ids
	return ids, nil
}

// signer returns the key of --sign-key, nil when there is none.
func (a *app) signer(ctx context.Context) (seal.Signer, error) {
	k := &a.keys
	if k.signKey == "" || k.signer != nil {
		return k.signer, nil
	}
	s, err := a.readSigner(ctx, "--sign-key", k.signKey)
	if err == nil {
		k.signer = s
	}
	return s, err
}

// readSigner reads a signing key. Of a public key an SSH agent has the private one.
func (a *app) readSigner(ctx context.Context, flag, name string) (s seal.Signer, err error) {
	data, err := readKeyFile(ctx, "signing key", name)
	if err != nil {
		return nil, err
	}
	if isPublicKey(string(data)) {
		s, err = a.agentSigner(ctx, flag, name, data)
	} else {
		s, err = seal.ParseSigner(data, a.ui(ctx))
	}
	clear(data)
	if err != nil {
		return nil, keyFailure(flag, name, err)
	}
	return s, nil
}

func (a *app) agentSigner(ctx context.Context, flag, name string, public []byte) (seal.Signer, error) {
	keys, err := seal.ParsePins(public)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, errors.New("it holds several public keys; one can sign")
	}
	noAgent := func(err error) error {
		return &failure{
			code: exitAuth, err: fmt.Errorf("%s %s is a public key, and %w", flag, quoted(name), err),
			hint: "ssh-add gives the private key to an agent; --sign-key takes the private key's file as well",
		}
	}
	sock := a.sys.getenv("SSH_AUTH_SOCK")
	if sock == "" {
		return nil, noAgent(errors.New("no SSH agent runs that could have the private one: SSH_AUTH_SOCK is not set"))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", sock)
	if err != nil {
		return nil, noAgent(fmt.Errorf("the SSH agent does not answer: %w", err))
	}
	a.keys.agents = append(a.keys.agents, conn)
	s, err := seal.AgentSigner(ctx, conn, keys[0])
	if err != nil && !errors.Is(err, format.ErrAuth) && ctx.Err() == nil {
		return nil, noAgent(err)
	}
	return s, err
}
