package verify

import (
	"encoding/binary"
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// framesPass reads the frames tree, holds it against the contents and, with Full, has the frames read.
func (c *checker) framesPass() (err error) {
	p := framesPass{c: c, contents: c.lookup(index.Contents)}
	if c.o.Full && c.portion == nil {
		p.data = newReader(c)
		err = p.data.run(func() error { return c.walk(index.Frames, false, p.frame) })
	} else {
		err = c.walk(index.Frames, false, p.frame)
	}
	if err != nil {
		return err
	}
	// Every share that was claimed begins at another place of its frame, so equal numbers mean that no
	// content is left without a frame that lists it.
	if p.claimed != c.contents.parts {
		strays, err := c.strayPass(p.members)
		if err != nil {
			return err
		}
		if strays == 0 && !p.wrong && !c.broken[index.Contents] {
			c.find(KindContent, -1, "contents have %d shares in frames, the frames hold %d", c.contents.parts, p.claimed)
		}
	}
	if p.data != nil {
		if err := p.data.deferred(); err != nil {
			return err
		}
		c.sum.Bytes = uint64(p.data.bytes.Load())
		c.contents.settle()
	}
	return c.openPacks()
}

type framesPass struct {
	c        *checker
	contents *lookup
	data     *reader
	number   uint64 // of rec
	rec      index.Content
	members  uint64 // listed by frames
	claimed  uint64 // of them, those that are where their content says
	wrong    bool   // a frame was found to list what it should not
	quiet    bool   // that was reported before
	shares   []part // of the current frame
}

func (p *framesPass) frame(key, value []byte) error {
	c := p.c
	number := binary.BigEndian.Uint64(key)
	c.sum.Frames++
	c.got.NextFrame = number
	rec, err := index.DecodeFrame(value, c.tag, c.super.Sector)
	if err != nil {
		c.broken[index.Frames] = true
		return c.damage(KindFrame, -1, fmt.Errorf("frame %d: %w", number, err))
	}
	info := infoOf(number, &rec)
	what := c.frameProblem(&info, rec.Ext)
	if what != "" {
		c.broken[index.Frames] = true
		c.find(KindFrame, rec.Ext.Off, "frame %d: record: %s", number, what)
		return nil
	}
	c.owners.add(rec.Ext, ownFrame, number)
	c.got.StoredBytes += uint64(rec.Stored)
	c.got.FrameBytes += uint64(rec.Ext.Len)
	if c.portion != nil {
		c.portion.frame(number, &rec)
	}
	whole, err := p.claim(number, &rec)
	if err != nil || p.data == nil {
		return err
	}
	return p.data.add(job{info: info, ext: rec.Ext, listed: whole}, p.shares)
}

func infoOf(number uint64, r *index.Frame) frames.Info {
	return frames.Info{Number: number, Attempt: r.Attempt, Codec: r.Codec, BlockShift: r.BlockShift, Class: r.Class,
		Plain: r.Plain, Stored: r.Stored, MemberTable: r.MemberTable, Commitment: r.Commitment}
}

// frameProblem says why a frame cannot be read whatever its bytes are, or "".
func (c *checker) frameProblem(info *frames.Info, ext format.Extent) string {
	used := info.Used(c.tag)
	switch what := info.Valid(); {
	case what != "":
		return what
	case ext.Len < used || ext.Len > format.AlignUp(2*used, c.super.Sector):
		// No padding more than doubles a frame, and what is read for one must be bounded.
		return "extent too short or too long for the frame"
	case !c.extentOK(ext):
		return "extent outside the archive"
	}
	return ""
}

// claim shows that the members that a frame lists lie in it one after the other, from its first plain
// byte to its last, and gathers them. It returns false when they do not, or when it cannot be known. It
// goes on behind a member that is not where it should be; that member's bytes are looked at on their own.
func (p *framesPass) claim(number uint64, rec *index.Frame) (whole bool, err error) {
	c, t := p.c, &p.c.contents
	p.shares = p.shares[:0]
	p.members += uint64(len(rec.Contents))
	at, plain := int64(0), int64(rec.Plain)
	whole = true
	wrong := func(detail string, args ...any) {
		if whole && !p.quiet {
			c.find(KindFrame, rec.Ext.Off, "frame %d %s", number, fmt.Sprintf(detail, args...))
			p.wrong = true
		}
		whole = false
	}
	for _, n := range rec.Contents {
		r, ok := t.rank(n)
		if !ok {
			if !c.broken[index.Contents] {
				wrong("lists content %d, which does not exist", n)
			}
			whole = false
			continue
		}
		if p.number != n {
			p.number = 0
			var f found
			if p.rec, f, err = p.contents.contentAt(n); err != nil {
				return false, err
			}
			if f != present {
				whole = false
				continue
			}
			p.number = n
		}
		s, ok := shareFrom(&p.rec, number, at, plain, whole)
		if !ok && whole {
			wrong("lists content %d at byte %d, where that content's record does not place it", n, at)
			s, ok = shareFrom(&p.rec, number, at, plain, false)
		}
		if !ok {
			t.flags[r] |= isDeferred
			continue
		}
		p.claimed++
		at = s.off + s.length
		if s.length == p.rec.Size {
			t.flags[r] |= isWhole
		}
		p.shares = append(p.shares, part{share: s, rank: r, size: p.rec.Size, digest: p.rec.Digest, xattrs: t.flags[r]&isXattrs != 0})
	}
	if whole && at != plain {
		wrong("holds %d bytes, its members %d", plain, at)
	}
	return whole, nil
}

// openPacks checks that the packs that the commit block calls open exist.
func (c *checker) openPacks() error {
	l := c.lookup(index.Frames)
	for class, number := range c.commit.OpenPacks {
		if number == journal.NoFrame {
			continue
		}
		f, state, err := l.frameAt(number)
		if err != nil {
			return err
		}
		if state == absent || state == present && int(f.Class) != class {
			c.find(KindCommit, c.super.CommitOff, "the open pack of class %d is frame %d, which is not there or not such a pack", class, number)
		}
	}
	return nil
}

// deferred reads the contents whose shares do not stand in the order of frames, and what is to be looked at as a
// whole and stands in several frames, one after the other. Each
// may need frames that others need too; a hostile archive could have the same ones decoded for ever, so
// the sum is bounded by a multiple of what all frames hold.
func (r *reader) deferred() error {
	t := &r.c.contents
	l := loner{r: r, contents: r.c.lookup(index.Contents), records: r.c.lookup(index.Frames), w: newWorker(r), budget: 8*int64(r.plain) + 64<<20}
	defer l.w.end()
	var set []byte
	for rank, flags := range t.flags {
		late := flags&isDeferred != 0
		xattrs := flags&isXattrs != 0 && (late || flags&isWhole == 0) && t.size[rank] <= index.MaxXattrsContent
		if !late && !xattrs || flags&isSelected == 0 || t.isBad(rank) {
			continue
		}
		if r.c.portion != nil && !late && flags&isTouched == 0 {
			continue // another run reads it
		}
		l.w.hash.Reset()
		set = set[:0]
		rec, bad, err := l.read(rank, func(b []byte) {
			if late {
				l.w.hash.Write(b)
			}
			if xattrs {
				set = append(set, b...)
			}
		})
		switch {
		case err != nil:
			return err
		case rec == nil:
			continue
		case bad != "":
			t.markBad(rank, bad)
			continue
		}
		if late {
			var sum format.Digest
			l.w.hash.Sum(sum[:0])
			r.digested(rank, rec.Size, sum == rec.Digest, l.last.Number)
		}
		if xattrs {
			t.checkXattrs(rank, set)
		}
	}
	return nil
}

// checkXattrs notes that a content in which an entry has its extended attributes holds something else.
func (t *contents) checkXattrs(rank int, b []byte) {
	if _, err := index.DecodeXattrs(b); err != nil {
		t.markBad(rank, "what should be extended attributes is not: "+detail(err))
	}
}

// loner reads contents on their own.
type loner struct {
	r                 *reader
	contents, records *lookup
	w                 *worker
	budget            int64
	plain             []byte // of the frame that last describes
	last              frames.Info
}

// read gives a content's bytes to use, in order. rec is nil where its record cannot be read, or when it is too late
// to read on; bad says why its bytes cannot be read.
func (l *loner) read(rank int, use func([]byte)) (rec *index.Content, bad string, err error) {
	c := l.r.c
	found, f, err := l.contents.contentAt(c.contents.num[rank])
	if err != nil || f != present {
		return nil, "", err
	}
	stopped := false
	shares(&found, func(frame uint64, s share, _ bool, _ int64) bool {
		if err = c.ctx.Err(); err != nil {
			return false
		}
		if frame != l.last.Number {
			if c.portion != nil && (l.budget < 0 || c.late()) {
				stopped = true // the content counts as not compared
				return false
			}
			if l.budget < 0 {
				c.partial = true
				bad = "not read: too many contents need the same frames"
				return false
			}
			if l.last, l.plain, bad, err = l.w.single(l.records, frame); err != nil || bad != "" {
				l.last = frames.Info{}
				return false
			}
			l.budget -= int64(len(l.plain))
		}
		switch {
		case s.off+s.length > int64(len(l.plain)):
			bad = fmt.Sprintf("it reaches past the end of frame %d", frame)
			return false
		case l.w.hit(&l.last, s):
			bad = fmt.Sprintf("frame %d is damaged", frame)
			return false
		}
		use(l.plain[s.off : s.off+s.length])
		return true
	})
	if stopped {
		return nil, "", nil
	}
	return &found, bad, err
}
