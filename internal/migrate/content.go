package migrate

import (
	"bytes"
	"errors"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/store"
)

// content counts and guards what is read of one entry.
type content struct {
	r    *run
	body io.ReadCloser
}

func (r *run) open(open func() (io.ReadCloser, error)) (*content, error) {
	c := &content{r: r}
	return c, guard(func() (err error) { c.body, err = open(); return err })
}

func (c *content) Read(p []byte) (n int, err error) {
	err = guard(func() (err error) { n, err = c.body.Read(p); return err })
	if err != nil && err != io.EOF && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		// Nobody is to take it for the end.
		err = format.Corrupt("old archive", -1, "the data end too early: %v", err)
	}
	if !c.r.count(int64(n)) {
		return 0, c.r.failed()
	}
	return n, err
}

func (c *content) Close() error { return guard(c.body.Close) }

// Check implements store.Reader.
func (c *content) Check() error { return nil }

// count adds bytes that were read; it is false when they are too many.
func (r *run) count(n int64) bool {
	read := r.read.Add(n)
	if read > r.most {
		r.fail(r.tooLarge())
		return false
	}
	if r.o.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if now := r.before + read; now-r.told >= 1<<20 {
			r.told = now
			total := int64(-1)
			if r.before > 0 {
				total = 2 * r.before // the second reading is as long as the first was
			} else if b := r.rep.Info.Bytes; b >= 0 {
				total = 2 * b
			}
			r.o.Progress(now, total)
		}
	}
	return true
}

// aheadMax is how much of a content is read before the store has it, so that the archive can be read on meanwhile.
const aheadMax = 1 << 20

// ahead reads the content of an archive that has to be read in order, whole or, when it is larger, its beginning; then
// the source's size is -1 and its content can be opened once.
func (r *run) ahead(e *source.Entry, src *store.Source) error {
	c, err := r.open(e.Open)
	if err != nil {
		return err
	}
	n := e.Entry.DataSize()
	if e.Entry.Size < 0 || n > aheadMax {
		n = aheadMax
	}
	head := make([]byte, n+1)
	k, err := io.ReadFull(c, head)
	wrong := format.Corrupt("old archive", -1, "it does not have the %d bytes that the archive says", e.Entry.DataSize())
	if err == nil && n < aheadMax {
		_ = c.Close() // the other error counts
		return wrong
	}
	if err == nil {
		src.Entry.Size, src.Entry.Sparse = -1, nil
		src.Open = func() (store.Reader, index.Entry, error) {
			if head == nil { // the store tries again what did not have the length that was expected
				return nil, index.Entry{}, wrong
			}
			m := &memory{Reader: io.MultiReader(bytes.NewReader(head), c), Closer: c}
			head = nil
			return m, e.Entry, nil
		}
		return nil
	}
	if cerr := c.Close(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	} else if cerr != nil {
		return cerr
	}
	if e.Entry.Size < 0 {
		e.Entry.Size, src.Entry.Size = int64(k), int64(k)
	} else if int64(k) != e.Entry.DataSize() {
		return wrong
	}
	head = head[:k]
	src.Open = func() (store.Reader, index.Entry, error) {
		return &memory{Reader: bytes.NewReader(head), Closer: io.NopCloser(nil)}, e.Entry, nil
	}
	return nil
}

// memory is a content that was read, or begun to be.
type memory struct {
	io.Reader
	io.Closer
}

// Check implements store.Reader.
func (*memory) Check() error { return nil }
