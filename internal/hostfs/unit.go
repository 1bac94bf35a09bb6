package hostfs

import (
	"io/fs"
	"slices"
	"time"
)

// batch is how many entries of a directory are described at once; what a huge directory holds beyond
// that are its names alone.
const batch = 512

// unit is one piece of the work: to list a directory, if that has not been done, and to describe the
// next entries of it.
type unit struct {
	dir    *node
	listed bool
	names  []string // sorted; what is still to be described

	items []Item // the result, in order
	err   error  // the directory could not be listed
	rest  *unit  // what comes after items and all that lies in them

	// For lookahead.
	state      unitState
	prev, next *unit
}

// load does the work of u.
func (w *walk) load(u *unit) {
	start := time.Now()
	d, err := w.dirs.acquire(u.dir)
	if err != nil {
		u.err = err
		return
	}
	defer w.dirs.release(d)
	if !u.listed {
		u.listed = true
		if u.names, err = d.names(); err != nil {
			u.err = &fs.PathError{Op: "list", Path: u.dir.host, Err: err}
			return
		}
		slices.Sort(u.names)
		if w.opt.ExcludeCaches {
			if _, found := slices.BinarySearch(u.names, cacheTag); found && isCache(d.dir) {
				u.names = []string{cacheTag}
			}
		}
	}
	listed := time.Now()
	now := u.names[:min(batch, len(u.names))]
	if len(now) < len(u.names) {
		u.rest = &unit{dir: u.dir, listed: true, names: u.names[len(now):]}
	}
	u.names = nil
	u.items = make([]Item, 0, len(now))
	for _, name := range now {
		w.entry(u, d.dir, name)
	}
	if t := w.opt.Times; t != nil {
		t.List.Add(int64(listed.Sub(start)))
		t.Stat.Add(int64(time.Since(listed)))
	}
}

// entry appends the Item of name, unless it is to be passed over.
func (w *walk) entry(u *unit, d *dir, name string) {
	n := u.dir
	path, err := n.path.Join(name)
	if err != nil {
		u.items = append(u.items, Item{dir: n, name: name, Err: &fs.PathError{Op: "add", Path: joinHost(n.host, name), Err: err}})
		return
	}
	it, err := w.describe(d, n, name, false)
	it.Path = path
	rel := w.relative(path)
	if err != nil {
		if !w.opt.Filter.Excludes(rel, false) {
			it.Err = &fs.PathError{Op: "stat", Path: it.Host(), Err: err}
			u.items = append(u.items, it)
		}
		return
	}
	if w.isSame(&it.Meta) || rel != "" && w.opt.Filter.Excludes(rel, it.Kind == KindDir) {
		return
	}
	w.round(&it, d)
	if it.Kind == KindDir {
		switch {
		case it.follow && leadsUp(n, &it.Meta):
			it.Err = &fs.PathError{Op: "add", Path: it.Host(), Err: ErrLoop}
		case !w.opt.OneFileSystem || it.Dev == n.topDev:
			it.sub = &unit{dir: w.child(n, &it)}
		}
	}
	u.items = append(u.items, it)
}

// leadsUp reports whether m is n or a directory above it.
func leadsUp(n *node, m *Meta) bool {
	for ; n != nil; n = n.parent {
		if m.Ino != 0 && n.id.sameObject(m) {
			return true
		}
	}
	return false
}

// tree yields all that lies in the directory of u. It returns false when the walk is to end.
func (w *walk) tree(u *unit, yield func(Item) bool) bool {
	type frame struct {
		u    *unit
		next int
	}
	w.ahead.push(u)
	stack := []frame{{u: u}}
	fresh := true // the top of the stack has not been loaded yet
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		u := f.u
		if fresh {
			fresh = false
			if !w.ahead.need(u) {
				return true // cancelled; the caller says so
			}
			if u.err != nil && !yield(Item{Path: u.dir.path, Meta: Meta{Kind: KindDir}, host: u.dir.host, Err: u.err}) {
				return false
			}
		}
		if f.next == len(u.items) {
			rest := u.rest
			if rest == nil {
				stack = stack[:len(stack)-1]
				continue
			}
			*f, fresh = frame{u: rest}, true
			continue
		}
		if w.ctx.Err() != nil {
			return true
		}
		it := u.items[f.next]
		u.items[f.next] = Item{}
		f.next++
		sub := it.sub
		it.sub = nil
		if !yield(it) {
			return false
		}
		if sub != nil {
			stack, fresh = append(stack, frame{u: sub}), true
		}
	}
	return true
}
