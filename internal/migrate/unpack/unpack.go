package unpack

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
	"github.com/pierrec/lz4/v4"

	"lockbox/internal/format"
)

// DefaultWindow is the window that a maxWindow of 0 allows: what xz -9, zstd --ultra -22 and zstd --long need.
const DefaultWindow = 128 << 20

// Errors that are not damage.
var (
	ErrWindow      = errors.New("the compressed stream wants more memory than is allowed")
	ErrUnsupported = errors.New("this compression is not supported")
)

// NewReader returns the plain bytes of r, which is compressed as kind says, a name that Probe returns. It reads what
// follows in r until its end. maxWindow bounds the memory of the decoder's window, 0 is DefaultWindow. Errors are of
// kind format.ErrCorrupt, ErrWindow, ErrUnsupported, or what r itself returned. The caller closes the reader; r stays
// open.
func NewReader(kind string, r io.Reader, maxWindow int64) (io.ReadCloser, error) {
	if maxWindow <= 0 {
		maxWindow = DefaultWindow
	}
	z := &reader{kind: kind, src: &source{r: r}}
	if err := z.guard(func() error { return z.open(min(maxWindow, 1<<31)) }); err != nil {
		return nil, err
	}
	return z, nil
}

// reader holds one decoder. After its first error it gives nothing but that error.
type reader struct {
	kind  string
	src   *source
	dec   io.Reader
	close func() error
	err   error
}

// source remembers an error of the reader below, so that a failing disk is not taken for a damaged stream.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (z *reader) open(window int64) error {
	src := bufio.NewReaderSize(z.src, 64<<10)
	if _, err := src.Peek(1); err != nil {
		return noEOF(err) // some of the libraries take nothing for a stream of nothing
	}
	switch z.kind {
	case "gzip":
		d, err := gzip.NewReader(src)
		if err != nil {
			return err
		}
		d.Multistream(false)
		z.dec, z.close = &gzipMembers{src, d}, d.Close
	case "bzip2":
		z.dec = bzip2.NewReader(src) // at most 900 kB of window, whatever the stream says
	case "xz":
		d, err := xz.NewReader(src, uint32(window))
		if err != nil {
			return err
		}
		z.dec = d
	case "zstd":
		// One goroutine, the caller's: a panic anywhere else could not be caught.
		d, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(window, zstd.MinWindowSize))))
		if err != nil {
			return err
		}
		z.dec, z.close = d, func() error { d.Close(); return nil }
	case "lz4":
		z.dec = lz4.NewReader(src) // it works in its caller's goroutine unless told otherwise; blocks are 8 MiB at most
	case "compress":
		d, err := newCompressed(src)
		if err != nil {
			return err
		}
		z.dec = d
	case "lzip":
		z.dec = &lzipMembers{src: src, window: window}
	case "lzma":
		d, err := newLegacy(src, window)
		if err != nil {
			return err
		}
		z.dec = d
	default:
		return fmt.Errorf("%w: %s", ErrUnsupported, z.kind)
	}
	return nil
}

func (z *reader) Read(p []byte) (n int, err error) {
	if z.err != nil || len(p) == 0 {
		return 0, z.err
	}
	z.err = z.guard(func() error {
		n, err = some(z.dec, p)
		return err
	})
	return n, z.err
}

func (z *reader) Close() error {
	if z.close == nil {
		return nil
	}
	f := z.close
	z.close = nil
	z.err = errors.New("read of a closed reader")
	return z.guard(f)
}

// guard calls f and says of what went wrong which kind it is.
func (z *reader) guard(f func() error) error {
	err := Guard(z.kind+" stream", f)
	switch {
	case err == nil || err == io.EOF:
		return err
	case z.src.err != nil:
		return z.src.err
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrWindow), errors.Is(err, format.ErrCorrupt):
		return err
	case errors.Is(err, xz.ErrMemlimit), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %s: %w", ErrWindow, z.kind, err)
	case errors.Is(err, xz.ErrOptions), errors.Is(err, xz.ErrUnsupportedCheck), errors.Is(err, zstd.ErrUnknownDictionary):
		return fmt.Errorf("%w: %s: %w", ErrUnsupported, z.kind, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, xz.ErrBuf):
		return format.Corrupt(z.kind+" stream", -1, "it ends too early, or is damaged")
	}
	return format.Corrupt(z.kind+" stream", -1, "%v", err)
}

// more says whether another member follows in src. Zero bytes up to the end are what programs write to fill a tape's
// block, some of them in pipes too.
func more(src *bufio.Reader, what string) (bool, error) {
	for zeros := 0; ; zeros++ {
		b, err := src.ReadByte()
		switch {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case b != 0 && zeros > 0:
			return false, format.Corrupt(what, -1, "bytes follow its end")
		case b != 0:
			return true, src.UnreadByte()
		}
	}
}

// gzipMembers reads members one after the other: the library would take zero bytes behind the last for damage.
type gzipMembers struct {
	src *bufio.Reader
	dec *gzip.Reader
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	n, err := g.dec.Read(p)
	if err != io.EOF {
		return n, err
	}
	again, err := more(g.src, "gzip stream")
	switch {
	case err != nil:
		return n, err
	case !again:
		return n, io.EOF
	}
	if b, err := g.src.Peek(2); err == nil && string(b) != "\x1f\x8b" {
		return n, format.Corrupt("gzip stream", -1, "bytes follow its end")
	}
	if err := g.dec.Reset(g.src); err != nil {
		return n, noEOF(err)
	}
	g.dec.Multistream(false)
	return n, nil
}
