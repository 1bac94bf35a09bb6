package bench

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	kflate "github.com/klauspost/compress/flate"
	kzip "github.com/klauspost/compress/zip"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// source is a fixture's file as the archive reads it.
type source struct{ io.Reader }

func (source) Close() error { return nil }
func (source) Check() error { return nil }

// WriteLockbox makes an archive with the defaults of the command line.
func WriteLockbox(ctx context.Context, name string, jobs int, files iter.Seq[File]) error {
	return writeProtected(ctx, name, jobs, nil, files)
}

func writeProtected(ctx context.Context, name string, jobs int, p *protection, files iter.Seq[File]) (err error) {
	a, err := store.Create(ctx, name, p.options(jobs), p.creating())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return change(ctx, a, func(tx *store.Tx) error { return addFiles(ctx, tx, files) })
}

// change does one transaction.
func change(ctx context.Context, a *store.Archive, fn func(*store.Tx) error) error {
	tx, err := a.Begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	_, err = tx.Commit(ctx)
	return err
}

func addFiles(ctx context.Context, tx *store.Tx, files iter.Seq[File]) error {
	var bad error
	err := tx.Add(ctx, func(yield func(store.Source) bool) {
		for f := range files {
			p, err := pathsafe.Parse(f.Name)
			if err != nil {
				bad = err
				return
			}
			e := index.Entry{Path: p, Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1_700_000_000, Size: f.Size}
			open := func() (store.Reader, index.Entry, error) {
				if f.base != nil && f.at+f.Size <= int64(len(f.base)) {
					return source{bytes.NewReader(f.base[f.at:][:f.Size])}, e, nil
				}
				return source{f.Reader()}, e, nil
			}
			if !yield(store.Source{Entry: e, Open: open}) {
				return
			}
		}
	}, func(d store.Added) {
		if d.Err != nil {
			bad = errors.Join(bad, d.Err)
		}
	})
	return errors.Join(err, bad)
}

// WriteZip makes a ZIP archive with the standard library, deflate level 6 or stored.
func WriteZip(ctx context.Context, name string, files iter.Seq[File], deflate bool) error {
	return writeFile(name, func(out io.Writer) error {
		w := zip.NewWriter(out)
		w.RegisterCompressor(zip.Deflate, again(flate.NewWriter))
		return writeEntries(ctx, files, w, func(name string) (io.Writer, error) {
			return w.CreateHeader(&zip.FileHeader{Name: name, Method: zipMethod(deflate)})
		})
	})
}

// writeKZip does the same with the other library.
func writeKZip(ctx context.Context, name string, files iter.Seq[File], deflate bool) error {
	return writeFile(name, func(out io.Writer) error {
		w := kzip.NewWriter(out)
		w.RegisterCompressor(kzip.Deflate, again(kflate.NewWriter))
		return writeEntries(ctx, files, w, func(name string) (io.Writer, error) {
			return w.CreateHeader(&kzip.FileHeader{Name: name, Method: zipMethod(deflate)})
		})
	})
}

func zipMethod(deflate bool) uint16 {
	if deflate {
		return zip.Deflate
	}
	return zip.Store
}

// writeEntries writes files to the entries that create makes, and closes the archive.
func writeEntries(ctx context.Context, files iter.Seq[File], w io.Closer, create func(name string) (io.Writer, error)) error {
	for f := range files {
		e, err := create(f.Name)
		if err == nil {
			err = fill(ctx, e, &f)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

func writeFile(name string, fn func(io.Writer) error) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fn(out), out.Close())
}

// deflater is what both libraries' compressors are.
type deflater interface {
	io.WriteCloser
	Reset(io.Writer)
}

// again makes a compressor of level 6 that is used for file after file, as ZIP writers do with theirs.
func again[D deflater](make func(io.Writer, int) (D, error)) func(io.Writer) (io.WriteCloser, error) {
	var d D
	made := false
	return func(w io.Writer) (io.WriteCloser, error) {
		if made {
			d.Reset(w)
			return d, nil
		}
		var err error
		d, err = make(w, 6)
		made = err == nil
		return d, err
	}
}

// fill writes a file's bytes in one piece when they are in memory.
func fill(ctx context.Context, w io.Writer, f *File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.base != nil && f.at+f.Size <= int64(len(f.base)) {
		_, err := w.Write(f.base[f.at:][:f.Size])
		return err
	}
	return copyAll(ctx, w, f.Reader(), make([]byte, 128*kib))
}

// archives are a fixture's files in both formats.
type archives struct {
	lbx, zip         string
	files            []File
	lbxSize, zipSize int64
}

// build makes both archives of a fixture and compares what comes out of them in every way that is timed.
func (e *env) build(name string, files []File, deflate bool) (*archives, error) {
	a := &archives{lbx: filepath.Join(e.dir, name+".lbx"), zip: filepath.Join(e.dir, name+".zip"), files: files}
	if err := WriteLockbox(e.ctx, a.lbx, e.Jobs, slices.Values(files)); err != nil {
		return nil, fmt.Errorf("making %s.lbx: %w", name, err)
	}
	if err := WriteZip(e.ctx, a.zip, slices.Values(files), deflate); err != nil {
		return nil, fmt.Errorf("making %s.zip: %w", name, err)
	}
	if err := a.compareBytes(e.ctx); err != nil {
		return nil, err
	}
	var err error
	if a.lbxSize, err = fileSize(a.lbx); err != nil {
		return nil, err
	}
	if a.zipSize, err = fileSize(a.zip); err != nil {
		return nil, err
	}
	return a, e.settle(a.lbx, a.zip)
}

func (a *archives) remove() error { return errors.Join(os.Remove(a.lbx), os.Remove(a.zip)) }

func fileSize(name string) (int64, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// compareBytes reads everything in every way that is timed and compares it with the fixture.
func (a *archives) compareBytes(ctx context.Context) error {
	for _, way := range []struct {
		name string
		read func(*checker) error
	}{
		{"lockbox", func(c *checker) error { return streamLockbox(ctx, a.lbx, reading{jobs: 1, w: c, check: c}) }},
		{"archive/zip", func(c *checker) error { return streamZip(ctx, a.zip, reading{w: c, check: c}) }},
		{"klauspost/compress/zip", func(c *checker) error { return streamKZip(ctx, a.zip, reading{w: c, check: c}) }},
	} {
		if err := compareStream(way.name, a.files, way.read); err != nil {
			return err
		}
	}
	return a.compareBulk(ctx)
}

// compareStream compares what read gives with the fixture.
func compareStream(name string, files []File, read func(*checker) error) error {
	c := newChecker(files)
	err := read(c)
	if err == nil && c.seen != len(files) {
		err = fmt.Errorf("%d files were read, not %d", c.seen, len(files))
	}
	if err != nil {
		return fmt.Errorf("comparing with %s: %w", name, err)
	}
	return nil
}

func (a *archives) compareBulk(ctx context.Context) error {
	return compareBulk(ctx, a.lbx, nil, a.files)
}

func compareBulk(ctx context.Context, name string, p *protection, files []File) error {
	c, got := newChecker(files), int64(0)
	err := bulkLockbox(ctx, name, p.options(1), nil, func(p store.Piece) error {
		f := c.want[p.Entry.Path.String()]
		switch {
		case p.Err != nil:
			return p.Err
		case f == nil:
			return fmt.Errorf("%s is not in the fixture", p.Entry.Path)
		}
		got += int64(len(p.Data))
		return c.at(f, p.Data, p.Off)
	})
	if total := totalSize(files); err == nil && got != total {
		err = fmt.Errorf("%d bytes were read, not %d", got, total)
	}
	if err != nil {
		return fmt.Errorf("comparing with lockbox in bulk: %w", err)
	}
	return nil
}
