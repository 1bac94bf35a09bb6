package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// ErrConflict is the kind of a change that would store a file where a directory is, or the reverse.
var ErrConflict = errors.New("a file and a directory cannot have the same stored path")

// ErrOutcomeUnknown is the kind of a failed publication: the archive is exactly the old or exactly the new
// generation, and which is seen by opening it again.
var ErrOutcomeUnknown = errors.New("it is not known whether the change was made")

// ErrUnstorable is the kind of an entry that the format cannot hold.
var ErrUnstorable = errors.New("it cannot be stored")

// Options say how a handle works. The zero value is the default.
type Options struct {
	FS           vfs.FS         // nil: the operating system's
	Entropy      io.Reader      // where ids come from; nil: crypto/rand. A fixed stream gives fixed bytes
	LockTimeout  time.Duration  // how long a writer waits for another; 0: 10 s; negative: not at all
	Jobs         int            // workers; 0: AutoJobs
	CacheBytes   int64          // of decoded frames and nodes; 0: 32 MiB
	Trust        Trust          // what a handle that lives long may leave out
	Reproducible bool           // Entropy depends on nothing but the change; an archive changed without is reproducible no more
	ExpectRoot   *format.Digest // refuse (ErrAuth) an archive in any other state

	Unlock  seal.Unlock      // asked for keys when the archive is encrypted; nil: ErrAuth
	Signers []seal.PublicKey // refuse (ErrAuth) an archive that none of these has signed
	// SignKey signs every change. Changing a signed archive without it, or with another key than the archive
	// is signed by, is refused (ErrAuth); so is an archive that is not signed. A created archive is signed when it is set.
	SignKey seal.Signer

	cipher  seal.Algorithm                             // tests: what a new encrypted archive uses; 0: what suits the processor
	observe func(key [seal.KeySize]byte, n seal.Nonce) // tests: every pair that something is sealed with
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 10 * time.Second
	}
	if o.Jobs <= 0 {
		o.Jobs = AutoJobs()
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 32 << 20
	}
	return o
}

// CreateOptions are fixed when an archive is created.
type CreateOptions struct {
	Level        frames.Level
	Sector       int64 // 512 or 4096; 0: 512
	Reproducible bool
	Padding      format.Padding
	Slots        []seal.NewSlot // who can open it; none: it is not encrypted
}

// Archive is an open archive. Reading methods are safe for concurrent use; a writer has at most one
// transaction at a time.
type Archive struct {
	name  string
	opt   Options
	f     vfs.File
	suite seal.Suite
	key   *seal.ContentKey // of an encrypted archive
	// One copy of the key directory is damaged: the next transaction writes it anew.
	mendKeys bool
	leftover bool      // an interrupted rotation has left a file beside it
	id       format.ID // of the archive
	sector   int64
	cache    cache
	stats    counters
	trust    atomic.Pointer[trust]
	recent   recent
	packs    [packClasses]packReader
	finder   [2]finder // of the trees contents and frames
	writer   bool
	temp     vfs.Temp // not nil until a created archive has its name
	locked   bool     // readers: the generation is locked

	mu      sync.Mutex // guards what follows, against Begin, Commit and Close
	cur     *view
	copies  *journal.Copies
	clean   bool // the clean mark names the current generation
	dirty   bool // something was committed through this handle and not yet tidied
	owners  *extentMap
	poison  error // why the handle refuses, or nil
	tx      *Tx
	closed  bool
	written int64 // bytes of the latest transaction

	ceiling int64 // while compacting: the file must not grow beyond it; else 0
}

// view is one committed generation; immutable.
type view struct {
	super  *journal.Super
	commit *journal.Commit
	keys   *journal.KeyDir // of an encrypted archive, with labels
	roots  [5]index.Root
	root   func() format.Digest // the root hash, computed when first asked for
}

func (v *view) tree(t index.Tree) index.Root { return v.roots[t-1] }

// rootOf returns the root hash of a generation, given its commit block in plain form.
func rootOf(s *journal.Super, block []byte) func() format.Digest {
	return sync.OnceValue(func() format.Digest { return s.RootHash(block) })
}

// loadView reads the commit block that s names.
func (a *Archive) loadView(s *journal.Super) (*view, error) {
	c, raw, err := journal.ReadCommit(a.f, s, a.suite)
	if err != nil && skip(fallbackToOlderRoot) {
		return a.olderView(err)
	}
	if err != nil {
		return nil, err
	}
	a.id, a.sector = s.Archive, s.Sector
	v := &view{super: s, commit: c, root: rootOf(s, raw)}
	if err := a.authentic(v); err != nil {
		return nil, err
	}
	cur := format.NewCursor(c.Trees, "root record", s.CommitOff)
	for i := range v.roots {
		v.roots[i] = index.DecodeRoot(cur, a.suite.TagSize())
	}
	if err := cur.Done(); err != nil {
		return nil, err
	}
	size, err := a.f.Size()
	if err != nil {
		return nil, err
	}
	if size < s.End {
		return nil, format.Corrupt("archive", size, "file cut short: it has %d bytes where its superblock says %d", size, s.End)
	}
	if e := a.opt.ExpectRoot; e != nil && v.root() != *e {
		return nil, &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: fmt.Sprintf("the archive's root is %v, expected was %v", v.root(), *e)}
	}
	return v, nil
}

// view returns the current generation.
func (a *Archive) view() *view {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cur
}

// Get returns the entry at a stored path; fs.ErrNotExist when there is none.
func (a *Archive) Get(p pathsafe.Path) (index.Entry, error) {
	return a.getEntry(a.view(), p)
}

func (a *Archive) getEntry(v *view, p pathsafe.Path) (index.Entry, error) {
	key := p.Key()
	value, ok, err := index.Get(a, index.Entries, v.tree(index.Entries), key)
	if err != nil {
		return index.Entry{}, err
	}
	if !ok {
		return index.Entry{}, fmt.Errorf("%s: %w", pathsafe.Quote(p.String()), fs.ErrNotExist)
	}
	return index.DecodeEntry(key, value)
}

// List yields the entry at under, if there is one, and everything below it, in ascending order; the
// zero path yields everything. It stops after the first error.
func (a *Archive) List(under pathsafe.Path) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		v := a.view()
		it := index.NewIter(a, index.Entries, v.tree(index.Entries))
		emit := func(hi []byte) bool {
			for ok := true; ok; ok = it.Next() {
				if hi != nil && bytes.Compare(it.Key(), hi) >= 0 {
					return true
				}
				e, err := index.DecodeEntry(it.Key(), it.Value())
				if !yield(e, err) || err != nil {
					return false
				}
			}
			return true
		}
		if under.IsZero() {
			if it.Seek(nil) && !emit(nil) {
				return
			}
		} else {
			e, err := a.getEntry(v, under)
			switch {
			case err == nil:
				if !yield(e, nil) {
					return
				}
			case !errors.Is(err, fs.ErrNotExist):
				yield(index.Entry{}, err)
				return
			}
			lo, hi := pathsafe.SubtreeRange(under)
			if it.Seek(lo) && !emit(hi) {
				return
			}
		}
		if err := it.Err(); err != nil {
			yield(index.Entry{}, err)
		}
	}
}

// emptyDigest is the BLAKE3-256 of nothing: an empty file has no content.
var emptyDigest = format.Digest(blake3.Sum256(nil))

// Digest returns the BLAKE3-256 of a file's stored bytes; of a sparse file, a digest of its map and its data that no
// other program prints.
func (a *Archive) Digest(e *index.Entry) (format.Digest, error) {
	d := emptyDigest
	if e.Content != 0 {
		c, err := a.content(a.view(), e.Content)
		if err != nil {
			return format.Digest{}, err
		}
		d = c.Digest
	}
	if e.Sparse != nil {
		d = digestSparse(e, d)
	}
	return d, nil
}

// Close ends the handle. A writer first rolls an open transaction back, brings the other superblock
// pair up to date and wipes what is due; when that fails after a commit, the error is a *TidyError:
// the committed state is safe, and the next change finishes the work.
func (a *Archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	var err error
	if a.tx != nil {
		err = a.tx.rollback()
	}
	err = errors.Join(err, a.finish(), a.f.Close())
	a.forget()
	return err
}

// Tidy does what Close does after a commit, and leaves the handle open. What it wipes it records in a new
// generation, so a caller that reports the archive's root calls it first.
func (a *Archive) Tidy() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.tx != nil {
		return nil
	}
	return a.finish()
}

func (a *Archive) finish() error {
	if !a.writer || a.temp != nil || a.poison != nil || !a.dirty {
		return nil
	}
	if err := a.tidy(); err != nil {
		return &TidyError{err}
	}
	return nil
}

// TidyError says that tidying after a successful commit failed. The next change finishes it.
type TidyError struct{ Err error }

func (e *TidyError) Error() string { return "tidying up after the commit: " + e.Err.Error() }
func (e *TidyError) Unwrap() error { return e.Err }
