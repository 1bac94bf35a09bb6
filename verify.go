package lockbox

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// VerifyOptions say what is checked. The zero value checks everything.
type VerifyOptions struct {
	Structure bool                   // only the structure: copies, index, ownership of the file's parts, and no stored contents
	Only      func(path string) bool // of the contents only those of the entries that it selects; nil: all
	Rate      int64                  // bytes a second that are read at most; 0: no bound
	Finding   func(Finding)          // hears at once of everything that is wrong; called by one goroutine at a time
	Progress  func(done, total int64)
}

// Finding is one thing that is wrong.
type Finding struct {
	Path   string // the stored path when it concerns an entry, else ""
	Kind   string // "frame", "node", ...; "repairable" when only redundancy is lost, which the next change mends
	Detail string
	Offset int64 // in the archive's file, or -1
}

// Report is what a check found.
type Report struct {
	Generation uint64
	Root       Digest
	Signer     ed25519.PublicKey // whose signature has verified; nil when it is not signed
	Entries    uint64            // that were checked
	Bytes      uint64            // of contents that were compared with their digests
	Damaged    int               // entries and structures
	Repairable int               // findings that cost redundancy only
	Complete   bool              // false when damage hid a part of the archive
}

func report(s *verify.Summary) Report {
	r := Report{
		Generation: s.Generation, Root: Digest(s.Root), Entries: s.Entries, Bytes: s.Bytes,
		Damaged: s.Damaged, Repairable: s.Repairable, Complete: s.Complete,
	}
	if !s.Signer.IsZero() {
		r.Signer = s.Signer[:]
	}
	return r
}

// Verify checks an archive's file with code of its own, which shares neither reader nor cache with Open, and writes
// nothing. Everything that is damaged is told to v.Finding, the rest is still checked, and the error is of kind
// ErrCorrupt. nil means that all that was asked for is sound. Of o the keys, signers, root, jobs and the time to wait
// count; it may be used while others change the archive.
func Verify(ctx context.Context, name string, o Options, v VerifyOptions) (Report, error) {
	r, err := check(ctx, name, &o, &v)
	return r, failure("verify", name, "", err)
}

var errMovedOn = errors.New("the archive changed while it was checked")

func check(ctx context.Context, name string, o *Options, v *VerifyOptions) (r Report, err error) {
	switch {
	case v.Structure && v.Only != nil:
		return r, invalid("Only selects contents, and Structure checks none")
	case v.Rate < 0:
		return r, invalid("a rate of %d", v.Rate)
	}
	if err := o.validateRead(); err != nil {
		return r, err
	}
	keys, err := o.keyring()
	if err != nil {
		return r, err
	}
	defer keys.wipe()
	f, err := vfs.OS().Open(name, false)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for range 10 {
		if r, err = checkOnce(ctx, f, name, o, v, keys); !errors.Is(err, errMovedOn) {
			return r, err
		}
	}
	return r, &format.Error{Kind: ErrBusy, Offset: -1, Detail: "it changed faster than it could be checked"}
}

// checkOnce checks the current state while it is held against overwriting.
func checkOnce(ctx context.Context, f vfs.File, name string, o *Options, v *VerifyOptions, keys *keyring) (r Report, err error) {
	so := o.engine(keys)
	so.ExpectRoot = nil // held against what the check finds
	moved := func() bool { return false }
	held, err := store.Open(ctx, name, so)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, held.Close()) }()
		moved = func() bool { return held.Recheck() != nil }
		in, err := held.Info()
		if err == nil {
			err = keys.fits(in.Suite)
		}
		if err != nil {
			return r, err
		}
	case ctx.Err() != nil, errors.Is(err, ErrAuth), errors.Is(err, ErrBusy):
		return r, err
	}
	// What cannot be opened is checked all the same: that says what is wrong with it.
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	again := false
	vo := verify.Options{Full: !v.Structure, Unlock: so.Unlock, Signers: so.Signers, Jobs: o.Jobs, Rate: v.Rate, Progress: v.Progress}
	if vo.Jobs == 0 {
		vo.Jobs = store.AutoJobs()
	}
	if v.Only != nil {
		vo.Only = func(p pathsafe.Path) bool { return v.Only(p.String()) }
	}
	vo.Finding = func(found verify.Finding) {
		// What another process overwrites where there are no locks is not damage.
		if again = again || moved(); again {
			cancel()
		} else if v.Finding != nil {
			v.Finding(Finding(found))
		}
	}
	sum, err := verify.Run(run, f, vo)
	r = report(&sum)
	switch {
	case again || err != nil && moved():
		return r, errMovedOn
	case err != nil:
		return r, err
	case r.Damaged > 0 || !r.Complete:
		return r, &format.Error{Kind: ErrCorrupt, Offset: -1, Detail: fmt.Sprintf("%d entries and structures", r.Damaged)}
	case o.Root != Digest{} && r.Root != o.Root:
		return r, &format.Error{Kind: ErrAuth, Offset: -1, Detail: fmt.Sprintf("the root is %v, expected was %v", r.Root, o.Root)}
	}
	return r, nil
}

// ScrubOptions say how Scrub reads.
type ScrubOptions struct {
	MaxAge time.Duration   // every byte is to be read again within this time
	Rate   int64           // bytes a second at most; 0: no bound
	Damage func(Finding)   // hears at once of everything that is wrong
	Pass   func(ScrubPass) // hears of the end of every pass; nil: nobody does
}

// ScrubPass is one reading of the whole archive.
type ScrubPass struct {
	Report
	Began time.Time
	Took  time.Duration
	Age   time.Duration // for no longer than this was a byte left unread; above MaxAge when Rate is too low
	// Cached says that the system could not be asked to forget what it has cached, so bytes may have come from
	// memory.
	Cached bool
}

// Scrub reads the archive again and again, past all caches, and reports what has rotted; what the handle trusts
// (Earned) it then verifies anew. It runs beside a handle that lives long until ctx ends, whose error it returns, the
// handle is closed (fs.ErrClosed), or the archive cannot be read any more. Passes begin half of MaxAge apart, each
// reads the state that is current then.
func (a *Archive) Scrub(ctx context.Context, o ScrubOptions) error {
	if err := a.gate.enter(); err != nil {
		return failure("scrub", a.name, "", err)
	}
	a.gate.leave() // Close ends it and does not wait
	if o.MaxAge <= 0 || o.Rate < 0 || o.Damage == nil {
		return failure("scrub", a.name, "", invalid("it needs a MaxAge above 0, no rate below 0 and somebody to tell of damage"))
	}
	return failure("scrub", a.name, "", a.scrub(ctx, o))
}

func (a *Archive) scrub(ctx context.Context, o ScrubOptions) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-a.closed:
			cancel(fs.ErrClosed)
		case <-ctx.Done():
		}
	}()
	f, err := vfs.OS().Open(a.name, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	read := a.opt
	read.SignKey, read.Root = nil, Digest{}
	so := read.engine(a.keys)
	so.Reproducible = false
	vo := verify.ScrubOptions{MaxAge: o.MaxAge, Rate: o.Rate, Unlock: so.Unlock, Signers: so.Signers}
	vo.Damage = func(found verify.Finding) {
		if a.gate.enter() == nil {
			a.s.DropTrust()
			a.gate.leave()
		}
		o.Damage(Finding(found))
	}
	if o.Pass != nil {
		vo.Pass = func(p verify.Pass) {
			o.Pass(ScrubPass{Report: report(&p.Summary), Began: p.Began, Took: p.Took, Age: p.Age, Cached: p.Cached})
		}
	}
	vo.Hold = func(ctx context.Context) (verify.Holder, error) {
		if same, err := f.SameFile(a.name); err != nil {
			return nil, err
		} else if !same {
			return nil, &format.Error{Kind: ErrChanged, Offset: -1, Detail: "its path came to name another file"}
		}
		return store.Open(ctx, a.name, so)
	}
	err = verify.Scrub(ctx, f, vo)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
