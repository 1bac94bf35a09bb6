package vfs

import (
	"io/fs"
	"sync/atomic"
)

// Counts counts what passes through a file system made by Counting. Failed calls count as well;
// BytesRead and BytesWritten are what was really transferred. A Temp's Publish counts as one
// directory sync.
type Counts struct {
	Reads, BytesRead     atomic.Int64
	Writes, BytesWritten atomic.Int64
	Syncs, DirSyncs      atomic.Int64
	Truncates, Locks     atomic.Int64
}

// Tally is the state of Counts at one moment.
type Tally struct {
	Reads, BytesRead     int64
	Writes, BytesWritten int64
	Syncs, DirSyncs      int64
	Truncates, Locks     int64
}

// Snapshot reads the counters one after the other.
func (c *Counts) Snapshot() Tally {
	return Tally{
		Reads: c.Reads.Load(), BytesRead: c.BytesRead.Load(),
		Writes: c.Writes.Load(), BytesWritten: c.BytesWritten.Load(),
		Syncs: c.Syncs.Load(), DirSyncs: c.DirSyncs.Load(),
		Truncates: c.Truncates.Load(), Locks: c.Locks.Load(),
	}
}

// Sub returns what happened between the earlier tally o and t.
func (t Tally) Sub(o Tally) Tally {
	return Tally{
		Reads: t.Reads - o.Reads, BytesRead: t.BytesRead - o.BytesRead,
		Writes: t.Writes - o.Writes, BytesWritten: t.BytesWritten - o.BytesWritten,
		Syncs: t.Syncs - o.Syncs, DirSyncs: t.DirSyncs - o.DirSyncs,
		Truncates: t.Truncates - o.Truncates, Locks: t.Locks - o.Locks,
	}
}

// Counting returns a file system that does what inner does, and counts it.
func Counting(inner FS) (FS, *Counts) {
	c := new(Counts)
	return countingFS{inner, c}, c
}

type countingFS struct {
	FS
	c *Counts
}

func (s countingFS) Open(name string, writable bool) (File, error) {
	f, err := s.FS.Open(name, writable)
	if err != nil {
		return nil, err
	}
	return countingFile{f, s.c}, nil
}

func (s countingFS) CreateTemp(name string, perm fs.FileMode) (Temp, error) {
	t, err := s.FS.CreateTemp(name, perm)
	if err != nil {
		return nil, err
	}
	return countingTemp{countingFile{t, s.c}, t}, nil
}

func (s countingFS) SyncDir(dir string) error {
	s.c.DirSyncs.Add(1)
	return s.FS.SyncDir(dir)
}

type countingFile struct {
	File
	c *Counts
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.Reads.Add(1)
	f.c.BytesRead.Add(int64(n))
	return n, err
}

func (f countingFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.c.Writes.Add(1)
	f.c.BytesWritten.Add(int64(n))
	return n, err
}

func (f countingFile) Truncate(size int64) error {
	f.c.Truncates.Add(1)
	return f.File.Truncate(size)
}

func (f countingFile) Sync() error {
	f.c.Syncs.Add(1)
	return f.File.Sync()
}

func (f countingFile) TryLock(off, n int64, exclusive bool) (bool, error) {
	f.c.Locks.Add(1)
	return f.File.TryLock(off, n, exclusive)
}

type countingTemp struct {
	countingFile
	temp Temp
}

func (t countingTemp) Publish() error {
	t.c.DirSyncs.Add(1)
	return t.temp.Publish()
}
