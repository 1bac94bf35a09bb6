package lockbox

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"lockbox/internal/format"
	"lockbox/internal/store"
)

// Archive is an open archive. It is an fs.FS. See the package's documentation for what may be done concurrently.
type Archive struct {
	name string
	opt  Options
	s    *store.Archive
	keys *keyring
	gate gate

	writer   bool
	changing atomic.Bool // a transaction is open

	closing sync.Once
	closed  chan struct{}
	lastErr error // of Close
}

// Open opens an archive for reading the state that it is in. It writes nothing, and the state stays readable until
// Close whatever is changed meanwhile.
func Open(ctx context.Context, name string, o Options) (*Archive, error) {
	if err := o.validateRead(); err != nil {
		return nil, failure("open", name, "", err)
	}
	return open(ctx, name, o, false, store.Open)
}

// OpenWrite opens an archive for changing. When its last writer did not close it in order, it is repaired first.
func OpenWrite(ctx context.Context, name string, o Options) (*Archive, error) {
	if err := o.validate(); err != nil {
		return nil, failure("open", name, "", err)
	}
	if o.Seed == nil {
		return open(ctx, name, o, true, store.OpenWrite)
	}
	// Repairing may draw ids already, so the root that they follow from is looked up first.
	r := o
	r.SignKey, r.Seed = nil, nil
	before, err := open(ctx, name, r, false, store.Open)
	if err != nil {
		return nil, err
	}
	in, err := before.Info()
	if err = errors.Join(err, before.Close()); err == nil && in.Encrypted {
		err = failure("open", name, "", invalid("an encrypted archive cannot be reproducible: its keys are random"))
	}
	if err != nil {
		return nil, err
	}
	return open(ctx, name, o, true, func(ctx context.Context, name string, so store.Options) (*store.Archive, error) {
		so.Entropy = o.ids(format.Digest(in.Root), CreateOptions{})
		return store.OpenWrite(ctx, name, so)
	})
}

// Create makes a new archive. It has no name until its first Commit, which therefore makes it complete and durable
// with everything that it begins with; Close before that leaves nothing behind. fs.ErrExist when the name is taken.
func Create(ctx context.Context, name string, o Options, c CreateOptions) (*Archive, error) {
	if err := o.validateCreate(&c); err != nil {
		return nil, failure("create", name, "", err)
	}
	if c.Sector == 0 {
		c.Sector = 512
	}
	slots, err := c.slots()
	if err != nil {
		return nil, failure("create", name, "", err)
	}
	// The pins were held against the key that signs; there is no signature yet that they could be held against.
	o.Signers = nil
	return open(ctx, name, o, true, func(ctx context.Context, name string, so store.Options) (*store.Archive, error) {
		if o.Seed != nil {
			so.Entropy = o.ids(format.Digest{}, c)
		}
		a, err := store.Create(ctx, name, so, store.CreateOptions{
			Level: levels[c.Compression], Sector: int64(c.Sector), Reproducible: o.Seed != nil, Padding: format.Padding(c.Padding), Slots: slots,
		})
		if err != nil {
			return nil, failure("create", name, "", err)
		}
		return a, nil
	})
}

func open(ctx context.Context, name string, o Options, writer bool, engine func(context.Context, string, store.Options) (*store.Archive, error)) (*Archive, error) {
	keys, err := o.keyring()
	if err != nil {
		return nil, failure("open", name, "", err)
	}
	s, err := engine(ctx, name, o.engine(keys))
	if err == nil {
		var in store.Info
		if in, err = s.Info(); err == nil {
			err = keys.fits(in.Suite)
		}
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		keys.wipe()
		return nil, failure("open", name, "", err)
	}
	a := &Archive{name: name, opt: o, s: s, keys: keys, writer: writer, closed: make(chan struct{})}
	a.gate.idle = make(chan struct{}, 1)
	return a, nil
}

// Close ends the handle. It waits for what is under way, so it must not be called from a callback. An open
// transaction is rolled back. Then what commits have removed is overwritten, as far as no reader needs it; an error
// of kind ErrUntidy says that this failed. Closing again gives the same error.
func (a *Archive) Close() error {
	a.closing.Do(func() {
		close(a.closed)
		a.gate.shut()
		a.lastErr = failure("close", a.name, "", untidy(a.s.Close()))
		a.keys.wipe()
	})
	return a.lastErr
}

// Tidy overwrites what commits have removed, as Close does, and leaves the handle open. It does nothing while a
// transaction is open.
func (a *Archive) Tidy() error {
	if err := a.gate.enter(); err != nil {
		return failure("tidy", a.name, "", err)
	}
	defer a.gate.leave()
	return failure("tidy", a.name, "", untidy(a.s.Tidy()))
}

func untidy(err error) error {
	if t := (*store.TidyError)(nil); errors.As(err, &t) {
		return fmt.Errorf("%w: %w", ErrUntidy, err)
	}
	return err
}

// Info describes the state that a handle reads.
type Info struct {
	ID         [16]byte
	Generation uint64 // counts commits
	Root       Digest // authenticates all of the state

	Encrypted bool
	Slots     []Slot // who can open it
	Signed    bool
	Signer    ed25519.PublicKey // whose signature has verified; nil when it is not signed

	Compression  Compression
	Padding      Padding
	Sector       int
	Reproducible bool

	Entries                 uint64
	PlainBytes, StoredBytes uint64 // of contents, and of these as they are stored
	FileSize, FreeBytes     int64  // free: usable without growing the file
	PendingWipe             int64  // bytes that hold something removed and are not yet overwritten
	CopiesDamaged           int    // superblock copies that cannot be read, of four: the next change mends them
}

// Slot is a key slot: its number, the kinds of keys that it is for, and its label.
type Slot struct {
	Number int
	Kinds  []string
	Label  string
}

// Info says what the archive is. It reads nothing of what is stored.
func (a *Archive) Info() (Info, error) {
	if err := a.gate.enter(); err != nil {
		return Info{}, failure("info", a.name, "", err)
	}
	defer a.gate.leave()
	in, err := a.s.Info()
	if err != nil {
		return Info{}, failure("info", a.name, "", err)
	}
	out := Info{
		ID: in.ID, Generation: in.Generation, Root: Digest(in.Root), Encrypted: in.Suite.Encrypted(), Signed: in.Suite.Signed(),
		Compression: compressionOf(in.Level), Padding: Padding(in.Padding), Sector: int(in.Sector), Reproducible: in.Reproducible,
		Entries: in.Entries, PlainBytes: in.PlainBytes, StoredBytes: in.StoredBytes,
		FileSize: in.FileSize, FreeBytes: in.FreeBytes, PendingWipe: in.PendingWipe, CopiesDamaged: in.CopiesDamaged,
	}
	if !in.Signer.IsZero() {
		out.Signer = in.Signer[:]
	}
	for _, s := range in.Slots {
		out.Slots = append(out.Slots, Slot{Number: s.Number, Kinds: s.Kinds, Label: s.Label})
	}
	return out, nil
}

// Root returns the root digest of the state that the handle reads: whoever knows it can have Options.Root hold an
// archive to it.
func (a *Archive) Root() (Digest, error) {
	in, err := a.Info()
	return in.Root, err
}

// Counters is the work that a handle has done since it was opened.
type Counters struct {
	Reads, BytesRead                        uint64 // reads of the archive's file
	NodesDecoded, FramesDecoded             uint64 // index nodes parsed, compressed frames decoded
	BlocksVerified                          uint64 // tags checked over stored bytes
	BytesCopied                             uint64 // plain bytes copied between buffers
	CacheHits, CacheMisses                  uint64
	Writes, BytesWritten, BytesWiped, Syncs uint64 // of the archive's file
	FramesWritten, NodesWritten             uint64
}

// Counters returns what the handle has done so far. It can be called after Close.
func (a *Archive) Counters() Counters { return Counters(a.s.Counters()) }

var (
	_ fs.ReadDirFS  = (*Archive)(nil)
	_ fs.ReadFileFS = (*Archive)(nil)
	_ fs.StatFS     = (*Archive)(nil)
	_ fs.ReadLinkFS = (*Archive)(nil)
)
