package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"lockbox/internal/pathsafe"
)

// ExtractOptions says how an Extractor treats what is there and what it restores. The zero value
// replaces nothing and restores permissions, access control lists and times, the sticky bit and the user's extended
// attributes among them, but no owner, no setuid or setgid bit and no capability.
type ExtractOptions struct {
	Overwrite     bool // replace files and links, never directories
	SkipExisting  bool // leave existing files and links alone
	NoPermissions bool // modes as the system gives them to new files
	NoTimes       bool
	SameOwner     bool       // restore owners: by name where the system knows it, else by number
	KeepSetid     bool       // restore setuid and setgid bits, and capabilities of files
	Resume        bool       // let the caller compare existing files and links with what is to be there
	Names         *NameRules // what names the destination can hold; nil to try it out

	// Lost, if not nil, is told once what of an entry's metadata could not be restored; the entry is written all the
	// same. It may be called by several goroutines at once.
	Lost func(path string, err error)
}

func (o ExtractOptions) validate() error {
	if o.Overwrite && o.SkipExisting {
		return errors.New("existing files can be overwritten or skipped, not both")
	}
	if o.Resume && o.SkipExisting {
		return errors.New("existing files can be compared or skipped, not both")
	}
	return nil
}

// Extractor writes entries below one directory. All methods but Finish may be called by several
// goroutines at once. A directory should come before what lies in it; one that does not is made.
// Finish or Abort ends its use.
type Extractor struct {
	opt   ExtractOptions
	host  string
	dirs  *dirCache[string] // by stored path, "" is the destination
	top   *cached[string]   // held open to the end: the path may lead elsewhere by then
	fresh bool              // the destination was made just now
	empty bool              // nothing was in it
	tops  []string          // the directories that were made for it, the outermost last
	anon  bool              // temporary files need no name

	finished atomic.Bool
	foreign  atomic.Uint64

	mu      sync.Mutex
	made    map[string]bool    // directories that are this run's to finish
	found   map[string]bool    // those of them that existed before
	final   map[string]dirMeta // what Finish gives them
	opened  map[string]locked  // those that Preflight opened up
	skipped map[string]bool    // of Preflight and Keep
	origins map[string]origin
	owners  ownerIDs

	existing map[string]bool     // of Preflight with Resume
	kept     map[string]identity // of Keep
	replace  map[string]bool     // of Replace

	// live guards the temporary names. Whoever creates one or gives a file its final name holds it for
	// reading, so that after Abort there is none and none will come.
	live    sync.RWMutex
	aborted atomic.Bool
	tempsMu sync.Mutex
	temps   map[string]*cached[string]
}

// NewExtractor opens dest, and makes it when it is missing.
func NewExtractor(dest string, opt ExtractOptions) (*Extractor, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	x := &Extractor{
		opt: opt, host: dest,
		made: make(map[string]bool), found: make(map[string]bool), final: make(map[string]dirMeta), skipped: make(map[string]bool), opened: make(map[string]locked),
		origins: make(map[string]origin), existing: make(map[string]bool), kept: make(map[string]identity), replace: make(map[string]bool),
		temps: make(map[string]*cached[string]),
	}
	if _, err := os.Stat(dest); errors.Is(err, fs.ErrNotExist) {
		x.tops = missing(dest)
		if err := os.MkdirAll(dest, 0o777); err != nil {
			return nil, err
		}
		x.fresh = true
	}
	x.dirs = newDirCache(extractDirs(), x.openDir)
	var err error
	if x.top, err = x.dirs.acquire(""); err != nil {
		return nil, err
	}
	if x.anon, err = x.canLink(); err != nil {
		x.dirs.release(x.top)
		x.dirs.close()
		return nil, err
	}
	if !x.fresh {
		x.empty = removeStale(x.top.dir)
	}
	return x, nil
}

// missing returns dir and the directories above it that do not exist, dir first.
func missing(dir string) (list []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

// canLink tries out whether a file without a name can get one here. That needs a file system and a
// system that go along, and no way of asking tells both.
// The error is that the trial cannot be removed, and names it: no other way of writing would get on there.
func (x *Extractor) canLink() (bool, error) {
	f, err := x.top.createAnon(0o600)
	if err != nil {
		return false, nil
	}
	defer f.close()
	name := tempName()
	if x.top.link(f, name) != nil {
		return false, nil
	}
	return true, x.removeTrial(x.top.dir, "", name)
}

// removeTrial removes a file that was made in a directory of the destination, at is its path, to find out what can be done there.
func (x *Extractor) removeTrial(d *dir, at, name string) error {
	return x.fail("remove the trial file", strings.TrimPrefix(at+"/"+name, "/"), d.remove(name))
}

// writable finds out whether anything can be made in the destination itself.
func (x *Extractor) writable() error {
	f, err := x.top.createAnon(0o600)
	if errors.Is(err, errNoAnon) {
		name := tempName()
		if f, err = x.top.createNamed(name, 0o600); err == nil {
			return errors.Join(f.close(), x.removeTrial(x.top.dir, "", name))
		}
	}
	if err != nil {
		return err
	}
	return f.close()
}

// hostOf returns the host path of a stored path, for messages.
func (x *Extractor) hostOf(path string) string {
	if path == "" {
		return x.host
	}
	return joinHost(filepath.ToSlash(x.host), path)
}

func (x *Extractor) fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: x.hostOf(path), Err: unwrapPath(err)}
}

// unwrapPath drops the path that os.Root put into an error, which is relative to it.
func unwrapPath(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

func splitPath(p string) (parent, base string) {
	i := strings.LastIndexByte(p, '/')
	return p[:max(i, 0)], p[i+1:]
}

// openDir opens a directory of the destination, and makes it when it is missing.
func (x *Extractor) openDir(path string) (*dir, error) {
	if path == "" {
		d, err := openTop(x.host)
		if err == nil {
			d.findDefaults()
		}
		return d, x.fail("open", path, err)
	}
	parent, base := splitPath(path)
	if err := checkHostName(base, runtime.GOOS == "windows"); err != nil {
		return nil, x.fail("open", path, err)
	}
	up, err := x.dirs.acquire(parent)
	if err != nil {
		return nil, err
	}
	defer x.dirs.release(up)
	d, err := up.sub(base, false)
	if errors.Is(err, fs.ErrNotExist) {
		// No entry told of it, so it is made the way the user's own would be.
		if err = up.mkdir(base, 0o777); err == nil {
			x.mu.Lock()
			x.made[path] = true
			x.mu.Unlock()
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			d, err = up.sub(base, false)
		}
	}
	if err != nil {
		if m, lerr := up.lookup(base, false); lerr == nil && m.Kind != KindDir {
			err = fmt.Errorf("a %s stands where a directory is needed", m.Kind)
		}
		return nil, x.fail("open", path, err)
	}
	d.findDefaults()
	if !x.fresh {
		x.mu.Lock()
		found := !x.made[path] || x.found[path]
		x.mu.Unlock()
		if found {
			removeStale(d)
		}
	}
	return d, nil
}

// place returns the open directory in which path belongs, and its name there.
func (x *Extractor) place(path pathsafe.Path) (*cached[string], string, error) {
	if path.IsZero() {
		return nil, "", errors.New("an entry without a path cannot be extracted")
	}
	if x.aborted.Load() {
		return nil, "", x.fail("create", path.String(), ErrAborted)
	}
	if x.finished.Load() {
		return nil, "", x.fail("create", path.String(), fs.ErrClosed)
	}
	parent, base := splitPath(path.String())
	if err := checkHostName(base, runtime.GOOS == "windows"); err != nil {
		return nil, "", x.fail("create", path.String(), err)
	}
	d, err := x.dirs.acquire(parent)
	return d, base, err
}

// restored is what of m is to be restored.
func (x *Extractor) restored(m Meta) Meta {
	m.Mode &= modeAll
	if !x.opt.KeepSetid {
		m.Mode &^= modeSetuid | modeSetgid
	}
	return m
}

// Mkdir makes a directory, or uses the one that is there. Its metadata is set by Finish; that of
// one that was there before only with Overwrite or Resume, and then attributes that it has beyond m's go. xattrs, if not nil, takes the place of m.Xattrs: Finish and
// Abort call it, so that no large set has to be kept for each directory until then.
func (x *Extractor) Mkdir(path pathsafe.Path, m Meta, xattrs func() ([]Xattr, error)) error {
	up, base, err := x.place(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(up)
	p := path.String()
	m = x.restored(m)
	m.Kind = KindDir
	if xattrs != nil {
		m.Xattrs = nil
	}
	perm := uint32(0o700) // nobody looks in before the final mode says who may
	if x.opt.NoPermissions {
		perm = 0o777
	}
	x.live.RLock()
	if err = ErrAborted; !x.aborted.Load() {
		err = up.mkdir(base, perm)
	}
	x.live.RUnlock()
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return x.fail("make", p, err)
	}
	existed := err != nil
	there, err := up.lookup(base, false)
	if err != nil {
		return x.fail("make", p, err)
	}
	if there.Kind != KindDir {
		return x.fail("make", p, fmt.Errorf("%w: a %s stands where a directory is needed", fs.ErrExist, there.Kind))
	}
	if existed {
		x.mu.Lock()
		made := x.made[p]
		if !made && (x.opt.Overwrite || x.opt.Resume) {
			x.found[p] = true
		}
		found := x.found[p]
		x.mu.Unlock()
		if !made && !found {
			return nil
		}
	}
	// What was there may be read-only; what was made may have been given less than asked for, by the umask or by the
	// directory above it. A file system that knows no better may let it be used all the same.
	if there.Mode&0o700 != 0o700 && !x.opt.NoPermissions {
		if err := x.unlock(up.dir, base, p, there); err != nil && existed {
			return err
		}
	}
	x.mu.Lock()
	x.made[p] = true
	x.final[p] = dirMeta{m, xattrs}
	x.mu.Unlock()
	return nil
}
