package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// mirror finds what is stored below the operands and gone from the disk. The walk and the archive have the same
// order, so it needs to hold no more than what may have to go. nil finds nothing.
type mirror struct {
	opt    hostfs.WalkOptions
	roots  []hostfs.Operand // disjoint, in the order of the walk
	next   func() (index.Entry, error, bool)
	stop   func()
	cur    index.Entry // the stored entry that the walk has not come to yet
	more   bool
	err    error
	shares []share         // of each root
	gone   []index.Entry   // what the walk has passed by, before finish has judged it
	unsure []pathsafe.Path // what is at or below these stays: it could not be looked at
	judged bool
}

// share is what the archive has of one root, and how much of that is gone.
type share struct{ stored, gone uint64 }

// startMirror is called before the walk whose items show what is still there.
func (r *adder) startMirror() {
	if !r.opt.mirror || !r.filled {
		return
	}
	m := &mirror{opt: r.walk}
	for _, op := range r.ops {
		if n := len(m.roots); n == 0 || !op.Stored.IsUnder(m.roots[n-1].Stored) {
			m.roots = append(m.roots, op)
		}
	}
	m.shares = make([]share, len(m.roots))
	if !r.stdin.IsZero() {
		m.unsure = append(m.unsure, r.stdin)
	}
	m.next, m.stop = iter.Pull2(m.entries(r.ar))
	r.mirror = m
	m.advance()
}

func (m *mirror) entries(ar catalogue) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		for _, op := range m.roots {
			for e, err := range ar.List(op.Stored) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func (m *mirror) advance() {
	var err error
	if m.cur, err, m.more = m.next(); err != nil {
		m.err, m.more = err, false
	}
	if m.more {
		m.shares[m.root(m.cur.Path)].stored++
	}
}

// see is told of everything that the walk finds, with what it could not look at.
func (m *mirror) see(it *hostfs.Item) {
	if m == nil || it.Path.IsZero() && !m.isRoot(it) {
		return // a name that cannot be stored stands for nothing that is
	}
	if it.Err != nil && !errors.Is(it.Err, hostfs.ErrSkipped) {
		m.unsure = append(m.unsure, it.Path)
	}
	for m.more && m.cur.Path.Compare(it.Path) < 0 {
		m.gone = append(m.gone, m.cur)
		m.advance()
	}
	if m.more && m.cur.Path == it.Path {
		m.advance()
	}
}

// isRoot reports whether an item is an operand.
func (m *mirror) isRoot(it *hostfs.Item) bool {
	return slices.ContainsFunc(m.roots, func(op hostfs.Operand) bool { return op.Stored == it.Path && op.Host == it.Host() })
}

// finish is called when the walk is over. It leaves in gone what has to go.
func (m *mirror) finish(ctx context.Context) error {
	for m.more && m.err == nil {
		m.gone = append(m.gone, m.cur)
		m.advance()
	}
	if m.err != nil {
		return m.err
	}
	slices.SortFunc(m.unsure, pathsafe.Path.Compare)
	kept := m.gone[:0]
	var dir pathsafe.Path              // a directory that is gone, and with it all below
	needed := map[pathsafe.Path]bool{} // directories that are gone, but something below them stays
	for i := range m.gone {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := m.gone[i]
		below := !dir.IsZero() && e.Path.IsUnder(dir)
		if m.stays(&e, below) {
			for up := e.Path; below && up != dir && !needed[up.Parent()]; {
				up = up.Parent()
				needed[up] = true
			}
			continue
		}
		if !below && e.Kind == index.Dir {
			dir = e.Path
		}
		kept = append(kept, e)
	}
	m.gone, m.judged = slices.DeleteFunc(kept, func(e index.Entry) bool { return needed[e.Path] }), true
	return nil
}

// stays reports whether an entry that the walk did not find has to stay all the same: a rule excludes it, it could
// not be looked at, or it is there and was passed over for some other reason. known means that its
// directory is known to be gone.
func (m *mirror) stays(e *index.Entry, known bool) bool {
	for up := e.Path; !up.IsZero(); up = up.Parent() {
		if _, found := slices.BinarySearchFunc(m.unsure, up, pathsafe.Path.Compare); found {
			return true
		}
	}
	if len(m.unsure) > 0 && m.unsure[0].IsZero() {
		return true
	}
	if rel := m.relative(e.Path); rel != "" && m.opt.Filter.ExcludesTree(rel, e.Kind == index.Dir) {
		return true
	}
	if known {
		return false
	}
	_, err := os.Lstat(m.host(e.Path))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// relative is what the filter sees of a stored path.
func (m *mirror) relative(p pathsafe.Path) string {
	if m.opt.Prefix.IsZero() {
		return p.String()
	}
	return strings.TrimPrefix(strings.TrimPrefix(p.String(), m.opt.Prefix.String()), "/")
}

// host is where the file of a stored path would be.
func (m *mirror) host(p pathsafe.Path) string {
	root := &m.roots[m.root(p)]
	rest := strings.TrimPrefix(strings.TrimPrefix(p.String(), root.Stored.String()), "/")
	name := hostfs.HostPath(m.opt.Dir, root.Host)
	if rest == "" {
		return name
	}
	return strings.TrimSuffix(name, "/") + "/" + rest
}

// root is the number of the root that a stored entry is at or below: the last one that does not come after it, as
// a tree is one range and no root lies in another's.
func (m *mirror) root(p pathsafe.Path) int {
	n, found := slices.BinarySearchFunc(m.roots, p, func(op hostfs.Operand, p pathsafe.Path) int { return op.Stored.Compare(p) })
	if found {
		return n
	}
	return n - 1
}

// guard refuses to remove more than half of what is stored of any one root: the disk that is not mounted may be one
// of several.
func (m *mirror) guard(archive string, force bool) error {
	if force {
		return nil
	}
	for i := range m.gone {
		m.shares[m.root(m.gone[i].Path)].gone++
	}
	first, more := -1, uint64(0)
	for i, s := range m.shares {
		switch {
		case s.gone <= s.stored-s.gone:
		case first < 0:
			first = i
		default:
			more++
		}
	}
	if first < 0 {
		return nil
	}
	s := m.shares[first]
	what := fmt.Sprintf("%s of the %s that %s has of %s", plural(s.gone, "entry", "entries"), comma(s.stored), quoted(archive), quoted(m.roots[first].Host))
	if more > 0 {
		what += fmt.Sprintf(", and more than half of %s", plural(more, "other path", "other paths"))
	}
	return &failure{
		code: exitFailed, err: fmt.Errorf("nothing was changed: --mirror would remove %s", what),
		hint: "if they are really gone, and not just on a disk that is not mounted, --force removes them",
	}
}

func (m *mirror) count() uint64 {
	if m == nil || !m.judged {
		return 0
	}
	return uint64(len(m.gone))
}

func (m *mirror) close() {
	if m != nil {
		m.stop()
	}
}

// words says in the summary what was removed; before is what the summary says already.
func (m *mirror) words(before string, dryRun bool) string {
	if m.count() == 0 {
		return ""
	}
	var files, others uint64
	for i := range m.gone {
		if m.gone[i].Kind == index.File {
			files++
		} else {
			others++
		}
	}
	s := "removed " + countEntries(files, others)
	switch {
	case dryRun && before == "":
		return "would remove" + strings.TrimPrefix(s, "removed")
	case dryRun:
		return ", remove" + strings.TrimPrefix(s, "removed")
	case before == "":
		return s
	}
	return ", " + s
}

// removeGone removes what is gone, when everything else is in the transaction.
func (r *adder) removeGone(ctx context.Context, tx *store.Tx) error {
	if r.mirror == nil {
		return nil
	}
	if err := r.judge(ctx); err != nil {
		return err
	}
	for i := range r.mirror.gone {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p := r.mirror.gone[i].Path
		if err := tx.Remove(p); err != nil {
			return err
		}
		r.actionLine(p, "removed", &pending{})
	}
	return nil
}

// judge decides what is gone. What has to go for another reason is not counted as gone.
func (r *adder) judge(ctx context.Context) error {
	m := r.mirror
	if err := m.finish(ctx); err != nil {
		return err
	}
	if len(r.remove) > 0 {
		other := make(map[pathsafe.Path]bool, len(r.remove))
		for _, p := range r.remove {
			other[p] = true
		}
		m.gone = slices.DeleteFunc(m.gone, func(e index.Entry) bool { return other[e.Path] })
	}
	return m.guard(r.opt.archive, r.opt.force)
}

// predictGone says of each entry that is gone that it would be removed.
func (r *adder) predictGone(ctx context.Context) error {
	if r.mirror == nil {
		return nil
	}
	err := r.judge(ctx)
	var f *failure
	if err != nil && !errors.As(err, &f) {
		return err
	}
	for i := range r.mirror.gone {
		e := &r.mirror.gone[i]
		r.actionLine(e.Path, "remove", &pending{})
		if werr := r.predictLine(e.Path, e.Kind, "remove"); werr != nil {
			return werr
		}
	}
	return err
}
