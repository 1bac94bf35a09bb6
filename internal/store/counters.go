package store

import (
	"sync/atomic"
	"time"
)

// counters counts the work a handle has done. Tests assert them; --timings prints them.
type counters struct {
	Reads, BytesRead, NodesDecoded, FramesDecoded, BlocksVerified, BytesCopied     atomic.Uint64
	CacheHits, CacheMisses, Writes, BytesWritten, BytesWiped, Syncs, FramesWritten atomic.Uint64
	NodesWritten                                                                   atomic.Uint64
	walk, read, encode, write, sync, tree, tidy                                    atomic.Int64 // nanoseconds
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

// Stage is the time that one kind of work took, added up over all workers.
type Stage struct {
	Name string
	Time time.Duration
}

// Stages returns the stage timings of a handle in the order in which data flows.
func (a *Archive) Stages() []Stage {
	s := &a.stats
	return []Stage{
		{"source", time.Duration(s.walk.Load())},
		{"read", time.Duration(s.read.Load())},
		{"encode", time.Duration(s.encode.Load())},
		{"write", time.Duration(s.write.Load())},
		{"tree", time.Duration(s.tree.Load())},
		{"sync", time.Duration(s.sync.Load())},
		{"tidy", time.Duration(s.tidy.Load())},
	}
}

// since adds the time from start on to d.
func since(d *atomic.Int64, start time.Time) { d.Add(int64(time.Since(start))) }
