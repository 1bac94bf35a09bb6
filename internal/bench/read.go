package bench

import (
	"archive/zip"
	"context"
	"errors"
	"io"

	kzip "github.com/klauspost/compress/zip"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// reading says how an archive is to be read whole, and by what protection. order, if not nil, is a permutation of the files by their place in
// it. check, if not nil, is told where files begin and end. counters, if not nil, gets what the handle counted.
type reading struct {
	jobs     int
	p        *protection
	order    []int
	w        io.Writer
	check    *checker
	counters *store.Counters
}

// sink takes bytes and drops them, without the short cuts that copying to io.Discard takes.
type sink struct{ n int64 }

func (s *sink) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return len(p), nil
}

// streamLockbox opens the archive, reads every file through its own handle, and closes it.
func streamLockbox(ctx context.Context, name string, r reading) (err error) {
	a, err := store.Open(ctx, name, r.p.options(r.jobs))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return readAll(ctx, a, r)
}

func readAll(ctx context.Context, a *store.Archive, r reading) error {
	read := func(e *index.Entry) error {
		f, err := a.Open(e)
		if err != nil {
			return err
		}
		if r.check != nil {
			if err := r.check.begin(e.Path.String()); err != nil {
				return err
			}
		}
		if _, err := f.CopyRange(ctx, r.w, 0, f.Size()); err != nil {
			return err
		}
		if r.check != nil {
			return r.check.end()
		}
		return nil
	}
	var es []index.Entry
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			return err
		}
		if r.order != nil {
			es = append(es, e)
			continue
		}
		if err := read(&e); err != nil {
			return err
		}
	}
	for _, i := range r.order {
		if err := read(&es[i]); err != nil {
			return err
		}
	}
	if r.counters != nil {
		*r.counters = a.Counters()
	}
	return a.Recheck()
}

// bulkLockbox reads every file, each frame once, in the order that suits the archive.
func bulkLockbox(ctx context.Context, name string, o store.Options, counters *store.Counters, fn func(store.Piece) error) (err error) {
	a, err := store.Open(ctx, name, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Bulk(ctx, a.List(pathsafe.Path{}), fn); err != nil {
		return err
	}
	if counters != nil {
		*counters = a.Counters()
	}
	return a.Recheck()
}

// copyAll copies all of r through buf.
func copyAll(ctx context.Context, w io.Writer, r io.Reader, buf []byte) error {
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// zipped is a file of either ZIP library.
type zipped interface{ Open() (io.ReadCloser, error) }

// readZip reads files one after the other through one buffer; a larger one was not faster.
func readZip[F zipped](ctx context.Context, files []F, name func(F) string, r reading) error {
	buf := make([]byte, 128*kib)
	one := func(f F) (err error) {
		if r.check != nil {
			if err := r.check.begin(name(f)); err != nil {
				return err
			}
		}
		rc, err := f.Open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rc.Close()) }()
		if err := copyAll(ctx, r.w, rc, buf); err != nil {
			return err
		}
		if r.check != nil {
			return r.check.end()
		}
		return nil
	}
	for i, f := range files {
		if r.order != nil {
			f = files[r.order[i]]
		}
		if err := one(f); err != nil {
			return err
		}
	}
	return nil
}

func streamZip(ctx context.Context, name string, r reading) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	return errors.Join(readZip(ctx, z.File, func(f *zip.File) string { return f.Name }, r), z.Close())
}

func streamKZip(ctx context.Context, name string, r reading) error {
	z, err := kzip.OpenReader(name)
	if err != nil {
		return err
	}
	return errors.Join(readZip(ctx, z.File, func(f *kzip.File) string { return f.Name }, r), z.Close())
}
