package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

var errReproducible = errors.New("an encrypted archive cannot be reproducible: its keys must be random")

// enter comes by the archive's keys and loads a generation.
func (a *Archive) enter(ctx context.Context, s *journal.Super) (*view, error) {
	if s.Suite.Encrypted() {
		if a.writer && a.opt.Reproducible {
			return nil, errReproducible
		}
		secrets.Store(true)
	}
	suite, keys, err := journal.Opening{Unlock: a.opt.Unlock, Observe: a.opt.observe}.Suite(ctx, a.f, s)
	if err != nil {
		return nil, err
	}
	a.suite = suite
	var dir *journal.KeyDir
	if keys != nil {
		a.key, dir = keys.Key, keys.Dir
		if a.writer {
			_, bad, err := journal.KeyDirBytes(a.f, s, true)
			if err != nil {
				return nil, err
			}
			a.mendKeys = bad[0] || bad[1]
		}
	}
	v, err := a.loadView(s)
	if err != nil {
		a.forget()
		return nil, err
	}
	v.keys = dir
	return v, nil
}

// forget overwrites the keys of a handle that is closed.
func (a *Archive) forget() {
	if a.key != nil {
		a.key.Wipe()
	}
	if a.suite != nil {
		a.suite.Wipe()
	}
}

// authentic holds the signer of a generation against who may have signed it.
func (a *Archive) authentic(v *view) error {
	refuse := func(detail string, args ...any) error {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
	}
	signed, signer := v.super.Suite.Signed(), v.commit.Signer
	pinned := len(a.opt.Signers) > 0
	switch {
	case !signed && (pinned || a.opt.SignKey != nil):
		return refuse("the archive is not signed")
	case pinned && !slices.Contains(a.opt.Signers, signer):
		return refuse("the archive is signed by %s, which is not a key that was asked for", signer.Fingerprint())
	case signed && a.opt.SignKey != nil && a.opt.SignKey.Public() != signer:
		return refuse("the archive is signed by %s, the signing key is %s", signer.Fingerprint(), a.opt.SignKey.Public().Fingerprint())
	}
	return nil
}

// changeable refuses changes to a signed archive without its key.
func (a *Archive) changeable() error {
	if a.cur.super.Suite.Signed() && a.opt.SignKey == nil {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: "the archive is signed, and every change needs its signing key"}
	}
	return nil
}

// protect gives a new archive its suite: s says which, and its first key directory is returned.
func (a *Archive) protect(s *journal.Super, slots []seal.NewSlot) (*journal.KeyDir, error) {
	signed := a.opt.SignKey != nil
	if signed {
		s.Suite |= format.SuiteSigned
	}
	if len(slots) == 0 {
		if a.suite = seal.New(); signed {
			a.suite = seal.NewSigned()
		}
		return nil, nil
	}
	secrets.Store(true)
	s.Suite |= format.SuiteEncrypted
	if s.Cipher = a.opt.cipher; s.Cipher == 0 {
		s.Cipher = seal.Cipher()
	}
	key, err := seal.NewContentKey(a.opt.Entropy)
	if err != nil {
		return nil, err
	}
	a.key = key
	a.suite = seal.NewEncrypted(seal.Config{Signed: signed, Cipher: s.Cipher, Archive: s.Archive, Key: key, Observe: a.opt.observe})
	return newDir(key, slots)
}

func newDir(key *seal.ContentKey, slots []seal.NewSlot) (*journal.KeyDir, error) {
	d := &journal.KeyDir{}
	for _, n := range slots {
		file, err := key.Lock(n)
		if err != nil {
			return nil, err
		}
		d.Slots = append(d.Slots, journal.KeySlot{File: file, Label: n.Label})
	}
	return d, nil
}

// sign appends to a signed archive's commit block the signature, by key, of the root that v is.
func (a *Archive) sign(ctx context.Context, v *view, block []byte, key seal.Signer) ([]byte, error) {
	if !v.super.Suite.Signed() {
		return block, nil
	}
	sig, err := seal.SignRoot(ctx, key, v.root())
	if err != nil {
		return nil, err
	}
	v.commit.Signer = key.Public()
	return journal.AppendSignature(block, sig), nil
}

// signer is the key that signs the transaction's generation, nil in an archive that is not signed.
func (t *Tx) signer() seal.Signer {
	if t.signKey != nil {
		return t.signKey
	}
	return t.a.opt.SignKey
}

// retireKeys supersedes the key directory where this transaction writes another, which may lack a slot: then
// it is to be overwritten.
func (t *Tx) retireKeys() {
	if t.base.super.KeyDirLen == 0 || t.keys == nil && !t.rebuilds() {
		return
	}
	t.moved = t.moved || t.keys != nil
	t.retired = append(t.retired, journal.Planned{Extent: t.base.super.KeyDirExtent(), Generation: t.gen, Kind: journal.OwnerKeyDir})
}

// writeKeys writes the key directory of the new generation.
func (t *Tx) writeKeys(s *journal.Super) error {
	t.keys.Attempt, t.keys.Generation = t.attempt, t.gen
	b, err := t.keys.Encode(s, t.a.suite, t.a.key)
	if err != nil {
		return err
	}
	return t.putKeys(s, b)
}

func (t *Tx) putKeys(s *journal.Super, b []byte) error {
	ext := t.space.alloc(2*format.AlignUp(int64(len(b)), t.a.sector), false)
	return t.out.write(journal.PutKeyDir(s, b, ext.Off), ext.Off)
}

// Slots describes the key slots of an encrypted archive.
func (a *Archive) Slots() []seal.Slot {
	if v := a.view(); v.keys != nil {
		return v.keys.Public()
	}
	return nil
}

// AddSlot gives an encrypted archive another key slot.
func (a *Archive) AddSlot(ctx context.Context, n seal.NewSlot) (Summary, error) {
	return a.changeSlots(ctx, func(d *journal.KeyDir) error {
		file, err := a.key.Lock(n)
		d.Slots = append(d.Slots, journal.KeySlot{File: file, Label: n.Label})
		return err
	})
}

// RemoveSlot takes a key slot away, by its number, from 1. Whoever could open it may have kept the content
// key: only Rotate makes that useless. The last slot cannot be removed.
func (a *Archive) RemoveSlot(ctx context.Context, number int) (Summary, error) {
	return a.changeSlots(ctx, func(d *journal.KeyDir) error {
		switch n := len(d.Slots); {
		case number < 1 || number > n:
			return fmt.Errorf("there is no key slot %d; the archive has %d", number, n)
		case n == 1:
			return errors.New("the last key slot cannot be removed: nobody could open the archive any more")
		}
		d.Slots = slices.Delete(d.Slots, number-1, number)
		return nil
	})
}

func (a *Archive) changeSlots(ctx context.Context, change func(*journal.KeyDir) error) (Summary, error) {
	old := a.view().keys
	if old == nil {
		return Summary{}, errors.New("the archive is not encrypted: it has no key slots")
	}
	d := &journal.KeyDir{Slots: slices.Clone(old.Slots)}
	if err := change(d); err != nil {
		return Summary{}, err
	}
	t, err := a.Begin(ctx)
	if err != nil {
		return Summary{}, err
	}
	t.keys = d
	return t.Commit(ctx)
}

// Resign has another key sign a signed archive from now on, this handle's further changes too. Copies of earlier states
// stay what they are: signed by the key before, and valid to who trusts that.
func (a *Archive) Resign(ctx context.Context, key seal.Signer) (Summary, error) {
	if !a.view().super.Suite.Signed() {
		return Summary{}, errors.New("the archive is not signed: it has no signing key to change")
	}
	t, err := a.Begin(ctx)
	if err != nil {
		return Summary{}, err
	}
	t.signKey = key
	return t.Commit(ctx)
}

// Peek describes an archive as far as that is possible without any key. It asks for none.
func Peek(ctx context.Context, name string, o Options) (Info, error) {
	o = o.withDefaults()
	f, err := o.FS.Open(name, false)
	if err != nil {
		return Info{}, err
	}
	in, locked, err := peek(f)
	if err := errors.Join(err, f.Close()); err != nil || locked {
		return in, err
	}
	o.Unlock, o.Signers, o.SignKey = nil, nil, nil
	a, err := Open(ctx, name, o)
	if err != nil {
		return Info{}, err
	}
	in, err = a.Info()
	return in, errors.Join(err, a.Close())
}

// peek reads what an encrypted archive shows.
func peek(f interface {
	ReadAt(b []byte, off int64) (int, error)
	Size() (int64, error)
}) (in Info, locked bool, err error) {
	c, err := journal.ReadCopies(f)
	if err != nil || !c.Current.Suite.Encrypted() {
		return in, false, err
	}
	s := c.Current
	d, err := journal.ReadKeyDir(f, s)
	if err != nil {
		return in, true, err
	}
	size, err := f.Size()
	return Info{ID: s.Archive, Generation: s.Generation, Suite: s.Suite, Cipher: s.Cipher.String(), Locked: true, Slots: d.Public(),
		Sector: s.Sector, FileSize: size, CopiesDamaged: c.Damaged()}, true, err
}

// rebuilds reports whether all trees are written anew.
func (t *Tx) rebuilds() bool { return t.compact != nil && t.compact.rebuild }

// keepKeys moves the key directory, as it is, with trees that are written anew.
func (t *Tx) keepKeys(s *journal.Super) error {
	b, _, err := journal.KeyDirBytes(t.a.f, s, false)
	if err != nil {
		return err
	}
	return t.putKeys(s, b)
}
