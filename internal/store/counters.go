package store

import (
	"sync/atomic"
	"time"

	"lockbox/internal/vfs"
)

// counters counts the work a handle has done. Tests assert them; --timings prints them.
type counters struct {
	Reads, BytesRead, NodesDecoded, FramesDecoded, BlocksVerified, BytesCopied     atomic.Uint64
	CacheHits, CacheMisses, Writes, BytesWritten, BytesWiped, Syncs, FramesWritten atomic.Uint64
	NodesWritten                                                                   atomic.Uint64
	walk, stat, read, digest, compress, seal, write, sync, tree, commit, tidy      atomic.Int64 // nanoseconds
}

// countedFile counts what passes to and from a file, whoever calls it; failed calls count as well.
type countedFile struct {
	vfs.File
	stats *counters
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.stats.Reads.Add(1)
	f.stats.BytesRead.Add(uint64(n))
	return n, err
}

func (f countedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.stats.Writes.Add(1)
	f.stats.BytesWritten.Add(uint64(n))
	return n, err
}

func (f countedFile) Sync() error {
	f.stats.Syncs.Add(1)
	return f.File.Sync()
}

// Counters is a snapshot of the work that a handle has done since it was opened.
type Counters struct {
	Reads, BytesRead                        uint64 // reads of the archive file
	NodesDecoded, FramesDecoded             uint64 // nodes parsed, compressed frames decoded
	BlocksVerified                          uint64 // tags checked over frames' bytes
	BytesCopied                             uint64 // plain bytes copied between buffers
	CacheHits, CacheMisses                  uint64
	Writes, BytesWritten, BytesWiped, Syncs uint64 // of the archive file
	FramesWritten, NodesWritten             uint64
}

// Counters returns what the handle has done so far.
func (a *Archive) Counters() Counters {
	s := &a.stats
	return Counters{
		Reads: s.Reads.Load(), BytesRead: s.BytesRead.Load(),
		NodesDecoded: s.NodesDecoded.Load(), FramesDecoded: s.FramesDecoded.Load(),
		BlocksVerified: s.BlocksVerified.Load(), BytesCopied: s.BytesCopied.Load(),
		CacheHits: s.CacheHits.Load(), CacheMisses: s.CacheMisses.Load(),
		Writes: s.Writes.Load(), BytesWritten: s.BytesWritten.Load(), BytesWiped: s.BytesWiped.Load(), Syncs: s.Syncs.Load(),
		FramesWritten: s.FramesWritten.Load(), NodesWritten: s.NodesWritten.Load(),
	}
}

// Stage is the time that one kind of work took, added up over all workers. "sync" is part of "commit" and "tidy".
type Stage struct {
	Name string
	Time time.Duration
}

// Stages returns the stage timings of a handle in the order in which data flows.
func (a *Archive) Stages() []Stage {
	s := &a.stats
	return []Stage{
		{"walk", time.Duration(s.walk.Load())},
		{"stat", time.Duration(s.stat.Load())},
		{"read", time.Duration(s.read.Load())},
		{"digest", time.Duration(s.digest.Load())},
		{"compress", time.Duration(s.compress.Load())},
		{"seal", time.Duration(s.seal.Load())},
		{"write", time.Duration(s.write.Load())},
		{"tree", time.Duration(s.tree.Load())},
		{"commit", time.Duration(s.commit.Load())},
		{"sync", time.Duration(s.sync.Load())},
		{"tidy", time.Duration(s.tidy.Load())},
	}
}

// Walked takes note of the time that finding the sources took: listing directories, and describing what is in
// them.
func (a *Archive) Walked(list, stat time.Duration) {
	a.stats.walk.Add(int64(list))
	a.stats.stat.Add(int64(stat))
}

// since adds the time from start on to d.
func since(d *atomic.Int64, start time.Time) { d.Add(int64(time.Since(start))) }

// lap is since that returns now, where the next stage starts.
func lap(d *atomic.Int64, start time.Time) time.Time {
	now := time.Now()
	d.Add(int64(now.Sub(start)))
	return now
}
