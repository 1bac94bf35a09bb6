package migrate

import (
	"context"
	"errors"

	"lockbox/internal/migrate/ar"
	"lockbox/internal/migrate/cpio"
	"lockbox/internal/migrate/rar"
	"lockbox/internal/migrate/revault"
	"lockbox/internal/migrate/sevenzip"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/tar"
	"lockbox/internal/migrate/unpack"
	"lockbox/internal/migrate/zip"
)

// formats are those that can be read. Each looks at the content and says whether it is its own; the first that does gets
// it, so what is known by its first bytes comes before what is known by its end.
var formats = []struct {
	probe func(source.Input) source.Verdict
	open  func(context.Context, source.Input, source.Options) (source.Archive, error)
}{
	{revault.Probe, revault.Open},
	{sevenzip.Probe, sevenzip.Open},
	{rar.Probe, rar.Open},
	{tar.Probe, tar.Open},
	{cpio.Probe, cpio.Open},
	{ar.Probe, ar.Open},
	{zip.Probe, zip.Open},
}

// ErrUnknown is the kind of an input that is no archive of a format that can be read.
var ErrUnknown = errors.New("it is no archive of a format that can be migrated")

// unsupported is the error for an archive of a format, or of a kind of it, that is known and not read.
type unsupported struct{ source.Verdict }

func (u unsupported) Error() string        { return "it is " + u.Format + ": " + u.Detail }
func (u unsupported) Is(target error) bool { return target == ErrUnknown }

// Probe says what an input is. Its content decides, never its name.
func Probe(in source.Input) (v source.Verdict) {
	v, _ = probe(in)
	return v
}

// probe also returns which of formats it is, -1 for none.
func probe(in source.Input) (source.Verdict, int) {
	for i, f := range formats {
		var v source.Verdict
		if guard(func() error { v = f.probe(in); return nil }) == nil && v.Format != "" {
			return v, i
		}
	}
	head := make([]byte, unpack.HeadLen)
	n, _ := in.ReadAt(head, 0) // what cannot be read is nothing that is known
	if kind := unpack.Probe(head[:n]); kind != "" {
		return source.Verdict{Format: kind, Detail: "what is compressed in it is no archive of a format that can be migrated"}, -1
	}
	return source.Verdict{}, -1
}

// open opens an input as what it is.
func open(ctx context.Context, in source.Input, o source.Options) (a source.Archive, err error) {
	v, i := probe(in)
	switch {
	case v.Format == "":
		return nil, ErrUnknown
	case !v.Supported:
		return nil, unsupported{v}
	}
	err = guard(func() (err error) { a, err = formats[i].open(ctx, in, o); return err })
	return a, err
}

// guard turns a panic of a decoder, ours or a library's, into damage.
func guard(f func() error) error { return unpack.Guard("old archive", f) }

// Formats names what can be migrated.
func Formats() []string {
	return []string{"zip", "tar (also compressed by gzip, bzip2, xz, zstd, lz4, lzip or compress)", "7z", "RAR", "cpio", "ar", "reVault's .lbox"}
}

// KnownExtension reports whether files of a format that can be migrated are often called so.
func KnownExtension(ext string) bool {
	switch ext {
	case ".zip", ".zipx", ".jar", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".tzst", ".lz4", ".lz", ".tlz", ".lzma", ".z", ".taz",
		".7z", ".rar", ".cpio", ".a", ".ar", ".deb", ".lbox", ".exe":
		return true
	}
	return false
}
