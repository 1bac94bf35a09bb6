package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// File is a fixture's file. Its bytes are made when they are asked for, so that large fixtures need no memory.
type File struct {
	Name string
	Size int64
	base []byte // text: its bytes from at on, over and over; nil: random ones from seed
	at   int64
	seed uint64
}

// Raw is a file whose bytes do not compress; the same seed gives the same bytes.
func Raw(name string, size int64, seed uint64) File {
	return File{Name: name, Size: size, seed: mix(seed + 1)}
}

// Text is a file of text that begins at a place of t.
func (t *Text) File(name string, size, at int64) File {
	return File{Name: name, Size: size, base: t.base, at: at % int64(len(t.base))}
}

// Bytes is a file of these bytes.
func Bytes(name string, b []byte) File {
	return File{Name: name, Size: int64(len(b)), base: b}
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > f.Size-off
	if short {
		p = p[:f.Size-off]
	}
	if f.base == nil {
		f.random(p, off)
	} else {
		for n := 0; n < len(p); {
			n += copy(p[n:], f.base[(f.at+off+int64(n))%int64(len(f.base)):])
		}
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// random fills p. Each word follows from its place alone.
func (f *File) random(p []byte, off int64) {
	var word [8]byte
	at := func(i int64) uint64 { return mix(f.seed + uint64(i)*golden) }
	for len(p) > 0 {
		skip := int(off & 7)
		if skip == 0 && len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, at(off>>3))
			p, off = p[8:], off+8
			continue
		}
		binary.LittleEndian.PutUint64(word[:], at(off>>3))
		n := copy(p, word[skip:])
		p, off = p[n:], off+int64(n)
	}
}

// Reader reads the file from its beginning.
func (f *File) Reader() io.Reader { return io.NewSectionReader(f, 0, f.Size) }

// Load returns the file with its bytes in memory.
func (f *File) Load() File {
	b := make([]byte, f.Size)
	_, _ = f.ReadAt(b, 0) // it fails past the end only
	return Bytes(f.Name, b)
}

// checker is a writer that compares what it is given with a fixture's files, one after the other.
type checker struct {
	want map[string]*File
	off  int64
	cur  *File
	seen int
	buf  []byte
}

func newChecker(files []File) *checker {
	c := &checker{want: make(map[string]*File, len(files)), buf: make([]byte, 64*kib)}
	for i := range files {
		c.want[files[i].Name] = &files[i]
	}
	return c
}

// begin says which file comes next.
func (c *checker) begin(name string) error {
	c.cur, c.off = c.want[name], 0
	if c.cur == nil {
		return fmt.Errorf("%s is not in the fixture", name)
	}
	return nil
}

func (c *checker) Write(p []byte) (int, error) {
	if err := c.at(c.cur, p, c.off); err != nil {
		return 0, err
	}
	c.off += int64(len(p))
	return len(p), nil
}

// at compares p with a file's bytes at off.
func (c *checker) at(f *File, p []byte, off int64) error {
	for len(p) > 0 {
		n, _ := f.ReadAt(c.buf[:min(len(c.buf), len(p))], off)
		if n == 0 || !bytes.Equal(p[:n], c.buf[:n]) {
			return fmt.Errorf("%s: other bytes than the fixture's at %d", f.Name, off)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// end says that the file's last byte was written.
func (c *checker) end() error {
	if c.off != c.cur.Size {
		return fmt.Errorf("%s: %d bytes instead of %d", c.cur.Name, c.off, c.cur.Size)
	}
	c.seen++
	return nil
}

// each are count files of size bytes, random or text.
func each(count int, size int64, text *Text) []File {
	files := make([]File, count)
	for i := range files {
		name := fmt.Sprintf("dir%02d/file%05d", i/100, i)
		if text == nil {
			files[i] = Raw(name, size, uint64(size)<<20+uint64(i))
		} else {
			files[i] = text.File(name, size, int64(i)*size)
		}
	}
	return files
}

// repetitive is 16 MiB of text that says much the same over and over.
func repetitive() []File {
	var b []byte
	for i := 0; len(b) < 16*mib; i++ {
		b = fmt.Appendf(b, "2026-01-%02d 12:%02d:%02d INFO worker %d finished batch %d without errors\n", i%28+1, i/60%60, i%60, i%7, i)
	}
	return []File{Bytes("repetitive.log", b[:16*mib])}
}

// mixed alternates text and random files of 256 bytes to 2 MiB, the small ones no rarer than the large ones.
func mixed(text *Text) []File {
	r := rng(7)
	files := make([]File, 400)
	at := int64(0)
	for i := range files {
		size := int64(1) << (8 + r.n(13))
		size += int64(r.n(int(size)))
		name := fmt.Sprintf("mixed/%04d", i)
		if files[i] = Raw(name, size, uint64(i)<<32); i%3 != 0 {
			files[i] = text.File(name, size, at)
			at += size
		}
	}
	return files
}

// tiny are count files of a line each.
func tiny(count int) iter.Seq[File] {
	return func(yield func(File) bool) {
		for i := range count {
			if !yield(tinyFile(i)) {
				return
			}
		}
	}
}

func tinyFile(i int) File { return Bytes(tinyName(i), fmt.Appendf(nil, "content of file %d\n", i)) }

func tinyName(i int) string { return fmt.Sprintf("group%04d/file%07d", i/1000, i) }

func totalSize(files []File) (n int64) {
	for i := range files {
		n += files[i].Size
	}
	return n
}

// loaded returns the files with their bytes in memory.
func loaded(files []File) []File {
	files = slices.Clone(files)
	for i := range files {
		files[i] = files[i].Load()
	}
	return files
}
