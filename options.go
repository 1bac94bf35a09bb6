package lockbox

import (
	"crypto"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"time"

	"filippo.io/age"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// Options say how a handle works. The zero value is the default.
type Options struct {
	// Passphrase and Identities unlock an encrypted archive; one that fits is enough. With either of them an archive
	// that is not encrypted is refused (ErrAuth): somebody without a key may have put it in the place of the one that
	// was meant.
	Passphrase []byte
	Identities []age.Identity

	// Signers pins who may have signed: an archive that none of these keys has signed is refused (ErrAuth).
	Signers []ed25519.PublicKey
	// Root, unless it is zero, refuses (ErrAuth) an archive in any other state.
	Root Digest

	// SignKey signs every change: an ed25519.PrivateKey, or whatever else signs with such a key. A signed archive can
	// be changed only with the key that it is signed by, one that is not signed only without; a new archive is signed
	// when it is set.
	SignKey crypto.Signer

	Jobs        int           // workers; 0: one a CPU, six at most; 1: all is done one after the other
	CacheBytes  int64         // of decoded frames and index nodes; 0: 32 MiB
	Trust       Trust         // what a handle that lives long may leave out
	LockTimeout time.Duration // how long to wait for another writer; 0: 10 s; negative: not at all

	// Seed, unless it is nil, is what ids are derived from instead of being drawn at random, together with the
	// options of a new archive or the root of an existing one: the same calls, with the same times, then give the
	// same bytes. It is not secret. An encrypted archive cannot have it, and a change without it ends an archive's
	// being reproducible. Reading does not use it, and Open refuses it.
	Seed []byte
}

// Trust says whether a handle verifies again what it has verified before.
type Trust uint8

const (
	// EveryRead verifies every byte after every read of it.
	EveryRead Trust = iota
	// Earned is for handles that live long: what a handle has verified whole it still reads from the file, but does
	// not hash again until the file changes, the handle moves on or anything fails. A medium that rots in between
	// shows only to Archive.Scrub, which is to run beside it and bounds for how long. It changes nothing for
	// encrypted archives, nor for Bulk.
	Earned
)

// Compression says how hard an archive tries to be small.
type Compression uint8

const (
	CompressDefault Compression = iota
	CompressNone
	CompressFast
	CompressBetter
	CompressBest
)

var levels = [...]frames.Level{frames.LevelDefault, frames.LevelNone, frames.LevelFast, frames.LevelBetter, frames.LevelBest}

// compressionOf is the inverse of levels.
func compressionOf(l frames.Level) Compression {
	for c, level := range levels {
		if level == l {
			return Compression(c)
		}
	}
	return CompressDefault
}

func (c Compression) String() string {
	if int(c) >= len(levels) {
		return fmt.Sprintf("compression %d", uint8(c))
	}
	return [...]string{"default", "none", "fast", "better", "best"}[c]
}

// Padding says how stored lengths are rounded up, so that they tell less.
type Padding uint8

const (
	PadNone  Padding = Padding(format.PadNone)
	PadPadme Padding = Padding(format.PadPadme) // to numbers with few significant bits: at most 12 % more
	PadPow2  Padding = Padding(format.PadPow2)  // to powers of two
)

func (p Padding) String() string { return format.Padding(p).String() }

// CreateOptions are fixed when an archive is made. The zero value is the default: compressed, neither encrypted nor
// padded. It is signed when Options.SignKey is set.
type CreateOptions struct {
	Compression Compression
	Padding     Padding
	Sector      int // 512 or 4096, what extents are aligned to; 0: 512
	// Passphrase and Recipients encrypt the archive: each makes a key slot, and each slot opens it.
	Passphrase []byte
	Recipients []Recipient
}

// Recipient is whom an archive is encrypted for. Whoever can open the archive can read the label.
type Recipient struct {
	Key   age.Recipient
	Label string
}

func (c *CreateOptions) encrypts() bool { return c.Passphrase != nil || len(c.Recipients) > 0 }

func invalid(msg string, args ...any) error {
	return fmt.Errorf("%w: %s", fs.ErrInvalid, fmt.Sprintf(msg, args...))
}

// validate checks what can be checked without looking at anything.
func (o *Options) validate() error {
	switch {
	case o.Jobs < 0:
		return invalid("%d jobs", o.Jobs)
	case o.CacheBytes < 0:
		return invalid("a cache of %d bytes", o.CacheBytes)
	case o.Trust > Earned:
		return invalid("trust %d is unknown", o.Trust)
	case o.Passphrase != nil && len(o.Passphrase) == 0:
		return invalid("the passphrase is empty")
	}
	for _, k := range o.Signers {
		if len(k) != ed25519.PublicKeySize {
			return invalid("a signer's key has %d bytes", len(k))
		}
	}
	if o.SignKey != nil {
		if k, ok := o.SignKey.Public().(ed25519.PublicKey); !ok || len(k) != ed25519.PublicKeySize {
			return invalid("the signing key is not an Ed25519 key")
		}
	}
	return nil
}

// validateRead checks the options of a handle that changes nothing.
func (o *Options) validateRead() error {
	switch {
	case o.SignKey != nil:
		return invalid("a signing key is for changing an archive")
	case o.Seed != nil:
		return invalid("a seed is for changing an archive")
	}
	return o.validate()
}

// validateCreate checks the options of a new archive: what would unlock or identify it has no meaning yet.
func (o *Options) validateCreate(c *CreateOptions) error {
	switch {
	case o.Passphrase != nil || o.Identities != nil:
		return invalid("a new archive has nothing to unlock; CreateOptions say how it is encrypted")
	case o.Root != Digest{}:
		return invalid("a new archive has no root that could be expected")
	case len(o.Signers) > 0 && !o.signsAs():
		return invalid("the new archive would not be signed by one of the signers")
	case c.encrypts() && o.Seed != nil:
		return invalid("an encrypted archive cannot be reproducible: its keys are random")
	case int(c.Compression) >= len(levels):
		return invalid("%v is unknown", c.Compression)
	case c.Padding > PadPow2:
		return invalid("padding %d is unknown", c.Padding)
	case c.Sector != 0 && c.Sector != 512 && c.Sector != 4096:
		return invalid("a sector has 512 or 4096 bytes, not %d", c.Sector)
	case c.Passphrase != nil && len(c.Passphrase) == 0:
		return invalid("the passphrase is empty")
	}
	for _, r := range c.Recipients {
		switch {
		case r.Key == nil:
			return invalid("a recipient has no key")
		case len(r.Label) > seal.MaxLabel:
			return invalid("a recipient's label has %d bytes", len(r.Label))
		}
	}
	return o.validate()
}

// signsAs reports whether the signing key is one of the signers.
func (o *Options) signsAs() bool {
	if o.SignKey == nil {
		return false
	}
	for _, k := range o.Signers {
		if k.Equal(o.SignKey.Public()) {
			return true
		}
	}
	return false
}

// engine returns the options as the engine knows them.
func (o *Options) engine(k *keyring) store.Options {
	so := store.Options{
		LockTimeout: o.LockTimeout, Jobs: o.Jobs, CacheBytes: o.CacheBytes, Trust: store.EveryRead, Reproducible: o.Seed != nil,
		Signers: o.pins(),
	}
	if o.Trust == Earned {
		so.Trust = store.Earned
	}
	if len(k.ids) > 0 {
		so.Unlock = k.unlock
	}
	if o.SignKey != nil {
		so.SignKey = signer{o.SignKey}
	}
	if o.Root != (Digest{}) {
		so.ExpectRoot = (*format.Digest)(&o.Root)
	}
	return so
}

func (o *Options) pins() (pins []seal.PublicKey) {
	for _, k := range o.Signers {
		pins = append(pins, seal.PublicKey(k))
	}
	return pins
}
