package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"lockbox/internal/pathsafe"
)

// WalkOptions says what a walk takes. The zero value takes everything, from the current directory,
// without any goroutine of its own.
type WalkOptions struct {
	Dir           string        // operands are relative to it
	Prefix        pathsafe.Path // what stands before every stored name and is hidden from Filter
	Filter        *Filter       // holds for operands and directories above them too
	ExcludeCaches bool          // of a directory marked by a CACHEDIR.TAG take only that tag
	OneFileSystem bool          // do not enter directories on another file system than their operand
	Dereference   bool          // take what a link leads to in its place
	NoRecurse     bool          // take operands without what lies in them
	NoXattrs      bool          // do not read extended attributes
	NoHoles       bool          // read holes as the zeros that they stand for
	SkipSame      []os.FileInfo // never take these: the archive itself
	Jobs          int           // how many may list and stat at once, the caller included; 0 is 1
	Times         *WalkTimes    // takes the time when it is not nil

	// FitSparse is given the holes of a file that is opened and returns those that are to be kept; what lies in
	// the others is read. nil keeps all.
	FitSparse func([]Run) []Run
}

// WalkTimes is what a walk took, in nanoseconds, added up over its goroutines: listing directories, and
// describing what is in them.
type WalkTimes struct{ List, Stat atomic.Int64 }

// Walk yields the operands and all that lies in them. Operands come in the order given, CheckOperands
// makes that the ascending one; within each the stored keys ascend, so a directory precedes what lies in
// it. What cannot be taken comes as an Item with Err, and the walk goes on; so does an operand that Filter
// or SkipSame leaves out, while what they leave out in its tree is passed over. When ctx ends, the last Item
// has no path and ctx's error: a walk that did not end that way was complete.
func Walk(ctx context.Context, operands []Operand, opt WalkOptions) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w := newWalk(ctx, opt)
		defer w.ahead.stop()
		release := context.AfterFunc(ctx, w.ahead.cancel)
		defer release()
		for _, op := range operands {
			if !w.operand(op, yield) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(Item{Err: ctx.Err()})
		}
	}
}

// walk is one run of Walk.
type walk struct {
	*env
	ctx   context.Context
	opt   WalkOptions
	same  []Meta // of SkipSame, where the system has numbers
	ahead *lookahead
	last  *node // directory of the last operand: lists of many files of one directory are common
}

// env is what outlives a walk in the Items that are to be opened.
type env struct {
	dirs      *dirCache[*node]
	owners    ownerNames
	noXattrs  bool
	refused   sync.Map // devices whose file system knows no extended attributes
	noHoles   bool
	fitSparse func([]Run) []Run
}

// node is one directory of the tree, whether it is open or not.
type node struct {
	*env
	parent *node // nil for where an operand starts
	name   string
	host   string // for messages
	top    string // without a parent: the path to open
	path   pathsafe.Path
	follow bool   // reached through a link
	known  bool   // id was confirmed by opening the directory
	id     Meta   // only Kind, Dev and Ino
	topDev uint64 // of the operand
}

func newWalk(ctx context.Context, opt WalkOptions) *walk {
	w := &walk{ctx: ctx, opt: opt, env: &env{dirs: newDirCache(maxDirs, openNode), noXattrs: opt.NoXattrs, noHoles: opt.NoHoles, fitSparse: opt.FitSparse}}
	for _, fi := range opt.SkipSame {
		w.same = append(w.same, metaOf(fi))
	}
	w.ahead = newLookahead(max(opt.Jobs, 1), w.load)
	return w
}

// openNode opens a directory of the tree and makes sure that it is the one that was listed.
func openNode(n *node) (*dir, error) {
	if n.parent == nil {
		d, err := openTop(n.top)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: n.host, Err: err}
		}
		return d, nil
	}
	up, err := n.dirs.acquire(n.parent)
	if err != nil {
		return nil, err
	}
	defer n.dirs.release(up)
	d, err := up.sub(n.name, n.follow)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: n.host, Err: err}
	}
	m, err := d.meta()
	if err == nil && !m.sameObject(&n.id) {
		// Opening may have mounted something, so the first time a second look decides.
		now, lerr := up.lookup(n.name, n.follow)
		if n.known || lerr != nil || !now.sameObject(&m) {
			err = fmt.Errorf("%w: it was replaced by another directory", ErrChanged)
		} else {
			n.id = Meta{Kind: KindDir, Dev: m.Dev, Ino: m.Ino}
		}
	}
	if err != nil {
		_ = d.close()
		return nil, &fs.PathError{Op: "open", Path: n.host, Err: err}
	}
	n.known = true
	return d, nil
}

// operand yields one operand and its tree. It returns false when the walk is to end.
func (w *walk) operand(op Operand, yield func(Item) bool) bool {
	if w.ctx.Err() != nil {
		return true
	}
	fail := func(err error) bool { return yield(Item{Path: op.Stored, host: op.Host, Err: err}) }
	if op.Host == "" {
		return fail(errors.New("an operand is empty"))
	}
	parent, name, self, follow := splitHost(HostPath(w.opt.Dir, op.Host))
	at := w.last
	if at == nil || at.top != parent || self {
		at = &node{env: w.env, host: parent, top: parent}
		if !self {
			w.last = at
		}
	}
	d, err := w.dirs.acquire(at)
	if err != nil {
		// The directory is no operand, so name what the user wrote.
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return fail(&fs.PathError{Op: "open", Path: op.Host, Err: err})
	}
	var it Item
	if self {
		it = Item{Path: op.Stored, host: op.Host, dir: at, name: "."}
		it.Meta, err = d.meta()
	} else {
		it, err = w.describe(d.dir, at, name, follow)
		it.Path, it.host = op.Stored, op.Host
	}
	if err == nil {
		w.round(&it, d.dir)
	}
	w.dirs.release(d)
	if err == nil && it.Kind != KindDir && (op.Stored.IsZero() || follow) {
		err = errNotDir
	}
	if err != nil {
		return fail(&fs.PathError{Op: "stat", Path: op.Host, Err: err})
	}
	if w.isSame(&it.Meta) {
		return fail(&fs.PathError{Op: "add", Path: op.Host, Err: ErrSelf})
	}
	if rel := w.relative(op.Stored); rel != "" && w.opt.Filter.ExcludesTree(rel, it.Kind == KindDir) {
		return fail(&fs.PathError{Op: "add", Path: op.Host, Err: ErrExcluded})
	}
	enter := it.Err == nil && it.Kind == KindDir && !w.opt.NoRecurse
	if !op.Stored.IsZero() && !yield(it) {
		return false
	}
	if !enter {
		return true
	}
	n := at
	if self {
		n.path, n.host = op.Stored, op.Host
		n.id = Meta{Kind: KindDir, Dev: it.Dev, Ino: it.Ino}
	} else {
		n = w.child(at, &it)
		n.host = op.Host
	}
	n.topDev = it.Dev
	return w.tree(&unit{dir: n}, yield)
}

// child makes the node of a directory that was found in n.
func (w *walk) child(n *node, it *Item) *node {
	return &node{
		env: w.env, parent: n, name: it.name, host: joinHost(n.host, it.name), path: it.Path,
		follow: it.follow, id: Meta{Kind: KindDir, Dev: it.Dev, Ino: it.Ino}, topDev: n.topDev,
	}
}

// relative returns what Filter sees of a stored path; "" is what it never sees.
func (w *walk) relative(p pathsafe.Path) string {
	if w.opt.Prefix.IsZero() {
		return p.String()
	}
	if !p.IsUnder(w.opt.Prefix) {
		return ""
	}
	return p.String()[len(w.opt.Prefix.String())+1:]
}

func (w *walk) isSame(m *Meta) bool {
	for i := range w.same {
		if m.Ino != 0 && m.sameObject(&w.same[i]) {
			return true
		}
	}
	return false
}

// describe looks name up in a directory.
func (w *walk) describe(d *dir, n *node, name string, follow bool) (Item, error) {
	it := Item{dir: n, name: name, follow: follow}
	var err error
	it.Meta, err = d.lookup(name, follow)
	if err == nil && it.Kind == KindSymlink {
		if w.opt.Dereference {
			it.follow = true
			it.Meta, err = d.lookup(name, true)
		} else {
			it.Target, err = d.readlink(name)
		}
	}
	return it, err
}

// round completes the Item of what is taken, and gives that of what is never stored the error that says why.
func (w *walk) round(it *Item, d *dir) {
	w.owners.fill(&it.Meta)
	switch it.Kind {
	case KindFile, KindSymlink:
		// A file's attributes are read when it is open. Links have none that are stored.
	case KindDir, KindFIFO, KindChar, KindBlock:
		it.Xattrs, it.XattrErr = w.xattrs(it, d)
	default:
		it.Err = &fs.PathError{Op: "add", Path: it.Host(), Err: fmt.Errorf("%w: it is a %s", ErrSkipped, it.Kind)}
	}
}

const (
	cacheTag       = "CACHEDIR.TAG"
	cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"
)

// isCache reports whether the directory carries a valid tag.
func isCache(d *dir) bool {
	m, err := d.lookup(cacheTag, false)
	if err != nil || m.Kind != KindFile {
		return false
	}
	f, err := d.open(cacheTag, false)
	if err != nil {
		return false
	}
	defer f.close()
	if m, err = f.meta(); err != nil || m.Kind != KindFile {
		return false
	}
	var head [len(cacheSignature)]byte
	n, err := f.readAt(head[:], 0)
	return (err == nil || errors.Is(err, io.EOF)) && string(head[:n]) == cacheSignature
}
