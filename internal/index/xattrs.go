package index

import (
	"encoding/binary"
	"fmt"
	"strings"

	"lockbox/internal/format"
)

// A set of extended attributes: for each, in ascending order of names, uvarint length and name, uvarint length
// and value.

const (
	// MaxXattrs is how many bytes of extended attributes a record may have; more go into a content.
	MaxXattrs = 32 << 10
	// MaxXattrsContent is how many there may be in all.
	MaxXattrsContent = 1 << 20
)

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// XattrsSize is the length of the encoded set.
func XattrsSize(xs []Xattr) int {
	n := 0
	for _, x := range xs {
		n += uvarintLen(len(x.Name)) + len(x.Name) + uvarintLen(len(x.Value)) + len(x.Value)
	}
	return n
}

// AppendXattrs writes a set to b.
func AppendXattrs(b []byte, xs []Xattr) []byte {
	for _, x := range xs {
		b = append(binary.AppendUvarint(b, uint64(len(x.Name))), x.Name...)
		b = append(binary.AppendUvarint(b, uint64(len(x.Value))), x.Value...)
	}
	return b
}

// DecodeXattrs reads the set that a content holds. The result does not alias b.
func DecodeXattrs(b []byte) ([]Xattr, error) {
	c := format.NewCursor(b, xattrsRecord, -1)
	if len(b) > MaxXattrsContent {
		c.Fail("too many bytes")
	}
	xs := readXattrs(c)
	if err := c.Done(); err != nil {
		return nil, err
	}
	if err := CheckXattrs(xs); err != nil {
		return nil, err
	}
	return xs, nil
}

const xattrsRecord = "extended attributes"

// CheckXattrs refuses what DecodeXattrs refuses: names that are empty, have a zero byte or are not in order, and
// a set that is too large even for a content.
func CheckXattrs(xs []Xattr) error {
	bad := xattrsOrder(xs)
	if bad == "" && XattrsSize(xs) > MaxXattrsContent {
		bad = fmt.Sprintf("more than %d bytes of xattrs", MaxXattrsContent)
	}
	if bad != "" {
		return format.Corrupt(xattrsRecord, -1, "%s", bad)
	}
	return nil
}

func readXattrs(c *format.Cursor) (xs []Xattr) {
	for c.Len() > 0 {
		name := string(c.Bytes(int(c.Uvarint(MaxXattrsContent))))
		value := append([]byte(nil), c.Bytes(int(c.Uvarint(MaxXattrsContent)))...)
		xs = append(xs, Xattr{name, value})
	}
	return xs
}

func (e *Entry) xattrsProblem() string {
	if bad := xattrsOrder(e.Xattrs); bad != "" {
		return bad
	}
	if size := XattrsSize(e.Xattrs); size > MaxXattrs || e.Xattrs != nil && size == 0 {
		return "size of xattrs out of range"
	}
	return ""
}

func xattrsOrder(xs []Xattr) string {
	for i, x := range xs {
		if x.Name == "" || strings.IndexByte(x.Name, 0) >= 0 || i > 0 && x.Name <= xs[i-1].Name {
			return "names of xattrs are not in order"
		}
	}
	return ""
}

func (w *entryWriter) xattrs(xs []Xattr) {
	if xs != nil {
		w.head(tagXattrs, XattrsSize(xs))
		w.b = AppendXattrs(w.b, xs)
	}
}
