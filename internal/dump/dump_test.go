package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

const name = "a.lbx"

// memFile is a file whose bytes from lo to hi cannot be read.
type memFile struct {
	b      []byte
	lo, hi int64
}

func (f memFile) Size() (int64, error) { return int64(len(f.b)), nil }

func (f memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.hi && off+int64(len(p)) > f.lo {
		return 0, syscall.EIO
	}
	return bytes.NewReader(f.b).ReadAt(p, off)
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }
func (content) Check() error { return nil }

// archive makes an archive of three generations: small files in packs, a frame with blocks, extents that wait to be used again.
func archive(t testing.TB, encrypted bool) []byte {
	t.Helper()
	ctx := context.Background()
	mem := vfs.Mem()
	o := store.Options{FS: mem, Jobs: 1, Entropy: rand.NewChaCha8([32]byte{5})}
	c := store.CreateOptions{Level: frames.LevelDefault}
	if encrypted {
		o.Unlock = sealtest.Unlock
		c.Slots = []seal.NewSlot{{Recipient: sealtest.ClearKey{}, Label: "test\x1b"}}
	}
	random := make([]byte, 200<<10)
	_, _ = rand.NewChaCha8([32]byte{6}).Read(random)
	for gen := range 3 {
		var a *store.Archive
		var err error
		if gen == 0 {
			a, err = store.Create(ctx, name, o, c)
		} else {
			a, err = store.OpenWrite(ctx, name, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var src []store.Source
		for i := range 300 {
			p, err := pathsafe.Parse(fmt.Sprintf("dir/%03d", i+gen*100))
			if err != nil {
				t.Fatal(err)
			}
			data := []byte(strings.Repeat(p.String()+"\n", 20))
			if i == 0 {
				data = random[gen:]
			}
			e := index.Entry{Path: p, Kind: index.File, Mode: 0o644, Size: int64(len(data)), HasMtime: true, MtimeSec: 1e9, User: "u\x1bser"}
			src = append(src, store.Source{Entry: e, Open: func() (store.Reader, index.Entry, error) {
				return content{bytes.NewReader(data)}, e, nil
			}})
		}
		if err := tx.Add(ctx, slices.Values(src), func(a store.Added) {
			if a.Err != nil {
				t.Errorf("%v: %v", a.Path, a.Err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return mem.Bytes(name)
}

func run(b []byte, o Options) (string, Summary, error) {
	var out bytes.Buffer
	sum, err := Run(context.Background(), memFile{b: b}, &out, o)
	return out.String(), sum, err
}

func TestEverythingIsPrinted(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		o := Options{}
		if encrypted {
			o.Unlock = sealtest.Unlock
		}
		out, sum, err := run(archive(t, encrypted), o)
		if err != nil || sum.Damaged != 0 || sum.Locked || sum.Generation < 3 {
			t.Fatalf("%+v, %v\n%.3000s", sum, err, out)
		}
		for _, want := range []string{
			"clean mark: names", "stage set", "level 1, from the first", `"dir/499"  file, mode 0644`, `user "u\x1bser"`,
			": raw in ", " blocks of ", ": zstd, pack of class ", "verified: content ", "tree free",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("encrypted %v: no %q in\n%.3000s", encrypted, want, out)
			}
		}
		if encrypted != strings.Contains(out, `slot 1  test,`) || encrypted != strings.Contains(out, `test\x1b`) || strings.ContainsRune(out, 0x1b) {
			t.Errorf("key slots, or bytes that steer a terminal:\n%.3000s", out)
		}
	}
}

// Without a key nothing of what is locked is printed.
func TestLocked(t *testing.T) {
	out, sum, err := run(archive(t, true), Options{})
	if err != nil || !sum.Locked || sum.Damaged != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, secret := range []string{"dir/", "commit block\n", "entries", "test\\x1b"} {
		if strings.Contains(out, secret) {
			t.Errorf("%q shows:\n%s", secret, out)
		}
	}
}

func TestLimit(t *testing.T) {
	b := archive(t, false)
	for _, limit := range []int{1, 3, 50} {
		out, sum, err := run(b, Options{Limit: limit})
		if err != nil || sum.Damaged != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		// Each of five trees and two sets has its heading, nodes, items, and for a frame a second line.
		if n, most := strings.Count(out, "\n"), 60+7+limit*(2*5+1+2); n > most {
			t.Errorf("limit %d: %d lines", limit, n)
		}
		if !strings.Contains(out, "  ... and ") {
			t.Errorf("limit %d: nothing is said to be left out", limit)
		}
	}
}

func TestExpectations(t *testing.T) {
	b := archive(t, false)
	_, sum, err := run(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(b, Options{ExpectRoot: &sum.Root}); err != nil {
		t.Errorf("its own root: %v", err)
	}
	if out, _, err := run(b, Options{Encrypted: true}); !errors.Is(err, ErrNotEncrypted) || out != "" {
		t.Errorf("a lock that is not there: %v, %q", err, out)
	}
	for _, o := range []Options{{ExpectRoot: &format.Digest{1}}, {Signers: []seal.PublicKey{{1}}}} {
		if out, _, err := run(b, o); !errors.Is(err, format.ErrAuth) || strings.Contains(out, "tree ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// What is damaged is said to be, or makes no difference; the rest is printed. Bytes beyond the structures' own, such as
// fill, are not looked at.
func TestDamage(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		o := Options{}
		if encrypted {
			o.Unlock = sealtest.Unlock
		}
		whole := archive(t, encrypted)
		want, _, err := run(whole, o)
		if err != nil {
			t.Fatal(err)
		}
		silent, step := 0, len(whole)/400|1
		for at := 3; at < len(whole); at += step {
			b := bytes.Clone(whole)
			b[at] ^= 0x40
			got, sum, err := run(b, o)
			mark := at >= format.CleanMarkOff && at < format.DataStart
			switch {
			case err != nil:
				t.Errorf("byte %d: %v", at, err)
			case sum.Damaged != strings.Count(got, "DAMAGED"):
				t.Errorf("byte %d: %d damaged structures, printed are %d", at, sum.Damaged, strings.Count(got, "DAMAGED"))
			case sum.Damaged == 0 && got != want && !mark:
				t.Errorf("byte %d: printed as if it were right", at)
			case sum.Damaged == 0:
				silent++
			}
		}
		if silent > len(whole)/step/2 {
			t.Errorf("%d flipped bytes were not seen, of %d", silent, len(whole)/step)
		}
		for n := 0; n < len(whole); n += step * 40 {
			_, sum, err := run(whole[:n], o)
			if err == nil && sum.Damaged == 0 || err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrNotLockbox) {
				t.Errorf("cut to %d: %+v, %v", n, sum, err)
			}
		}
	}
}

// A device that does not give some bytes ends the structure that they belong to, and not the dump.
func TestUnreadable(t *testing.T) {
	b := archive(t, false)
	for name, f := range map[string]memFile{"one place": {b, format.DataStart, format.DataStart + 1}, "all frames": {b, format.DataStart, 40 << 10}} {
		var out bytes.Buffer
		sum, err := Run(context.Background(), f, &out, Options{})
		if err != nil || sum.Damaged == 0 || !strings.Contains(out.String(), "input/output error") || !strings.Contains(out.String(), "tree free") {
			t.Errorf("%s: %+v, %v\n%.2000s", name, sum, err, out.String())
		}
	}
	for page := int64(0); page < format.DataStart; page += format.PageSize { // four copies and the clean mark
		var out bytes.Buffer
		sum, err := Run(context.Background(), memFile{b, page, page + 1}, &out, Options{})
		damaged := 1
		if page == format.CleanMarkOff {
			damaged = 0
		}
		if err != nil || sum.Damaged != damaged || !strings.Contains(out.String(), "tree free") {
			t.Errorf("page at %d: %+v, %v\n%.2000s", page, sum, err, out.String())
		}
	}
	if _, err := Run(context.Background(), memFile{b: b}, failing{}, Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, memFile{b: b}, io.Discard, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
