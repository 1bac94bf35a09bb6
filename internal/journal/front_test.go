package journal

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"lockbox/internal/format"
)

// badSectors is a file whose device does not give back some places.
type badSectors struct {
	b  []byte
	at []int64
}

func (f badSectors) ReadAt(p []byte, off int64) (int, error) {
	for _, at := range f.at {
		if off <= at && at < off+int64(len(p)) {
			return 0, syscall.EIO
		}
	}
	n := copy(p, f.b[min(off, int64(len(f.b))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// One copy that cannot be read costs nothing; of two nobody knows whether they alone had the newest generation.
func TestReadFrontWithBadSectors(t *testing.T) {
	whole := bytes.Repeat([]byte{7}, format.CleanMarkOff+superSize)
	for page := int64(0); page < 5; page++ {
		got := make([]byte, len(whole))
		n, err := ReadFront(badSectors{whole, []int64{page*format.PageSize + 100}}, got)
		want := bytes.Clone(whole)
		clear(want[page*format.PageSize : min(page*format.PageSize+format.PageSize, int64(len(want)))])
		if n != len(whole) || err != nil || !bytes.Equal(got, want) {
			t.Errorf("page %d: %d bytes, %v, or other bytes than expected", page, n, err)
		}
	}
	got := make([]byte, len(whole))
	if _, err := ReadFront(badSectors{whole, []int64{0, 4 * format.PageSize}}, got); err != nil {
		t.Errorf("a copy and the mark: %v", err)
	}
	if _, err := ReadFront(badSectors{whole, []int64{0, 2 * format.PageSize}}, got); !errors.Is(err, syscall.EIO) {
		t.Errorf("two copies: %v", err)
	}
	if n, err := ReadFront(badSectors{whole[:9000], []int64{5000}}, got); n != 9000 || !errors.Is(err, io.EOF) {
		t.Errorf("a short file: %d bytes, %v", n, err)
	}
}
