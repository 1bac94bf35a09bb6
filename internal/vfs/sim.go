package vfs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Sim is a simulated disk below a page cache, with a directory of names. What was written reaches the
// disk when it is synced and no earlier; until then a power cut may keep, of every sector, of a file's
// size and of every name by itself, any version since the last successful sync. Pending lists what is open
// and makes the disks that a power cut can leave behind.
//
// A failed sync leaves the pages clean: the cache shows the new bytes, the disk has any of the versions,
// and no later sync writes them unless they are written again.
//
// A Sim is a file system for one directory. It is safe for concurrent use; Hook is called without a lock.
type Sim struct {
	// Hook is called before every operation that changes something and before every lock. It may look
	// at the disk. What it returns, if not nil, happens to the operation.
	Hook func(SimOp) *Fault
	// NamedTemps gives a Temp a name of its own until it is published, as systems do that know no
	// anonymous files.
	NamedTemps bool
	// NoLinks makes it a file system that knows one name a file.
	NoLinks bool
	// NoDirSync makes Publish leave out the sync of the directory: a fault that tests must notice.
	NoDirSync bool

	mu     sync.Mutex
	sector int
	seq    uint64 // of the last version of anything
	epoch  int    // handles of an earlier one are dead
	temps  int
	names  map[string]*simName
	nodes  []*simNode
}

// SimOp is an operation of a Sim. Data is what a write writes; it must not be kept or changed.
type SimOp struct {
	Op
	Data []byte
}

// Fault is what happens to an operation instead of what should.
type Fault struct {
	Err error // what it returns; with nil only Misdirect has a meaning
	// Kept is how many leading bytes a failing write writes nonetheless. A truncation or a change of
	// names that fails takes effect nonetheless when it is not 0.
	Kept int
	// Misdirect moves a write that reports success to To.
	Misdirect bool
	To        int64
}

// simName is a name of the directory: what it stands for now, on the disk, and the versions between.
type simName struct {
	cache   *simNode // nil: nothing
	durable *simNode
	list    []nameVersion
	dirty   bool
}

type nameVersion struct {
	node *simNode
	seq  uint64
	// A renamed file never loses both names: its old one goes only if its new one, by that version, is there.
	to   string
	toAt uint64
}

// simLimit keeps a wild offset from eating the machine.
const simLimit = 1 << 28

// NewSim returns an empty disk with sectors of 512 or 4096 bytes.
func NewSim(sector int) *Sim {
	return &Sim{sector: sector, names: map[string]*simName{}}
}

// Sector is the size of the disk's sectors.
func (s *Sim) Sector() int { return s.sector }

func simPath(name string) string { return path.Clean(filepath.ToSlash(name)) }

// ask calls the hook.
func (s *Sim) ask(op SimOp) *Fault {
	if s.Hook == nil {
		return nil
	}
	return s.Hook(op)
}

// change asks the hook and performs do, under the lock, unless the fault says otherwise.
func (s *Sim) change(op Op, do func() error) error {
	f := s.ask(SimOp{Op: op})
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil || f.Err == nil {
		return pathErr(op.Kind.String(), op.Name, do())
	}
	if f.Kept > 0 {
		_ = do() // it fails with the fault's error in any case
	}
	return pathErr(op.Kind.String(), op.Name, f.Err)
}

// lookup returns what a name stands for, or nil.
func (s *Sim) lookup(name string) *simNode {
	if n := s.names[simPath(name)]; n != nil {
		return n.cache
	}
	return nil
}

// bind makes a name stand for node, or for nothing.
func (s *Sim) bind(name string, node *simNode) {
	n := s.names[name]
	if n == nil {
		n = &simName{}
		s.names[name] = n
	}
	s.seq++
	n.cache, n.dirty = node, true
	n.list = append(n.list, nameVersion{node: node, seq: s.seq})
}

func (s *Sim) newNode(perm fs.FileMode) *simNode {
	n := &simNode{mode: perm.Perm(), versions: map[int]*pageVersions{}}
	s.nodes = append(s.nodes, n)
	return n
}

func (s *Sim) Open(name string, writable bool) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lookup(name)
	if n == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	return &simFile{sim: s, node: n, name: name, writable: writable, epoch: s.epoch}, nil
}

func (s *Sim) CreateTemp(name string, perm fs.FileMode) (Temp, error) {
	dir, base := path.Split(filepath.ToSlash(name))
	if base == "" || base == "." || base == ".." {
		return nil, pathErr("create", name, fs.ErrInvalid)
	}
	if s.NamedTemps {
		if err := s.cleanStale(); err != nil {
			return nil, err
		}
	}
	t := &simTemp{}
	err := s.change(Op{Kind: OpCreate, Name: name}, func() error {
		n := s.newNode(perm)
		t.simFile = &simFile{sim: s, node: n, name: name, writable: true, epoch: s.epoch}
		if s.NamedTemps {
			s.temps++
			t.temp = path.Join(dir, tempPrefix+strconv.Itoa(s.temps))
			for s.names[t.temp] != nil {
				t.temp += "x"
			}
			s.bind(t.temp, n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.temp != "" {
		if _, err := t.TryLock(tempLockOff, 1, true); err != nil {
			return nil, errors.Join(err, s.Remove(t.temp), t.simFile.Close())
		}
	}
	return t, nil
}

// cleanStale removes the temporary files that nobody has locked.
func (s *Sim) cleanStale() error {
	s.mu.Lock()
	var stale []string
	for name, n := range s.names {
		if strings.HasPrefix(path.Base(name), tempPrefix) && n.cache != nil && len(n.cache.locks) == 0 {
			stale = append(stale, name)
		}
	}
	s.mu.Unlock()
	slices.Sort(stale)
	for _, name := range stale {
		if err := s.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sim) Remove(name string) error {
	return s.change(Op{Kind: OpRemove, Name: name}, func() error {
		if s.lookup(name) == nil {
			return fs.ErrNotExist
		}
		s.bind(simPath(name), nil)
		return nil
	})
}

// Link implements FS.
func (s *Sim) Link(from, to string) error {
	return s.change(Op{Kind: OpLink, Name: to}, func() error {
		switch {
		case s.NoLinks:
			return ErrNoLinks
		case s.lookup(from) == nil:
			return fs.ErrNotExist
		case s.lookup(to) != nil:
			return fs.ErrExist
		}
		s.bind(simPath(to), s.lookup(from))
		return nil
	})
}

// Rename implements FS. A power cut may leave the file with both names, never with none.
func (s *Sim) Rename(from, to string) error {
	return s.change(Op{Kind: OpRename, Name: from}, func() error {
		n := s.lookup(from)
		if n == nil {
			return fs.ErrNotExist
		}
		s.bind(simPath(to), n)
		at := s.seq
		s.bind(simPath(from), nil)
		gone := &s.names[simPath(from)].list
		last := &(*gone)[len(*gone)-1]
		last.to, last.toAt = simPath(to), at
		return nil
	})
}

// SetRights implements FS.
func (s *Sim) SetRights(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.lookup(from), s.lookup(to)
	if a == nil || b == nil {
		return pathErr("chmod", to, fs.ErrNotExist)
	}
	b.mode = a.mode
	return nil
}

// SyncDir makes the names durable. When it fails, they are clean and may be lost.
func (s *Sim) SyncDir(dir string) error {
	f := s.ask(SimOp{Op: Op{Kind: OpSyncDir, Name: dir}})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.names {
		if n.dirty && (f == nil || f.Err == nil) {
			n.durable, n.list = n.cache, nil
		}
		n.dirty = false
	}
	if f != nil {
		return pathErr("sync directory", dir, f.Err)
	}
	return nil
}

// Kill ends all processes: every handle is closed without a trace, its locks vanish, and the cache
// survives.
func (s *Sim) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	for _, n := range s.nodes {
		n.locks = nil
	}
}

// LoseLocks takes all locks on a file away without telling those who hold them.
func (s *Sim) LoseLocks(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.lookup(name); n != nil {
		n.locks = nil
	}
}
