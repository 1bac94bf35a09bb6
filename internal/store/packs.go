package store

import (
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/journal"
)

// pack is a pack that still takes files.
type pack struct {
	buf     *[]byte
	members []frames.Member
}

// pack appends a small content to its class's open pack, and closes the pack when it is full.
func (t *Tx) pack(class uint8, content uint64, data []byte) error {
	p := t.packs[class]
	if p == nil {
		var err error
		if p, err = t.openPack(class); err != nil {
			return err
		}
	}
	if len(*p.buf)+len(data) > maxPack(t.level()) {
		if err := t.closePack(class, journal.NoFrame); err != nil {
			return err
		}
		p = t.emptyPack(class)
	}
	*p.buf = append(*p.buf, data...)
	p.members = append(p.members, frames.Member{Content: content, Len: int64(len(data))})
	if len(*p.buf) >= packTarget(t.level(), class) || len(p.members) == format.MaxMembers {
		return t.closePack(class, journal.NoFrame)
	}
	return nil
}

func (t *Tx) emptyPack(class uint8) *pack {
	// No pack grows much beyond its target before it is closed.
	p := &pack{buf: getBuf(min(2*packTarget(t.level(), class), maxPack(t.level())))}
	*p.buf = (*p.buf)[:0]
	t.packs[class] = p
	return p
}

// openPack starts a pack. The class's last pack, when it was not full, is folded into the new one, so that
// many small transactions do not leave many small packs.
func (t *Tx) openPack(class uint8) (*pack, error) {
	p := t.emptyPack(class)
	last := t.openPacks[class]
	_, ok, err := t.lastPack(class)
	t.openPacks[class] = journal.NoFrame
	if !ok {
		return p, err
	}
	if err := t.unpack(last, class); err != nil {
		return nil, err
	}
	if t.packs[class] == nil { // what was folded in has filled it
		return t.openPack(class)
	}
	return t.packs[class], nil
}

// lastPack returns the plain length of the class's last pack, when that was not full and can be folded in: a
// damaged one stays as it is.
func (t *Tx) lastPack(class uint8) (size int, ok bool, err error) {
	last := t.openPacks[class]
	if last == journal.NoFrame || last >= t.firstFrame || t.gone[last] {
		return 0, false, nil
	}
	if ok, err = t.soundFrame(last); !ok {
		return 0, false, err
	}
	rec, err := t.frameRecord(last)
	if err != nil {
		return 0, false, err
	}
	return int(rec.Plain), true, nil
}

// apart opens an empty pack for the survivors of a committed one and leaves the class's last pack as it is, if the
// two do not fit into one: folding would only write more.
func (t *Tx) apart(number uint64, class uint8) error {
	if t.packs[class] != nil || t.openPacks[class] == number {
		return nil
	}
	size, ok, err := t.lastPack(class)
	if !ok {
		return err
	}
	rec, err := t.frameRecord(number)
	if err != nil {
		return err
	}
	for _, n := range rec.Contents {
		c, err := t.content(n)
		if err != nil {
			return err
		}
		if c.Refs > 0 {
			size += int(c.Size)
		}
	}
	if size > packTarget(t.level(), class) {
		t.emptyPack(class)
	}
	return nil
}

// unpack moves what is still referenced in a committed pack into the class's open pack and gives the
// old frame up.
func (t *Tx) unpack(number uint64, class uint8) error {
	t.gone[number] = true // first: opening a pack on the way must not fold this one in
	rec, err := t.frameRecord(number)
	if err != nil {
		return err
	}
	if rec.Class != class {
		return format.Corrupt(fmt.Sprintf("frame %d", number), rec.Ext.Off, "it is not a pack of class %d", class)
	}
	ref := toRef(number, rec)
	var plain []byte
	for _, n := range rec.Contents {
		c, err := t.content(n)
		if err != nil {
			return err
		}
		if c.Refs == 0 {
			continue
		}
		if len(c.Runs) != 1 || c.Runs[0].Frame != number || c.Runs[0].Unit != 0 {
			return format.Corrupt("frame record", -1, "frame %d lists content %d, which is elsewhere", number, n)
		}
		if plain == nil {
			if plain, err = t.readFrame(&ref); err != nil {
				return err
			}
		}
		r := &c.Runs[0]
		if r.Off < 0 || r.Len <= 0 || r.Off+r.Len > int64(len(plain)) {
			return format.Corrupt("content", -1, "content %d reaches past the end of frame %d", n, number)
		}
		data := plain[r.Off : r.Off+r.Len]
		r.Frame = 0 // in an open pack
		if err := t.pack(class, n, data); err != nil {
			return err
		}
	}
	return nil
}

// closePack hands an open pack to the workers. open is what the next root says of the class, when it is a
// frame: the pack's own number, which the caller gives when the pack is not full.
func (t *Tx) closePack(class uint8, open uint64) error {
	p := t.packs[class]
	t.packs[class] = nil
	if open != journal.NoFrame {
		t.openPacks[class] = open
	}
	if len(p.members) == 0 {
		putBuf(p.buf)
		return nil
	}
	number := t.nextFrame
	off := int64(0)
	for i := range p.members {
		m := &p.members[i]
		if err := t.locate(m.Content, number, off); err != nil {
			return err
		}
		off += m.Len
	}
	t.dispatch(&job{info: frames.Info{Class: class}, plain: p.buf, members: p.members})
	return t.pipe.failure()
}

// locate records where a packed content stands.
func (t *Tx) locate(content, frame uint64, off int64) error {
	if content >= t.firstContent {
		c := t.fresh.at(int(content - t.firstContent))
		c.frame, c.off = frame, off
		return nil
	}
	c, err := t.content(content)
	if err != nil {
		return err
	}
	c.Runs[0].Frame, c.Runs[0].Off = frame, off
	return nil
}
