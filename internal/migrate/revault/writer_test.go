package revault

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"testing"

	"filippo.io/mldsa"

	"lockbox/internal/format"
)

var le = binary.LittleEndian

// writer makes archives for tests: what the samples do not have, and what no writer would make.
type writer struct {
	t       testing.TB
	version int
	key     []byte
	id      format.ID
	seq     uint64 // of the pages to come
	buf     []byte
	dirs    [2]int64
	nonce   uint64
}

func newWriter(t testing.TB, version int) *writer {
	w := &writer{t: t, version: version, key: []byte("a key for tests"), id: format.ID{1, 2, 3}, seq: 5}
	w.buf = make([]byte, headerV1)
	if version == 2 {
		w.buf = make([]byte, frontV2)
	}
	return w
}

// sized is b with its length before it: 2, 4 or 8 bytes of it, or 0 for a varint.
func sized(width int, b []byte) []byte {
	switch width {
	case 2:
		return append(le.AppendUint16(nil, uint16(len(b))), b...)
	case 4:
		return append(le.AppendUint32(nil, uint32(len(b))), b...)
	case 8:
		return append(le.AppendUint64(nil, uint64(len(b))), b...)
	}
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

func text(s string) []byte { return sized(2, []byte(s)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func u8(n uint8) []byte   { return []byte{n} }
func u16(n uint16) []byte { return le.AppendUint16(nil, n) }
func u32(n int) []byte    { return le.AppendUint32(nil, uint32(n)) }
func u64(n uint64) []byte { return le.AppendUint64(nil, n) }
func uv(ns ...uint64) []byte {
	var b []byte
	for _, n := range ns {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// objectBytes is one object of a page.
func objectBytes(kind uint8, id uint64, payload []byte) []byte {
	return join(u8(kind), u8(1), u16(0), u64(id), sized(8, payload))
}

// page appends a page with one object.
func (w *writer) page(kind uint8, payload []byte) int64 {
	return w.body(join(u8(1), u8(0), u16(0), u64(uint64(len(payload)+24)), u32(0), u32(1), objectBytes(kind, 1, payload)), kind == kindKeyDir)
}

// body appends a page with the body b.
func (w *writer) body(b []byte, clearText bool) int64 {
	off := int64(len(w.buf))
	h := make([]byte, 64, pageHeader)
	copy(h, magicPage)
	le.PutUint16(h[8:], 1)
	le.PutUint32(h[12:], pageHeader)
	le.PutUint64(h[16:], uint64(off))
	le.PutUint64(h[24:], w.seq)
	ps := &pages{id: w.id}
	if clearText {
		le.PutUint16(h[10:], unencrypted)
		le.PutUint32(h[44:], uint32(len(b)+clearSum))
		sum := checksum(b)
		b = join(sum[:], b)
	} else {
		w.nonce++
		le.PutUint64(h[32:], w.nonce)
		le.PutUint32(h[44:], uint32(len(b)+16))
		b = pageCipher(w.key).Seal(nil, h[32:44], b, ps.bound(h))
	}
	sum := checksum(h)
	w.buf = join(w.buf, h, sum[:], b)
	for (int64(len(w.buf))-int64(len(w.front())))%pageStep != 0 {
		w.buf = append(w.buf, 0)
	}
	return off
}

func (w *writer) front() []byte {
	if w.version == 1 {
		return w.buf[:headerV1]
	}
	return w.buf[:frontV2]
}

// keyDirectory appends copies of a directory with these slots.
func (w *writer) keyDirectory(slots ...[]byte) {
	for i := range w.dirs {
		body := join(slots...)
		w.dirs[i] = w.page(kindKeyDir, join([]byte(magicKeyDir), u16(1), u16(0), u32(64), u64(uint64(68+len(body))), u64(1), w.id[:],
			u32(i), make([]byte, 12), u32(len(slots)), body))
	}
}

// commit appends a root over these trees, and a signature. It returns both offsets.
func (w *writer) commit(toc, variables, forms int64, wiped bool) (root, auth int64) {
	root, payload := w.root(toc, variables, forms, wiped)
	return root, w.sign(root, payload)
}

func (w *writer) root(toc, variables, forms int64, wiped bool) (off int64, payload []byte) {
	kind, size := uint8(1), rootSize
	if wiped {
		kind, size = 2, rootSizeWipe
	}
	payload = make([]byte, size)
	copy(payload, join(u8(kind), make([]byte, 7), u64(w.seq), u64(uint64(toc)), u64(uint64(variables)), u64(uint64(forms))))
	return w.page(kindRoot, payload), payload
}

// sign appends a signature by keys from fixed seeds.
func (w *writer) sign(root int64, payload []byte) int64 {
	one := ed25519.NewKeyFromSeed(make([]byte, 32))
	two, err := mldsa.NewPrivateKey(mldsa.MLDSA65(), make([]byte, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	sum := checksum(payload)
	head := join([]byte("LBX1AUTH"), u8(1), make([]byte, 7), w.id[:], u64(w.seq), u64(uint64(root)), sum[:], make([]byte, 48), u32(2))
	k1, k2 := join(u16(algEd25519), sized(4, one.Public().(ed25519.PublicKey))), join(u16(algMLDSA65), sized(4, two.PublicKey().Bytes()))
	message := join([]byte(signedLabel), head[16:], k1, k2)
	s2, err := two.Sign(nil, message, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.page(kindAuth, join(head, k1, k2, u32(2), k1, sized(4, ed25519.Sign(one, message)), k2, sized(4, s2)))
}

// header writes the header: in format 2 the slot that belongs to the generation.
func (w *writer) header(generation uint64, root, auth int64, cleaned uint64) {
	if w.version == 1 {
		h := join([]byte(magicV1), u16(1), u16(0), u32(headerV1), u64(uint64(root)), u64(w.seq), u64(uint64(w.dirs[0])), w.id[:], u64(uint64(auth)))
		sum := checksum(h)
		copy(w.buf, join(h, sum[:]))
		return
	}
	h := join([]byte(magicV2), u16(2), u16(0), u32(slotV2), u64(generation), u64(uint64(root)), u64(w.seq),
		u64(uint64(w.dirs[0])), u64(uint64(w.dirs[1])), w.id[:], u64(uint64(auth)), u64(cleaned), make([]byte, 16))
	w.putSlot(int((generation+1)%2), h)
}

// putSlot completes a header's first 104 bytes and writes it to a slot.
func (w *writer) putSlot(slot int, h []byte) {
	h = join(h, headerMAC(w.key, h))
	sum := checksum(h)
	copy(w.buf[slot*slotV2:], join(h, sum[:]))
}

// finish commits the trees as the only commit there is.
func (w *writer) finish(toc, variables, forms int64) []byte {
	root, auth := w.commit(toc, variables, forms, false)
	w.header(1, root, auth, w.seq)
	w.header(2, root, auth, w.seq)
	return w.buf
}

// leaf is the payload of a leaf of the table of contents.
func leaf(frames [][]byte, entries ...[]byte) []byte {
	return join(u8(1), u8(1), uv(uint64(len(entries)), uint64(len(frames))), join(frames...), join(entries...))
}

// tocEntry is the first entry of a leaf. Others of tests stand in leaves of their own, below a node.
func tocEntry(flags uint8, path string, size uint64, rest ...[]byte) []byte {
	return join(u8(flags), sized(0, []byte(path)), uv(size), join(rest...))
}

func dirEntry(path string) []byte           { return tocEntry(flagDir, path, 0, uv(0, 0, 0, 0)) }
func zeroFile(path string, n uint64) []byte { return tocEntry(0, path, n, uv(0, 0, 0, 0)) }

// node is the payload of an internal node of a tree.
func node(keys []string, offs []int64) []byte {
	b := join(u8(1), u8(2), u32(len(keys)))
	for i := range keys {
		b = join(b, text(keys[i]), u64(uint64(offs[i])))
	}
	return b
}

// toc appends a tree in which each entry has a leaf of its own, below one node. paths are those of the entries.
func (w *writer) toc(paths []string, entries ...[]byte) int64 {
	offs := make([]int64, len(entries))
	for i, e := range entries {
		offs[i] = w.page(kindTOCLeaf, leaf(nil, e))
	}
	return w.page(kindTOCNode, node(paths, offs))
}

// file appends a page with one frame of stored bytes and returns its descriptor and the entry of a file that is all of it.
func (w *writer) file(path string, b []byte) (frame, entry []byte) {
	sum := checksum(b)
	n := uint64(len(b))
	identity := join(uv(7, codecStored, n, n), sum[:])
	off := uint64(w.page(kindSegment, join([]byte("LBCS"), u8(1), identity, uv(0, 0, 0), uv(0, n), b)))
	return join(identity, uv(1), uv(off, 1024, 1, 0, n)), tocEntry(0, path, n, uv(off, 1024, 1), uv(1), uv(0, 0, n, 0, 0))
}

// link appends a page with a symbolic link and returns its entry.
func (w *writer) link(path, target string) []byte {
	off := uint64(w.page(kindSymlink, join(text(path), text(target))))
	return tocEntry(flagSymlink, path, 0, uv(off, 1024, 1, 0))
}
