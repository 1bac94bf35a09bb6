package vfs

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sync"
)

// defaultMemLimit keeps a wild offset from eating the machine.
const defaultMemLimit = 1 << 30

// MemFS is a file system in memory. Names are cleaned but otherwise free: directories are not
// modelled. Syncs do nothing, as nothing can be lost.
type MemFS struct {
	// Hook is called before every operation that changes something, without any lock held, from
	// whatever goroutine performs it. When it returns an error, the operation does nothing and fails
	// with that. Set it before the file system is used.
	Hook func(Op) error
	// Limit is the largest size of a file, 1 GiB if zero; what goes beyond fails with ENOSPC.
	Limit int64

	mu    sync.RWMutex
	files map[string]*memNode
}

// memNode is a file, whatever names and handles it has. The file system's mutex guards it.
type memNode struct {
	data  []byte
	mode  fs.FileMode
	locks fileLocks
}

// Mem returns an empty file system in memory.
func Mem() *MemFS { return &MemFS{files: map[string]*memNode{}} }

func memName(name string) string { return path.Clean(filepath.ToSlash(name)) }

// Put makes name stand for a new file with these bytes. Open handles keep the file they have.
func (m *MemFS) Put(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[memName(name)] = &memNode{data: slices.Clone(data), mode: 0o644}
}

// Bytes returns a copy of the file's bytes, nil when there is no such file.
func (m *MemFS) Bytes(name string) []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.files[memName(name)]
	if n == nil {
		return nil
	}
	return append([]byte{}, n.data...)
}

// Names returns the names of all files, sorted.
func (m *MemFS) Names() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := make([]string, 0, len(m.files))
	for name := range m.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// change asks the hook, then performs do under the lock.
func (m *MemFS) change(op Op, do func() error) error {
	if m.Hook != nil {
		if err := m.Hook(op); err != nil {
			return pathErr(op.Kind.String(), op.Name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathErr(op.Kind.String(), op.Name, do())
}

func (m *MemFS) Open(name string, writable bool) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.files[memName(name)]
	if n == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	return &memFile{fs: m, node: n, name: name, writable: writable}, nil
}

func (m *MemFS) CreateTemp(name string, perm fs.FileMode) (Temp, error) {
	if _, base := path.Split(filepath.ToSlash(name)); base == "" || base == "." || base == ".." {
		return nil, pathErr("create", name, fs.ErrInvalid)
	}
	n := &memNode{mode: perm.Perm()}
	if err := m.change(Op{Kind: OpCreate, Name: name}, func() error { return nil }); err != nil {
		return nil, err
	}
	return &memTemp{memFile: &memFile{fs: m, node: n, name: name, writable: true}}, nil
}

func (m *MemFS) Remove(name string) error {
	return m.change(Op{Kind: OpRemove, Name: name}, func() error {
		if m.files[memName(name)] == nil {
			return fs.ErrNotExist
		}
		delete(m.files, memName(name))
		return nil
	})
}

// Link implements FS.
func (m *MemFS) Link(from, to string) error {
	return m.change(Op{Kind: OpLink, Name: to}, func() error {
		n := m.files[memName(from)]
		if n == nil {
			return fs.ErrNotExist
		}
		if m.files[memName(to)] != nil {
			return fs.ErrExist
		}
		m.files[memName(to)] = n
		return nil
	})
}

// Rename implements FS.
func (m *MemFS) Rename(from, to string) error {
	return m.change(Op{Kind: OpRename, Name: from}, func() error {
		n := m.files[memName(from)]
		if n == nil {
			return fs.ErrNotExist
		}
		delete(m.files, memName(from))
		m.files[memName(to)] = n
		return nil
	})
}

// SetRights implements FS.
func (m *MemFS) SetRights(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, b := m.files[memName(from)], m.files[memName(to)]
	if a == nil || b == nil {
		return pathErr("chmod", to, fs.ErrNotExist)
	}
	b.mode = a.mode
	return nil
}

func (m *MemFS) SyncDir(dir string) error {
	return m.change(Op{Kind: OpSyncDir, Name: dir}, func() error { return nil })
}
