package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
)

// without is an archive whose first n bytes are zeros.
func without(b []byte, n int) []byte {
	b = bytes.Clone(b)
	clear(b[:n])
	return b
}

// An archive without a superblock is printed by its clean mark, and without that by what a search finds, and it says so.
func TestWithoutSuperblocks(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		o := Options{}
		if encrypted {
			o.Unlock = sealtest.Unlock
		}
		whole := archive(t, encrypted)
		_, sum, err := run(whole, o)
		if err != nil {
			t.Fatal(err)
		}
		for from, says := range map[int]string{format.CopiesSize: "as the clean mark repeats it", format.DataStart: "FOUND BY SEARCHING"} {
			b := without(whole, from)
			out, got, err := run(b, o)
			if err != nil || got.Generation != sum.Generation || got.Damaged != 5 || got.Damaged != strings.Count(out, "DAMAGED") || got.Locked {
				t.Errorf("encrypted %v, %s: %+v, %v\n%.3000s", encrypted, says, got, err, out)
			}
			for _, want := range []string{says, `"dir/499"  file, mode 0644`, "tree free", "verified: content ", "no copy is there", fmt.Sprintf("generation %d", sum.Generation)} {
				if !strings.Contains(out, want) {
					t.Errorf("encrypted %v: no %q in\n%.3000s", encrypted, want, out)
				}
			}
			if known := got.Root == sum.Root; known != (from == format.CopiesSize) {
				t.Errorf("encrypted %v, %s: the root is %v", encrypted, says, got.Root)
			}
			if unproven := !encrypted && from == format.DataStart; unproven != strings.Contains(out, "NOT VERIFIED") {
				t.Errorf("encrypted %v, %s: what is said of the commit block", encrypted, says)
			}
			if encrypted != strings.Contains(out, `slot 1  test, `) {
				t.Errorf("encrypted %v, %s: key slots", encrypted, says)
			}
			// What has been promised of the state is kept, or nothing is printed.
			for _, o := range []Options{{ExpectRoot: &format.Digest{1}}, {ExpectRoot: &sum.Root}, {Signers: []seal.PublicKey{{1}}}} {
				o.Unlock = sealtest.Unlock
				known := o.ExpectRoot != nil && *o.ExpectRoot == sum.Root && from == format.CopiesSize
				if out, _, err := run(b, o); known != (err == nil) || err != nil && (!errors.Is(err, format.ErrAuth) || strings.Contains(out, "tree ")) {
					t.Errorf("encrypted %v, %s, %+v: %v", encrypted, says, o, err)
				}
			}
			if out, _, err := run(b, Options{Encrypted: true, Unlock: sealtest.Unlock}); encrypted != (err == nil) || !encrypted && (!errors.Is(err, ErrNotEncrypted) || out != "") {
				t.Errorf("encrypted %v, %s: a lock is asked for: %v", encrypted, says, err)
			}
			// Without a key it stays locked, whichever way that is said.
			for _, unlock := range []seal.Unlock{nil, func(context.Context, []seal.Slot) ([]seal.Identity, error) {
				return nil, fmt.Errorf("%w: %w", format.ErrAuth, ErrLocked)
			}} {
				out, got, err := run(b, Options{Unlock: unlock})
				if err != nil || got.Locked != encrypted || encrypted && (strings.Contains(out, "dir/") || !strings.Contains(out, "slot 1  ") || !strings.Contains(out, lockedText)) {
					t.Errorf("encrypted %v, %s, without a key: %+v, %v\n%.3000s", encrypted, says, got, err, out)
				}
			}
			if out, got, err := run(b, Options{Unlock: o.Unlock, Limit: 2}); err != nil || got.Damaged != 5 || strings.Count(out, "\n") > 120 {
				t.Errorf("encrypted %v, %s, limit: %+v, %v, %d lines", encrypted, says, got, err, strings.Count(out, "\n"))
			}
		}
	}
}

// Damage beside the lost superblocks ends what it is in, and never the program.
func TestDamageWithoutSuperblocks(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		o := Options{Unlock: sealtest.Unlock, Limit: 20}
		whole := without(archive(t, encrypted), format.DataStart)
		for at := format.DataStart; at < len(whole); at += len(whole)/60 | 1 {
			b := bytes.Clone(whole)
			b[at] ^= 0x40
			out, sum, err := run(b, o)
			if err != nil || sum.Damaged < 5 || sum.Damaged != strings.Count(out, "DAMAGED") {
				t.Errorf("encrypted %v, byte %d: %+v, %v", encrypted, at, sum, err)
			}
		}
		for n := 0; n < len(whole); n += len(whole)/20 | 1 {
			out, sum, err := run(whole[:n], o)
			if err != nil && !errors.Is(err, format.ErrNotLockbox) || err == nil && sum.Damaged != strings.Count(out, "DAMAGED") {
				t.Errorf("encrypted %v, cut to %d: %+v, %v", encrypted, n, sum, err)
			}
		}
	}
	// No commit block is there, either: what there is besides is counted.
	whole := without(archive(t, false), format.DataStart)
	whole = bytes.ReplaceAll(whole, []byte("LBXC"), []byte("LBXD"))
	out, sum, err := run(whole, Options{})
	if err != nil || sum.Generation != 0 || sum.Damaged != 5 || strings.Contains(out, "frames, found: 0") || !strings.Contains(out, "commit blocks, found: 0") {
		t.Errorf("%+v, %v\n%.3000s", sum, err, out)
	}
	if out, _, err := run(make([]byte, 100<<10), Options{}); !errors.Is(err, format.ErrNotLockbox) || out != "" {
		t.Errorf("zeros: %v, %q", err, out)
	}
}
