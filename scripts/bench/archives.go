package main

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

	kzip "github.com/klauspost/compress/zip"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// archives are a fixture's files in both formats.
type archives struct {
	lbx, zip string
	files    []file
}

// build makes both archives of a fixture and compares what comes out of them, before anything is timed.
func (b *bench) build(name string, files []file, deflate bool) (*archives, error) {
	a := &archives{lbx: filepath.Join(b.tmp, name+".lbx"), zip: filepath.Join(b.tmp, name+".zip"), files: files}
	if err := writeLockbox(b.ctx, a.lbx, slices.Values(files)); err != nil {
		return nil, fmt.Errorf("making %s.lbx: %w", name, err)
	}
	if err := writeZip(a.zip, files, deflate); err != nil {
		return nil, fmt.Errorf("making %s.zip: %w", name, err)
	}
	if err := a.compareBytes(b.ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

func (a *archives) remove() error { return errors.Join(os.Remove(a.lbx), os.Remove(a.zip)) }

// memReader is a source that stands in memory.
type memReader struct{ *bytes.Reader }

func (memReader) Close() error { return nil }
func (memReader) Check() error { return nil }

func entryOf(f *file) (index.Entry, error) {
	p, err := pathsafe.Parse(f.name)
	return index.Entry{Path: p, Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1_700_000_000, Size: int64(len(f.data))}, err
}

// writeLockbox makes an archive with the defaults of the command line.
func writeLockbox(ctx context.Context, name string, files iter.Seq[file]) (err error) {
	a, err := store.Create(ctx, name, store.Options{}, store.CreateOptions{Level: frames.LevelDefault})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	tx, err := a.Begin(ctx)
	if err != nil {
		return err
	}
	if err := addFiles(ctx, tx, files); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	_, err = tx.Commit(ctx)
	return err
}

func addFiles(ctx context.Context, tx *store.Tx, files iter.Seq[file]) error {
	var bad error
	err := tx.Add(ctx, func(yield func(store.Source) bool) {
		for f := range files {
			e, err := entryOf(&f)
			if err != nil {
				bad = err
				return
			}
			open := func() (store.Reader, index.Entry, error) {
				return memReader{bytes.NewReader(f.data)}, e, nil
			}
			if !yield(store.Source{Entry: e, Open: open}) {
				return
			}
		}
	}, func(d store.Added) {
		if d.Err != nil {
			bad = d.Err
		}
	})
	return errors.Join(err, bad)
}

func writeZip(name string, files []file, deflate bool) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	w := zip.NewWriter(out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) })
	h := zip.FileHeader{Method: zip.Store}
	if deflate {
		h.Method = zip.Deflate
	}
	for i := range files {
		fh := h
		fh.Name = files[i].name
		e, err := w.CreateHeader(&fh)
		if err != nil {
			return err
		}
		if _, err := e.Write(files[i].data); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Close())
}

// compareBytes reads everything in every way that is timed and compares it with the fixture.
func (a *archives) compareBytes(ctx context.Context) error {
	want := make(map[string][]byte, len(a.files))
	for _, f := range a.files {
		want[f.name] = f.data
	}
	var got bytes.Buffer
	seen := 0
	check := func(name string) error {
		w, ok := want[name]
		if !ok || !bytes.Equal(w, got.Bytes()) {
			return fmt.Errorf("%s: other bytes than the fixture's", name)
		}
		got.Reset()
		seen++
		return nil
	}
	if err := streamLockbox(ctx, a.lbx, 1, nil, &got, check); err != nil {
		return fmt.Errorf("lockbox: %w", err)
	}
	if err := streamZip(a.zip, &got, check); err != nil {
		return fmt.Errorf("archive/zip: %w", err)
	}
	if err := streamKZip(a.zip, &got, check); err != nil {
		return fmt.Errorf("klauspost/compress/zip: %w", err)
	}
	if seen != 3*len(want) {
		return fmt.Errorf("%d files were read, not 3 × %d", seen, len(want))
	}
	if len(want) == 0 {
		return nil
	}
	return a.compareBulk(ctx, want)
}

func (a *archives) compareBulk(ctx context.Context, want map[string][]byte) error {
	total := 0
	for _, f := range a.files {
		total += len(f.data)
	}
	got := 0
	err := bulkLockbox(ctx, a.lbx, 1, func(p store.Piece) error {
		w := want[p.Entry.Path.String()]
		if p.Err != nil {
			return p.Err
		}
		if int(p.Off)+len(p.Data) > len(w) || !bytes.Equal(w[p.Off:][:len(p.Data)], p.Data) {
			return fmt.Errorf("%s: other bytes than the fixture's", p.Entry.Path)
		}
		got += len(p.Data)
		return nil
	})
	if err == nil && got != total {
		err = fmt.Errorf("bulk read gave %d bytes, not %d", got, total)
	}
	return err
}

// order, if not nil, is a permutation of the files by their place in the archive.
type order []int

// streamLockbox opens the archive, reads every file through its own handle, and closes it.
func streamLockbox(ctx context.Context, name string, jobs int, shuffled order, w io.Writer, each func(string) error) (err error) {
	a, err := store.Open(ctx, name, store.Options{Jobs: jobs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return readAll(ctx, a, shuffled, w, each)
}

func readAll(ctx context.Context, a *store.Archive, shuffled order, w io.Writer, each func(string) error) error {
	read := func(e *index.Entry) error {
		f, err := a.Open(e)
		if err != nil {
			return err
		}
		if _, err := f.CopyRange(ctx, w, 0, f.Size()); err != nil {
			return err
		}
		if each != nil {
			return each(e.Path.String())
		}
		return nil
	}
	var es []index.Entry
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			return err
		}
		if shuffled != nil {
			es = append(es, e)
			continue
		}
		if err := read(&e); err != nil {
			return err
		}
	}
	for _, i := range shuffled {
		if err := read(&es[i]); err != nil {
			return err
		}
	}
	return a.Recheck()
}

// bulkLockbox reads every file, each frame once, in the order that suits the archive.
func bulkLockbox(ctx context.Context, name string, jobs int, fn func(store.Piece) error) (err error) {
	a, err := store.Open(ctx, name, store.Options{Jobs: jobs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Bulk(ctx, a.List(pathsafe.Path{}), fn); err != nil {
		return err
	}
	return a.Recheck()
}

// copyBuf is what ZIP's readers copy through; larger ones were not faster.
var copyBuf = make([]byte, 128*kib)

func drain(w io.Writer, r io.ReadCloser) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, copyBuf)
	return errors.Join(err, r.Close())
}

func streamZip(name string, w io.Writer, each func(string) error) error {
	return shuffledZip(name, nil, w, each)
}

func shuffledZip(name string, shuffled order, w io.Writer, each func(string) error) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	for i := range z.File {
		f := z.File[i]
		if shuffled != nil {
			f = z.File[shuffled[i]]
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		if err := drain(w, r); err != nil {
			return err
		}
		if each != nil {
			if err := each(f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func streamKZip(name string, w io.Writer, each func(string) error) error {
	return shuffledKZip(name, nil, w, each)
}

func shuffledKZip(name string, shuffled order, w io.Writer, each func(string) error) error {
	z, err := kzip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	for i := range z.File {
		f := z.File[i]
		if shuffled != nil {
			f = z.File[shuffled[i]]
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		if err := drain(w, r); err != nil {
			return err
		}
		if each != nil {
			if err := each(f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
