package index

import (
	"encoding/binary"

	"lockbox/internal/format"
)

// Free record: the key in the tree free is the offset, the value length (8), generation that retired the
// extent (8), state (1).
const freeValue = 17

// FreeState says whether a free extent was wiped.
type FreeState uint8

const (
	FreeWiped        FreeState = 0 // holds zeros; may be used
	FreePending      FreeState = 1 // not wiped, may hold deleted content
	FreePendingClean FreeState = 2 // not wiped, held nothing deleted
)

// FreeExtent is an extent that nothing owns. Gen is the generation that retired it.
type FreeExtent struct {
	Ext   format.Extent
	Gen   uint64
	State FreeState
}

// Key is the extent's key in the tree free.
func (f *FreeExtent) Key() []byte { return NumKey(uint64(f.Ext.Off)) }

// AppendFree writes the record's value to b.
func AppendFree(b []byte, f *FreeExtent) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Ext.Len))
	b = binary.LittleEndian.AppendUint64(b, f.Gen)
	return append(b, byte(f.State))
}

// DecodeFree reads a record from its key and value.
func DecodeFree(key, value []byte) (FreeExtent, error) {
	var f FreeExtent
	off, err := DecodeNumKey(key)
	if err != nil {
		return f, err
	}
	cur := format.NewCursor(value, "free extent", -1)
	f.Ext.Len = cur.I64()
	f.Gen = cur.U64()
	f.State = FreeState(cur.U8())
	switch {
	case off < format.DataStart || off > uint64(format.MaxLogicalEnd):
		cur.Fail("offset out of range")
	case f.Ext.Len == 0 || f.Ext.Len > format.MaxLogicalEnd-int64(off):
		cur.Fail("length out of range")
	case f.State > FreePendingClean:
		cur.Fail("unknown state")
	}
	if err := cur.Done(); err != nil {
		return FreeExtent{}, err
	}
	f.Ext.Off = int64(off)
	return f, nil
}
