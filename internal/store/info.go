package store

import (
	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// Info describes the handle's generation.
type Info struct {
	ID                        format.ID
	Generation                uint64
	Root                      format.Digest
	Suite                     format.Suite
	Cipher                    string         // of an encrypted archive, else ""
	Locked                    bool           // only what shows without a key is known: ID, Generation, Suite, Cipher, Sector, Slots, FileSize, CopiesDamaged
	Signer                    seal.PublicKey // whose signature has verified; zero in an archive that is not signed
	Slots                     []seal.Slot    // of an encrypted archive
	Level                     frames.Level
	Padding                   format.Padding
	Reproducible              bool
	Sector                    int64
	Entries, Contents, Frames uint64
	PlainBytes, StoredBytes   uint64
	FrameBytes, NodeBytes     uint64 // of extents
	FileSize, FreeBytes       int64  // free: usable without growing the file
	PendingWipe               int64  // bytes that hold something deleted and are not yet overwritten
	CopiesDamaged             int    // superblock copies that cannot be read, of four
	Heights                   [5]int // of the trees entries, contents, digests, frames, free
	Clean                     bool   // a writer: the archive was closed in order
}

// Info returns what the archive says of itself. It decodes no node.
func (a *Archive) Info() (Info, error) {
	a.mu.Lock()
	v, copies := a.cur, a.copies
	a.mu.Unlock()
	size, err := a.f.Size()
	if err != nil {
		return Info{}, err
	}
	k := &v.commit.Counters
	in := Info{
		ID: v.super.Archive, Generation: v.super.Generation, Root: v.root(), Suite: v.super.Suite,
		Signer: v.commit.Signer,
		Level:  frames.Level(v.commit.Options.Level), Padding: v.commit.Options.Padding, Reproducible: v.commit.Options.Reproducible,
		Sector: v.super.Sector, Entries: k.Entries, Contents: v.tree(index.Contents).Count, Frames: v.tree(index.Frames).Count,
		PlainBytes: k.PlainBytes, StoredBytes: k.StoredBytes, FrameBytes: k.FrameBytes, NodeBytes: k.NodeBytes,
		FileSize: size, FreeBytes: int64(k.FreeBytes), CopiesDamaged: copies.Damaged(),
	}
	if v.keys != nil {
		in.Cipher, in.Slots = v.super.Cipher.String(), v.keys.Public()
	}
	for _, p := range v.commit.Stage {
		in.FreeBytes += p.Len
	}
	for _, p := range v.commit.Retire {
		if p.Deleted {
			in.PendingWipe += p.Len
		}
	}
	for i, r := range v.roots {
		in.Heights[i] = int(r.Height)
	}
	in.Clean, err = journal.Marked(a.f, v.super)
	in.Clean = in.Clean && copies.AllEqual()
	return in, err
}
