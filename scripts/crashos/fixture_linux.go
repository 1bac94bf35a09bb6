package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	target = "a.lbx"   // the archive that commands change
	made   = "new.lbx" // the archive that commands make
	outDir = "out"     // where extract writes
	// The removed file's name starts unlike any other, so that a node holds all of it in one piece.
	secretName = "zq-fk3x-name-that-must-vanish.bin"
)

// fixture is what all parts work on: source trees and archives that are only copied.
type fixture struct {
	r                        *run
	base, more, change, last string // trees: stored, added, replacing, and one file for the next writer
	archive                  string // base in an archive
	holes                    string // the same after replacements, for compact; "" when it cannot be made
	secret                   []byte // content of secretName, incompressible
	big                      []byte // content of big.bin that change replaces
	unclean                  string // published, and killed before it was closed
	pending                  string // secretName is replaced but was not wiped, because of a reader
}

// noise returns n bytes that no compressor shortens, the same for the same name.
func noise(name string, n int) []byte {
	var key [32]byte
	copy(key[:], name)
	c := rand.NewChaCha8(key)
	b := make([]byte, n)
	_, _ = c.Read(b) // it never fails
	return b
}

func newFixture(r *run) (*fixture, error) {
	fx := &fixture{r: r}
	fx.secret, fx.big = noise("secret", 48<<10), noise("big", 150<<10)
	text := func(i int) []byte {
		return bytes.Repeat(fmt.Appendf(nil, "line %d of a small file that compresses well\n", i), 3+7*i)
	}
	trees := []struct {
		dir   *string
		name  string
		files map[string][]byte
	}{
		{&fx.base, "base", map[string][]byte{
			"big.bin": fx.big, secretName: fx.secret, "docs/a.txt": text(1), "docs/b.txt": text(2), "docs/c.txt": text(9),
			"docs/sub/d.txt": text(4), "docs/sub/e.bin": noise("e", 3000), "empty": nil,
		}},
		{&fx.more, "more", map[string][]byte{"more/one.bin": noise("one", 90<<10), "more/two.txt": text(5), "three.txt": text(6)}},
		{&fx.change, "change", map[string][]byte{"big.bin": noise("other", 140<<10), "docs/b.txt": text(12), secretName: noise("third", 1000)}},
		{&fx.last, "last", map[string][]byte{"last.txt": []byte("the next writer was here\n")}},
	}
	when := time.Unix(1_700_000_000, 123_456_789)
	for _, t := range trees {
		*t.dir = filepath.Join(r.dir, t.name)
		if err := os.Mkdir(*t.dir, 0o755); err != nil {
			return nil, err
		}
		for name, b := range t.files {
			p := filepath.Join(*t.dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, b, 0o644), os.Chtimes(p, when, when)); err != nil {
				return nil, err
			}
		}
	}
	if err := os.Symlink("docs/a.txt", filepath.Join(fx.base, "link")); err != nil {
		return nil, err
	}
	fx.archive = filepath.Join(r.dir, "base.lbx")
	if err := r.must("add", fx.archive, "-C", fx.base, "."); err != nil {
		return nil, err
	}
	if r.has["compact"] && r.has["remove"] {
		fx.holes = filepath.Join(r.dir, "holes.lbx")
		err := errors.Join(copyFile(fx.archive, fx.holes), r.must("add", fx.holes, "-C", fx.more, "."),
			r.must("add", fx.holes, "-C", fx.change, "."), r.must("remove", fx.holes, secretName, "more/one.bin"))
		if err != nil {
			return nil, err
		}
	}
	return fx, errors.Join(fx.makeUnclean(), fx.makePending())
}

// makeUnclean keeps the archive of a writer that was killed when its change could first be seen.
func (fx *fixture) makeUnclean() error {
	if fx.r.traceWorks() != nil {
		return nil
	}
	old, err := fx.listing(fx.archive)
	if err != nil {
		return err
	}
	path := filepath.Join(fx.r.dir, "unclean.lbx")
	for n := 1; n < 100; n++ {
		if err := copyFile(fx.archive, path); err != nil {
			return err
		}
		_, rep, err := fx.r.traced(plan{N: n, Kill: true}, "add", path, "-C", fx.more, ".")
		if err != nil {
			return err
		}
		now, err := fx.listing(path)
		if err != nil {
			return err
		}
		if now != old && rep.Met != "" {
			fx.unclean = path
			return nil
		}
	}
	return errors.New("no kill left an archive that was published and not closed")
}

// makePending keeps an archive in which deleted content waits to be wiped, because a reader needed it.
func (fx *fixture) makePending() error {
	path := filepath.Join(fx.r.dir, "pending.lbx")
	if err := copyFile(fx.archive, path); err != nil {
		return err
	}
	rd, err := fx.startReader(path, "big.bin")
	if err != nil {
		return err
	}
	err = fx.r.must("add", path, "-C", fx.change, ".")
	if err := errors.Join(err, rd.kill()); err != nil {
		return err
	}
	if n, err := fx.pendingWipe(path); err != nil || n == 0 {
		return errors.Join(err, errors.New("a reader's generation was retired, and info shows nothing that waits to be wiped"))
	}
	fx.pending = path
	return nil
}

// listing is an archive's state in text, "" when there is no file.
func (fx *fixture) listing(path string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	res := fx.r.lockbox("list", path, "--json", "--digest")
	if res.code != 0 {
		return "", errors.New(res.why())
	}
	return "archive\n" + res.out, nil
}

// copyFile copies a small file.
func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// contains returns which of several pieces of secret is in raw, -1 for none.
func contains(raw, secret []byte) int {
	for off := 0; off+32 <= len(secret); off += 1 << 10 {
		if bytes.Contains(raw, secret[off:off+32]) {
			return off
		}
	}
	return -1
}

// gone checks that nothing of deleted content or of a deleted name is left in a file.
func gone(path string, content []byte, names ...string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if off := contains(raw, content); off >= 0 {
		return fmt.Errorf("deleted content, from its byte %d on, is still in the file", off)
	}
	for _, n := range names {
		if i := bytes.Index(raw, []byte(n)); i >= 0 {
			return fmt.Errorf("the deleted name %q is still in the file, at %d", n, i)
		}
	}
	return nil
}

// sameTree compares a tree with what was extracted from its archive: kinds, contents, modes and times. With partly,
// entries may be missing and directories unfinished, but what has its name must be whole; with older it may also be what
// olderTree made.
func sameTree(want, got string, partly, older bool) error {
	seen := map[string]bool{}
	err := filepath.WalkDir(got, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == got {
			return err
		}
		rel, _ := filepath.Rel(got, p)
		if partly && strings.HasPrefix(d.Name(), ".lbxtmp-") {
			return nil // a temporary name
		}
		seen[rel] = true
		wi, err := os.Lstat(filepath.Join(want, rel))
		if err != nil {
			return fmt.Errorf("%s was not in the archive: %w", rel, err)
		}
		gi, err := d.Info()
		if err != nil {
			return err
		}
		if wi.Mode().Type() != gi.Mode().Type() {
			return fmt.Errorf("%s: %v, want %v", rel, gi.Mode(), wi.Mode())
		}
		switch {
		case d.Type() == fs.ModeSymlink:
			a, e1 := os.Readlink(filepath.Join(want, rel))
			b, e2 := os.Readlink(p)
			if older && e2 == nil && b == "older" {
				return nil
			}
			if e1 != nil || e2 != nil || a != b {
				return fmt.Errorf("%s leads to %q, want %q", rel, b, a)
			}
			return nil
		case d.Type().IsRegular():
			a, e1 := os.ReadFile(filepath.Join(want, rel))
			b, e2 := os.ReadFile(p)
			if err := errors.Join(e1, e2); err != nil {
				return err
			}
			if older && string(b) == olderText {
				return nil
			}
			if !bytes.Equal(a, b) {
				return fmt.Errorf("%s has %d bytes that differ from the %d stored", rel, len(b), len(a))
			}
		case partly:
			return nil
		}
		if wi.Mode() != gi.Mode() || !wi.ModTime().Equal(gi.ModTime()) {
			return fmt.Errorf("%s: %v %v, want %v %v", rel, gi.Mode(), gi.ModTime(), wi.Mode(), wi.ModTime())
		}
		return nil
	})
	if err != nil || partly {
		return err
	}
	return filepath.WalkDir(want, func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(want, p); err == nil && p != want && !seen[rel] {
			return fmt.Errorf("%s is missing", rel)
		}
		return err
	})
}

// startReader starts a cat that has its generation locked and waits for someone to read on.
func (fx *fixture) startReader(archive, stored string) (*reader, error) {
	cmd, cancel := fx.r.command(fx.r.bin, "cat", archive, stored)
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	rd := &reader{out: out, wait: cmd.Wait, signal: cmd.Process.Signal, cancel: cancel, errs: &errs}
	var first [1]byte
	if _, err := io.ReadFull(out, first[:]); err != nil {
		return nil, errors.Join(fmt.Errorf("cat %s wrote nothing: %w: %s", stored, err, errs.String()), rd.kill())
	}
	rd.got = first[:]
	return rd, nil
}

// reader is a process that reads an archive.
type reader struct {
	out    io.Reader
	got    []byte
	wait   func() error
	signal func(os.Signal) error
	cancel context.CancelFunc
	errs   *strings.Builder
}

// kill ends the reader and waits until its locks are gone.
func (rd *reader) kill() error {
	defer rd.cancel()
	err := rd.signal(syscall.SIGKILL)
	_ = rd.wait() // it was killed, and says so
	return err
}

// finish reads the rest.
func (rd *reader) finish() ([]byte, error) {
	defer rd.cancel()
	rest, err := io.ReadAll(rd.out)
	if e := rd.wait(); e != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", e, rd.errs.String()))
	}
	return append(rd.got, rest...), err
}

// versioned is content that says which version it is and can be made again from that.
func versioned(name string, version uint64, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	return append(b, noise(fmt.Sprint(name, "@", version), size)...)
}

// versionOf returns the version of whole content, and an error for anything else.
func versionOf(name string, b []byte) (uint64, error) {
	if len(b) < 12 {
		return 0, fmt.Errorf("%s has %d bytes", name, len(b))
	}
	v, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
	if uint64(len(b)) != 12+uint64(n) || !bytes.Equal(b, versioned(name, v, int(n))) {
		return 0, fmt.Errorf("%s is not any version as it was stored", name)
	}
	return v, nil
}
