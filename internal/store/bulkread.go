package store

import "lockbox/internal/frames"

// read fetches a group with one read, or a long raw frame in parts, verifies and decodes it and delivers the pieces.
func (b *bulk) read(g *group) error {
	t := b.a.suite.TagSize()
	if first := &g.refs[0]; first.BlockShift != 0 && first.Class == frames.NoPack && int64(first.Stored) > rawPiece {
		return b.readParts(first, g.wants[0])
	}
	base := g.refs[0].storedOff(t)
	end := &g.refs[len(g.refs)-1]
	n := end.storedOff(t) + int64(end.Stored) + int64(end.TableSize(t)) - base
	buf := getBuf(int(n))
	defer putBuf(buf)
	readErr := b.a.pread(*buf, base, "frame")
	for k := range g.refs {
		ref := &g.refs[k]
		if readErr != nil && len(g.refs) > 1 {
			// Part of the group may still be readable.
			if err := b.read(&group{refs: g.refs[k : k+1], wants: g.wants[k : k+1]}); err != nil {
				return err
			}
			continue
		}
		err := readErr
		if err == nil {
			at := ref.storedOff(t) - base
			err = b.deliver(ref, (*buf)[at:at+int64(ref.Stored)+int64(ref.TableSize(t))], g.wants[k])
		} else {
			err = b.damaged(g.wants[k], err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deliver verifies a frame's stored bytes (with its tag table) and hands out what is wanted of it.
func (b *bulk) deliver(ref *frameRef, stored []byte, ws []want) error {
	plain := stored[:ref.Stored]
	var err error
	switch {
	case ref.BlockShift != 0:
		var t *frames.Table
		if t, err = frames.CheckTable(b.a.suite, b.a.id, &ref.Info, stored[ref.Stored:]); err == nil {
			return b.deliverBlocks(ref, t, plain, 0, ws)
		}
	case ref.Codec == frames.Raw:
		_, err = frames.Check(b.a.suite, b.a.id, &ref.Info, plain)
		b.a.stats.BlocksVerified.Add(1)
	default:
		out := getBuf(int(ref.Plain))
		defer putBuf(out)
		err = b.a.decodeFrame(ref, plain, *out)
		plain = *out
	}
	if err != nil {
		return b.damaged(ws, err)
	}
	for _, w := range ws {
		if err := b.piece(plain, 0, w); err != nil {
			return err
		}
	}
	return nil
}

// readParts reads a raw frame with blocks in parts.
func (b *bulk) readParts(ref *frameRef, ws []want) error {
	size := b.a.suite.TagSize()
	table := getBuf(ref.TableSize(size))
	defer putBuf(table)
	t, err := b.a.readTable(ref, *table)
	if err != nil {
		return b.damaged(ws, err)
	}
	part := max(rawPiece, int64(1)<<ref.BlockShift)
	buf := getBuf(int(min(part, int64(ref.Stored))))
	defer putBuf(buf)
	var some []want
	for at := int64(0); at < int64(ref.Stored); at += part {
		p := (*buf)[:min(part, int64(ref.Stored)-at)]
		some = within(some[:0], ws, at, int64(len(p)))
		if err = b.a.pread(p, ref.storedOff(size)+at, "frame"); err == nil {
			err = b.deliverBlocks(ref, t, p, at, some)
		} else {
			err = b.damaged(some, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within appends to some what of wants lies in n bytes of a frame from position at on.
func within(some, wants []want, at, n int64) []want {
	for _, w := range wants {
		if lo, hi := max(w.in, at), min(w.in+w.len, at+n); lo < hi {
			w.off += lo - w.in
			w.in, w.len = lo, hi-lo
			some = append(some, w)
		}
	}
	return some
}

// deliverBlocks verifies whole blocks of a frame, those from position at on, and hands out what is wanted of
// them. Block by block, so that one damaged block costs only the files that lie in it.
func (b *bulk) deliverBlocks(ref *frameRef, t *frames.Table, plain []byte, at int64, ws []want) error {
	var bad map[int64]error
	for pos := at; pos < at+int64(len(plain)); {
		k := pos >> ref.BlockShift
		lo, hi := t.BlockRange(int(k))
		b.a.stats.BlocksVerified.Add(1)
		if err := t.Open(int(k), plain[lo-at:hi-at]); err != nil {
			if bad == nil {
				bad = make(map[int64]error)
			}
			bad[k] = err
		}
		pos = hi
	}
	for _, w := range ws {
		var err error
		if bad != nil {
			for k := w.in >> ref.BlockShift; k <= (w.in+w.len-1)>>ref.BlockShift && err == nil; k++ {
				err = bad[k]
			}
		}
		if err != nil {
			err = b.damaged([]want{w}, err)
		} else {
			err = b.piece(plain, at, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// piece hands out what is wanted of a frame's plain bytes from position at on.
func (b *bulk) piece(plain []byte, at int64, w want) error {
	for data := plain[w.in-at : w.in-at+w.len]; len(data) > 0; {
		off, n := w.data.from(w.off, int64(len(data)))
		if err := b.fn(Piece{Entry: w.entry, Off: off, Data: data[:n]}); err != nil {
			return err
		}
		w.off, data = w.off+n, data[n:]
	}
	return nil
}
