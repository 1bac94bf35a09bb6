package main

import (
	"archive/zip"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// zipAll stores the tree at src as a ZIP file in tmp, reads all of it, extracts it, and removes both. All
// that a user of archive/zip would leave to the library is left to it; extraction sets modes and times.
func zipAll(ctx context.Context, src, tmp string) (t times, err error) {
	name := filepath.Join(tmp, "go.zip")
	dest := filepath.Join(tmp, "unzipped")
	for _, stage := range []struct {
		took *time.Duration
		run  func() error
	}{
		{&t.create, func() error { return zipCreate(ctx, name, src) }},
		{&t.verify, func() error { return zipRead(ctx, name, func(f *zip.File, r io.Reader) error { return discard(r) }) }},
		{&t.extract, func() error { return zipExtract(ctx, name, dest) }},
	} {
		begin := time.Now()
		if err := stage.run(); err != nil {
			return t, err
		}
		*stage.took = time.Since(begin)
	}
	if t.size, err = fileSize(name); err != nil {
		return t, err
	}
	if err := os.Remove(name); err != nil {
		return t, err
	}
	return t, removeAll(dest)
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func zipCreate(ctx context.Context, name, src string) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	w := zip.NewWriter(out)
	err = filepath.WalkDir(src, func(host string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || host == src || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		h, err := zip.FileInfoHeader(fi)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, host)
		if err != nil {
			return err
		}
		h.Name = filepath.ToSlash(rel)
		if e.IsDir() {
			h.Name += "/"
			_, err = w.CreateHeader(h)
			return err
		}
		h.Method = zip.Deflate
		entry, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		f, err := os.Open(host)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(entry, f)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := out.Sync(); err != nil { // lockbox, too, returns only when its archive is on the disk
		return err
	}
	return out.Close()
}

// zipRead calls fn with each file, in the archive's order. Reading to the end checks the CRC-32.
func zipRead(ctx context.Context, name string, fn func(*zip.File, io.Reader) error) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		err = fn(f, r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func zipExtract(ctx context.Context, name, dest string) error {
	if err := os.Mkdir(dest, 0o755); err != nil {
		return err
	}
	return zipRead(ctx, name, func(f *zip.File, r io.Reader) error {
		host := filepath.Join(dest, filepath.FromSlash(f.Name)) // this program's own archive: the names are safe
		if f.Mode().IsDir() {
			return os.MkdirAll(host, 0o755)
		}
		out, err := os.OpenFile(host, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode().Perm()|0o200)
		if err != nil {
			return err
		}
		if _, err = io.Copy(out, r); err != nil {
			out.Close()
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
		return os.Chtimes(host, time.Time{}, f.Modified)
	})
}
