package lockbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox"
)

// spoil makes an archive, changes one byte of the stored bytes of its file "big" and returns its name.
func spoil(t *testing.T) (name string, big []byte) {
	t.Helper()
	big = noise(1 << 20)
	name = filepath.Join(t.TempDir(), "a.lbx")
	a, err := lockbox.Create(t.Context(), name, lockbox.Options{}, lockbox.CreateOptions{})
	must(t, err)
	change(t, a, func(tx *lockbox.Tx) {
		must(t, tx.PutBytes(t.Context(), file("big"), big))
		put(t, tx, "other", strings.Repeat("other ", 1000))
	})
	must(t, a.Close())
	flip(t, name, big[500_000:500_100])
	return name, big
}

// flip changes a byte in the middle of the first place where a file has some bytes.
func flip(t *testing.T, name string, in []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	at := bytes.Index(b, in)
	if at < 0 {
		t.Fatal("the bytes are not stored as they are")
	}
	at += len(in) / 2
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
	must(t, err)
	must(t, f.Close())
}

func TestDamage(t *testing.T) {
	name, big := spoil(t)
	a := open(t, name, lockbox.Options{})
	f, err := a.Open("big")
	must(t, err)
	r := f.(*lockbox.File)
	p := bytes.Repeat([]byte{'?'}, 1<<20)
	n, err := r.ReadAt(p, 0)
	is(t, err, lockbox.ErrCorrupt)
	if !bytes.Equal(p[:n], big[:n]) {
		t.Error("what is said to be read is not what was stored")
	}
	for i, b := range p[n:] {
		if b != 0 && b != '?' && b != big[n+i] {
			t.Fatal("the buffer holds bytes that were not verified")
		}
	}
	var e *lockbox.Error
	if !errors.As(err, &e) || e.Archive != name || e.Entry != "big" || e.Record == "" {
		t.Errorf("it does not say where: %+v", e)
	}
	var out bytes.Buffer
	_, err = io.Copy(&out, f)
	is(t, err, lockbox.ErrCorrupt)
	if !bytes.HasPrefix(big, out.Bytes()) {
		t.Error("a wrong byte was written")
	}
	_, err = a.ReadFile("big")
	is(t, err, lockbox.ErrCorrupt)
	// What is sound stays readable.
	if _, err := a.ReadFile("other"); err != nil {
		t.Error(err)
	}
	var bad []error
	whole := 0
	one := open(t, name, lockbox.Options{Jobs: 1})
	must(t, one.Bulk(t.Context(), one.Entries(""), func(p lockbox.Piece) error {
		switch {
		case p.Err != nil:
			bad = append(bad, p.Err)
		case p.Entry.Path == "other":
			whole += len(p.Data)
		}
		return nil
	}))
	if len(bad) == 0 || !errors.Is(bad[0], lockbox.ErrCorrupt) || !strings.Contains(bad[0].Error(), "big") || whole != 6000 {
		t.Errorf("%v, %d bytes", bad, whole)
	}
}

func ofBig(f lockbox.Finding) bool { return f.Path == "big" }

func TestVerify(t *testing.T) {
	name, _ := spoil(t)
	var found []lockbox.Finding
	v := lockbox.VerifyOptions{Finding: func(f lockbox.Finding) { found = append(found, f) }}
	r, err := lockbox.Verify(t.Context(), name, lockbox.Options{}, v)
	is(t, err, lockbox.ErrCorrupt)
	if !slices.ContainsFunc(found, ofBig) || found[0].Offset < 0 || r.Damaged == 0 || !r.Complete || r.Entries != 2 {
		t.Errorf("%+v, %+v", found, r)
	}
	for what, v := range map[string]lockbox.VerifyOptions{
		"the structure": {Structure: true},
		"other entries": {Only: func(p string) bool { return p == "other" }},
	} {
		if _, err := lockbox.Verify(t.Context(), name, lockbox.Options{}, v); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, v := range []lockbox.VerifyOptions{{Structure: true, Only: func(string) bool { return true }}, {Rate: -1}} {
		_, err := lockbox.Verify(t.Context(), name, lockbox.Options{}, v)
		is(t, err, fs.ErrInvalid)
	}
	// An archive that cannot be opened is checked as well.
	must(t, os.Truncate(name, 30_000))
	_, err = lockbox.Open(t.Context(), name, lockbox.Options{})
	is(t, err, lockbox.ErrCorrupt)
	_, err = lockbox.Verify(t.Context(), name, lockbox.Options{}, lockbox.VerifyOptions{})
	is(t, err, lockbox.ErrCorrupt)
}

// TestScrub shows that a handle that trusts what it has verified learns of rot from the scrubber.
func TestScrub(t *testing.T) {
	big := noise(1 << 20)
	name := filepath.Join(t.TempDir(), "a.lbx")
	a, err := lockbox.Create(t.Context(), name, lockbox.Options{}, lockbox.CreateOptions{})
	must(t, err)
	change(t, a, func(tx *lockbox.Tx) { must(t, tx.PutBytes(t.Context(), file("big"), big)) })
	must(t, a.Close())
	r := open(t, name, lockbox.Options{Trust: lockbox.Earned})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found []lockbox.Finding
	var passes []lockbox.ScrubPass
	err = r.Scrub(ctx, lockbox.ScrubOptions{
		MaxAge: time.Millisecond,
		Damage: func(f lockbox.Finding) { found = append(found, f) },
		Pass: func(p lockbox.ScrubPass) {
			if passes = append(passes, p); len(passes) == 1 {
				flip(t, name, big[1000:1100])
			} else {
				cancel()
			}
		},
	})
	is(t, err, context.Canceled)
	if len(passes) != 2 || passes[0].Damaged != 0 || passes[0].Bytes != 1<<20 || passes[1].Damaged == 0 || !slices.ContainsFunc(found, ofBig) {
		t.Errorf("%+v, %+v", passes, found)
	}
	for _, o := range []lockbox.ScrubOptions{{MaxAge: time.Hour}, {Damage: func(lockbox.Finding) {}}} {
		is(t, r.Scrub(t.Context(), o), fs.ErrInvalid)
	}
	must(t, os.Rename(name, name+".old"))
	err = r.Scrub(t.Context(), lockbox.ScrubOptions{MaxAge: time.Hour, Damage: func(lockbox.Finding) {}})
	is(t, err, fs.ErrNotExist)
}
