package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"lockbox/internal/migrate/source"
	"lockbox/internal/vfs"
)

// Input is an old archive's file, open for reading.
type Input struct {
	source.Input
	f     vfs.File
	name  string // "" when it has none
	stamp vfs.Stamp
}

// OpenInput opens an old archive.
func OpenInput(fsys vfs.FS, name string) (*Input, error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return nil, err
	}
	in, err := newInput(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	in.name = name
	return in, nil
}

func newInput(f vfs.File) (*Input, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	in := &Input{Input: source.Input{ReaderAt: f, Size: size}, f: f}
	in.stamp, err = vfs.StampOf(f)
	return in, err
}

// Spool keeps a stream in a file without a name beside the archive that is to be made, so that it can be read twice.
func Spool(ctx context.Context, fsys vfs.FS, beside string, r io.Reader) (*Input, error) {
	t, err := fsys.CreateTemp(beside, 0o600)
	if err != nil {
		return nil, err
	}
	if err := spool(ctx, t, r); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	in, err := newInput(t)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return in, nil
}

func spool(ctx context.Context, t vfs.Temp, r io.Reader) error {
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := t.WriteAt(buf[:n], off); err != nil {
				return fmt.Errorf("keeping standard input: %w", err)
			}
			off += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
}

// Close ends the reading.
func (in *Input) Close() error { return in.f.Close() }

// unchanged reports whether the file is what it was when it was opened, as far as the system can tell.
func (in *Input) unchanged() error {
	now, err := vfs.StampOf(in.f)
	if err != nil {
		return err
	}
	if in.name == "" {
		return nil
	}
	same, err := in.f.SameFile(in.name)
	if err != nil {
		return err
	}
	if !same || now != in.stamp {
		return ErrChanged
	}
	return nil
}
