package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// keys are what the protected archives of a run are signed, locked and opened with: an Ed25519 key and an X25519
// identity. Such an identity opens a slot with two multiplications on a curve, and that is part of every opening that
// is timed. There is no passphrase: deriving a key from one takes as long as its owner wants it to.
type keys struct {
	signer    seal.Signer
	recipient seal.Recipient
	ids       []seal.Identity
}

func newKeys() (*keys, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	secret, public, err := seal.GenerateIdentity(false)
	if err != nil {
		return nil, err
	}
	k := &keys{signer: seal.NewSigner(private)}
	if k.ids, err = seal.ParseIdentities([]byte(secret), seal.UI{}); err != nil {
		return nil, err
	}
	k.recipient, err = seal.ParseRecipient(public, seal.UI{})
	return k, err
}

// protection says how an archive is protected; nil is not at all.
type protection struct {
	*keys
	suite   format.Suite
	padding format.Padding
	level   frames.Level
}

// options are those with which an archive is opened, by who may read and change it and knows whose signature to expect.
func (p *protection) options(jobs int) store.Options {
	o := store.Options{Jobs: jobs}
	if p == nil {
		return o
	}
	if p.suite.Signed() {
		o.SignKey, o.Signers = p.signer, []seal.PublicKey{p.signer.Public()}
	}
	if p.suite.Encrypted() {
		o.Unlock = func(context.Context, []seal.Slot) ([]seal.Identity, error) { return p.ids, nil }
	}
	return o
}

// creating are the defaults of the command line, protected.
func (p *protection) creating() store.CreateOptions {
	c := store.CreateOptions{Level: frames.LevelDefault}
	if p == nil {
		return c
	}
	c.Padding, c.Level = p.padding, p.level
	if p.suite.Encrypted() {
		c.Slots = []seal.NewSlot{{Recipient: p.recipient, Label: "bench"}}
	}
	return c
}

// protect makes a protection with the keys of the run.
func (e *env) protect(s format.Suite, padding format.Padding) (p *protection, err error) {
	if e.keys == nil {
		if e.keys, err = newKeys(); err != nil {
			return nil, err
		}
	}
	return &protection{e.keys, s, padding, frames.LevelDefault}, nil
}

// variant is one of several archives of the same files that differ in their protection.
type variant struct {
	name, file string
	p          *protection
	size       int64
}

// variants are the archives of all suites, the one without protection first, and not made yet.
func (e *env) variants() ([]variant, error) {
	vs := []variant{{name: unprotected, file: filepath.Join(e.dir, "none.lbx")}}
	for _, s := range []struct {
		name  string
		suite format.Suite
	}{{"signed", format.SuiteSigned}, {"encrypted", format.SuiteEncrypted}, {"encrypted and signed", format.SuiteBoth}} {
		p, err := e.protect(s.suite, format.PadNone)
		if err != nil {
			return nil, err
		}
		vs = append(vs, variant{name: "lockbox, " + s.name, file: filepath.Join(e.dir, "suite"+string('0'+rune(s.suite))+".lbx"), p: p})
	}
	return vs, nil
}

// make makes the archives and compares what comes out of them in both ways of reading.
func (e *env) make(vs []variant, files []File) error {
	for i := range vs {
		v := &vs[i]
		if err := errors.Join(os.RemoveAll(v.file), writeProtected(e.ctx, v.file, e.Jobs, v.p, slices.Values(files))); err != nil {
			return err
		}
		if err := compareStream(v.name, files, func(c *checker) error {
			return streamLockbox(e.ctx, v.file, reading{jobs: 1, p: v.p, w: c, check: c})
		}); err != nil {
			return err
		}
		if err := compareBulk(e.ctx, v.file, v.p, files); err != nil {
			return err
		}
		var err error
		if v.size, err = fileSize(v.file); err != nil {
			return err
		}
	}
	return e.settle(filesOf(vs)...)
}

func removeAll(vs []variant) (err error) {
	for i := range vs {
		err = errors.Join(err, os.RemoveAll(vs[i].file))
	}
	return err
}

func filesOf(vs []variant) (names []string) {
	for i := range vs {
		names = append(names, vs[i].file)
	}
	return names
}
