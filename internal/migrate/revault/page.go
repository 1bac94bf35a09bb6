package revault

import (
	"bytes"
	"cmp"
	"crypto/cipher"
	"errors"
	"io"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
)

const (
	pageHeader = 96
	pageStep   = 1024 // pages begin at the base plus a multiple of this
	nonceSize  = 12
	clearSum   = 32 // the checksum before the body of a page that is not encrypted

	maxDataPage  = 8<<20 - pageHeader   // stored bytes of a page of contents
	maxOtherPage = 128<<10 - pageHeader // of any other
	maxUnpacked  = 1 << 20              // bytes of a compressed page's objects
	objectHeader = 20
)

// The kinds of objects that a reader needs.
const (
	kindRoot     = 1
	kindTOCLeaf  = 2
	kindTOCNode  = 3
	kindSegment  = 4
	kindSymlink  = 6
	kindKeyDir   = 9
	kindVarLeaf  = 13
	kindVarNode  = 14
	kindFormLeaf = 15
	kindFormNode = 16
	kindAuth     = 17
	kindMax      = 18
	encrypted    = 0 // flags of a page
	unencrypted  = 1
	bodyAsIs     = 0
	bodyPacked   = 1
	codecStored  = 0
	codecZstd    = 1
)

// pages reads the pages of one commit.
type pages struct {
	in       source.Input
	base     int64
	id       format.ID
	sequence uint64      // of the commit: what is newer is not part of it
	cipher   cipher.AEAD // nil: only pages that are not encrypted can be read
	cache    cache[pageKey, *page]
}

// pageKey is part of what makes a page right: how large it may be depends on what it is wanted for.
type pageKey struct {
	off  int64
	most int
}

// page is a page whose bytes were checked.
type page struct {
	off     int64
	objects []object // in the order of the page
	byID    []int32  // positions in objects, in ascending order of ids
}

type object struct {
	kind    uint8
	id      uint64
	payload []byte
}

// cost is what keeping the page takes, about.
func (p *page) cost() int64 {
	n := int64(len(p.objects)) * 48
	for _, o := range p.objects {
		n += int64(len(o.payload)) + objectHeader
	}
	return n
}

// first returns the payload of the first object of a kind.
func (p *page) first(kind uint8) ([]byte, error) {
	for _, o := range p.objects {
		if o.kind == kind {
			return o.payload, nil
		}
	}
	return nil, corrupt("page", p.off, "it has no object of kind %d", kind)
}

// object returns the payload of an object of a kind by its id.
func (p *page) object(kind uint8, id uint64) ([]byte, error) {
	i, ok := slices.BinarySearchFunc(p.byID, id, func(at int32, id uint64) int { return cmp.Compare(p.objects[at].id, id) })
	if !ok || p.objects[p.byID[i]].kind != kind {
		return nil, corrupt("page", p.off, "it has no object %d of kind %d", id, kind)
	}
	return p.objects[p.byID[i]].payload, nil
}

// readFull fills b from off. The caller has checked that it lies inside the file as it was when it was opened.
func readFull(in source.Input, b []byte, off int64) error {
	if n, err := in.ReadAt(b, off); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			return corrupt("page", off, "the file is cut short")
		}
		return err
	}
	return nil
}

// shared returns the page at off from the cache, or reads it.
func (ps *pages) shared(off int64, most int) (*page, error) {
	return ps.cache.get(pageKey{off, most}, func() (*page, int64, error) {
		p, err := ps.read(off, most)
		if err != nil {
			return nil, 0, err
		}
		return p, p.cost(), nil
	})
}

// read reads and checks the page at off, of most stored bytes.
func (ps *pages) read(off int64, most int) (*page, error) {
	if off < ps.base || off > ps.in.Size-pageHeader {
		return nil, corrupt("page", off, "it lies outside the file of %d bytes: the file is truncated or damaged", ps.in.Size)
	}
	head := make([]byte, pageHeader)
	if err := readFull(ps.in, head, off); err != nil {
		return nil, err
	}
	flags, n, err := ps.checkHead(head, off, most)
	if err != nil {
		return nil, err
	}
	body := make([]byte, n)
	if err := readFull(ps.in, body, off+pageHeader); err != nil {
		return nil, err
	}
	if flags == unencrypted {
		if sum := checksum(body[clearSum:]); !bytes.Equal(sum[:], body[:clearSum]) {
			return nil, corrupt("page", off, "its checksum is wrong")
		}
		body = body[clearSum:]
	} else {
		if ps.cipher == nil {
			return nil, corrupt("page", off, "it is encrypted where a readable one belongs")
		}
		if body, err = ps.cipher.Open(body[:0], head[32:32+nonceSize], body, ps.bound(head)); err != nil {
			return nil, corrupt("page", off, "it does not authenticate")
		}
	}
	stream, err := unpackBody(body, off)
	if err != nil {
		return nil, err
	}
	return readObjects(stream, off, flags == unencrypted)
}

// checkHead checks the header of the page at off and returns its flags and the stored length of its body.
func (ps *pages) checkHead(head []byte, off int64, most int) (flags uint16, n int, err error) {
	bad := func(detail string, args ...any) (uint16, int, error) {
		return 0, 0, corrupt("page", off, detail, args...)
	}
	if sum := checksum(head[:64]); !bytes.Equal(sum[:], head[64:]) || !bytes.HasPrefix(head, []byte(magicPage)) {
		return bad("there is no page")
	}
	c := format.NewCursor(head[8:64], "reVault page", off)
	version, flags, length := c.U16(), c.U16(), c.U32()
	id, sequence, nonce, stored := c.U64(), c.U64(), c.Bytes(nonceSize), c.U32()
	c.Zero(16)
	least := uint32(clearSum)
	switch {
	case c.Done() != nil:
		return 0, 0, c.Err()
	case version != 1 || length != pageHeader || flags > unencrypted:
		return bad("version %d, flags %d or header length %d are unknown", version, flags, length)
	case id != uint64(off):
		return bad("it says that it belongs at offset %d", id)
	case sequence > ps.sequence:
		return bad("it was written by commit %d, after commit %d that is being read", sequence, ps.sequence)
	case flags == unencrypted && !bytes.Equal(nonce, make([]byte, nonceSize)):
		return bad("it has a nonce and is not encrypted")
	}
	if flags == encrypted {
		least = 16
	}
	if stored < least || uint64(stored) > uint64(most) {
		return bad("a body of %d bytes is out of range", stored)
	}
	if int64(stored) > ps.in.Size-off-pageHeader {
		return bad("the file ends inside it")
	}
	return flags, int(stored), nil
}

// bound is what a page's AEAD binds beside its body.
func (ps *pages) bound(head []byte) []byte {
	b := append(make([]byte, 0, 48), "LBX1PAGE"...)
	b = append(b, head[8:10]...)
	b = append(b, ps.id[:]...)
	b = append(b, head[16:32]...)
	b = append(b, head[10:12]...)
	return append(b, head[44:48]...)
}

// unpackBody returns the objects' bytes of a page's body.
func unpackBody(body []byte, off int64) ([]byte, error) {
	c := format.NewCursor(body, "reVault page", off)
	version, mode := c.U8(), c.U8()
	c.Zero(2)
	n := c.U64()
	c.Zero(4)
	if c.Err() != nil || version != 1 || mode > bodyPacked {
		return nil, corrupt("page", off, "its body is of an unknown kind")
	}
	if mode == bodyAsIs {
		if n != uint64(c.Len()) {
			return nil, corrupt("page", off, "its objects do not have the length it says")
		}
		return c.Bytes(c.Len()), nil
	}
	again, codec, stored := c.U64(), c.U8(), c.U64()
	if c.Err() != nil || again != n || n > maxUnpacked || stored != uint64(c.Len()) {
		return nil, corrupt("page", off, "lengths of its compressed body are out of range")
	}
	return decompress(codec, c.Bytes(c.Len()), int(n), off)
}

// readObjects cuts a page into its objects. clear says that the page is not encrypted: such a page holds the key
// directory and no other does.
func readObjects(b []byte, off int64, clear bool) (*page, error) {
	c := format.NewCursor(b, "reVault page", off)
	count := c.U32()
	if uint64(count) > uint64(c.Len())/objectHeader {
		return nil, corrupt("page", off, "%d objects do not fit", count)
	}
	p := &page{off: off, objects: make([]object, count), byID: make([]int32, count)}
	for i := range p.objects {
		o := &p.objects[i]
		o.kind = c.U8()
		version, flags := c.U8(), c.U16()
		o.id = c.U64()
		o.payload = c.Bytes(int(min(c.U64(), 1<<31-1)))
		if c.Err() == nil && (o.kind == 0 || o.kind > kindMax || version != 1 || flags != 0 || clear != (o.kind == kindKeyDir)) {
			c.Fail("an object is of a kind that does not belong there")
		}
		p.byID[i] = int32(i)
	}
	if err := c.Done(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.byID, func(x, y int32) int { return cmp.Compare(p.objects[x].id, p.objects[y].id) })
	for i := 1; i < len(p.byID); i++ {
		if id := p.objects[p.byID[i]].id; id == p.objects[p.byID[i-1]].id {
			return nil, corrupt("page", off, "two of its objects have the id %d", id)
		}
	}
	return p, nil
}

// str16 reads a text with its length before it.
func str16(c *format.Cursor) string { return string(c.Bytes(int(c.U16()))) }

// bytes32 reads bytes with their length before them.
func bytes32(c *format.Cursor) []byte {
	n := c.U32()
	if uint64(n) > uint64(c.Len()) {
		c.Fail("cut short")
		return nil
	}
	return c.Bytes(int(n))
}

// afterClear is where a page that is not encrypted ends, as its own header says it, or off when there is none.
func (ps *pages) afterClear(off int64) int64 {
	head := make([]byte, pageHeader)
	if off > ps.in.Size-pageHeader || readFull(ps.in, head, off) != nil {
		return off
	}
	flags, n, err := ps.checkHead(head, off, maxOtherPage)
	if err != nil || flags != unencrypted {
		return off
	}
	return off + format.AlignUp(pageHeader+int64(n), pageStep)
}
