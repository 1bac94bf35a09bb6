package bench

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/store"
)

func measured(t *testing.T, filter string) *Report {
	t.Helper()
	r, err := Run(context.Background(), Options{
		Dir: t.TempDir(), Quick: true, Filter: regexp.MustCompile(filter),
		Begin: func(Machine) error { return nil }, Next: func(string) {}, Done: func([]Set) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSuites measures one workload of suites: a row for each suite beside the archive without protection, and for each
// primitive, with a goal where there is one.
func TestSuites(t *testing.T) {
	var got []string
	for _, row := range measured(t, "^suites: 4 × 8 MiB raw").Rows() {
		line := strings.TrimPrefix(row.Label, "4 × 8 MiB raw, ")
		if row.other != nil {
			line += "|" + row.other.Contender
		}
		got = append(got, line+"|"+row.Goal)
	}
	want := []string{"signed|unprotected|", "encrypted|unprotected|", "encrypted and signed|unprotected|"}
	for _, against := range []string{"BLAKE3 in blocks of 64 KiB|≥ 0.8", "BLAKE3 in blocks of 4 KiB|", "reading and BLAKE3|"} {
		name, _, _ := strings.Cut(against, "|")
		want = append(want, "signed: rate by that of "+name+"|"+against)
	}
	if ps, err := primitives(); err != nil {
		t.Fatal(err)
	} else if len(ps) == 1 {
		want = append(want, "encrypted: rate by that of AES-256-GCM|")
	} else {
		for _, against := range []string{"AES-256-GCM in blocks of 64 KiB|≥ 0.7", "AES-256-GCM in blocks of 4 KiB|", "reading and AES-256-GCM|"} {
			name, _, _ := strings.Cut(against, "|")
			want = append(want, "encrypted: rate by that of "+name+"|"+against)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%q, want\n%q", got, want)
	}
}

// TestVariants demands that the contenders are protected as their names say.
func TestVariants(t *testing.T) {
	ctx := context.Background()
	e := &env{ctx: ctx, dir: t.TempDir(), Options: Options{Jobs: 1}}
	vs, err := e.variants()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.make(vs, each(3, kib, nil)); err != nil {
		t.Fatal(err)
	}
	names := map[format.Suite]string{format.SuiteNone: unprotected, format.SuiteSigned: "lockbox, signed",
		format.SuiteEncrypted: "lockbox, encrypted", format.SuiteBoth: "lockbox, encrypted and signed"}
	for _, v := range vs {
		a, err := e.openProtected(v.file, v.p)
		if err != nil {
			t.Fatal(err)
		}
		in, err := a.Info()
		if err = errors.Join(err, a.Close()); err != nil {
			t.Fatal(err)
		}
		if names[in.Suite] != v.name {
			t.Errorf("%s is %v", v.name, in.Suite)
		}
		if in.Suite.Signed() != !in.Signer.IsZero() {
			t.Errorf("%s: signer %v", v.name, in.Signer)
		}
		a, err = store.Open(ctx, v.file, store.Options{})
		if err == nil {
			err = a.Close()
		}
		if in.Suite.Encrypted() != errors.Is(err, format.ErrAuth) {
			t.Errorf("%s opened without keys: %v", v.name, err)
		}
	}
}

// TestKinds measures all kinds of archives: each is what its name says, and has a row for reading and one for making it.
func TestKinds(t *testing.T) {
	e := &env{ctx: t.Context(), dir: t.TempDir(), Options: Options{Jobs: 1}}
	vs, err := e.sixteenKinds()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.make(vs, each(3, kib, nil)); err != nil {
		t.Fatal(err)
	}
	suites := map[format.Suite]string{format.SuiteNone: unprotected, format.SuiteSigned: "signed", format.SuiteEncrypted: "encrypted", format.SuiteBoth: "encrypted and signed"}
	seen := map[string]bool{}
	for _, v := range vs {
		a, err := e.openProtected(v.file, v.p)
		if err != nil {
			t.Fatal(err)
		}
		in, err := a.Info()
		if err = errors.Join(err, a.Close()); err != nil {
			t.Fatal(err)
		}
		name := suites[in.Suite] + ", " + map[bool]string{true: "stored", false: "compressed"}[in.Level == frames.LevelNone]
		if in.Padding != format.PadNone {
			name += ", padded"
		}
		if seen[name] = true; name != v.name {
			t.Errorf("%s is %s", v.name, name)
		}
	}
	rows := map[string]int{}
	for _, row := range measured(t, "^kinds: ").Rows() {
		how, kind, _ := strings.Cut(strings.TrimPrefix(row.Label, "256 × 4 KiB and 4 × 256 KiB text, "), " ")
		rows[how]++
		_, compression, _ := strings.Cut(strings.TrimSuffix(kind, ", padded"), ", ")
		if !seen[kind] || row.other.Contender != unprotected+", "+compression+": "+how {
			t.Errorf("%s against %s", row.Label, row.other.Contender)
		}
	}
	if len(seen) != 16 || rows["reading"] != 14 || rows["making"] != 14 {
		t.Errorf("%d kinds, %v", len(seen), rows)
	}
}

func TestPadding(t *testing.T) {
	r := measured(t, "^suites: padding, 2,000")
	sizes := map[string]float64{}
	for i := range r.Sets {
		if s := &r.Sets[i]; s.Value != nil {
			sizes[s.Contender] = *s.Value
		}
	}
	padme, pow2 := sizes["lockbox, padme: size by the one without"], sizes["lockbox, pow2: size by the one without"]
	if len(sizes) != 3 || padme < 1 || padme > 1.3 || pow2 < padme || pow2 > 4 {
		t.Errorf("sizes %v", sizes)
	}
}

// TestRecorded measures the small recorded shapes; what grew is no time, so its goal is held here. A recorded time says
// nothing about an earlier run.
func TestRecorded(t *testing.T) {
	r := measured(t, "^recorded: (2,000|add|50)")
	grew, timed := 0, 0
	for i := range r.Sets {
		s := &r.Sets[i]
		switch {
		case s.Value != nil:
			grew++
			if s.Missed || *s.Value <= 0 || *s.Goal != recordedPart {
				t.Errorf("%s: %s: %v", s.Workload, s.Shown, *s.Value)
			}
		case s.Ratio != nil:
			timed++
			if !hasPrefix(s.Against, recorded) || *s.Goal != recordedPart {
				t.Errorf("%s: against %q", s.Workload, s.Against)
			}
		}
	}
	if grew != 2 || timed != 3 {
		t.Errorf("%d growths, %d times", grew, timed)
	}
	if c := r.Compare(r); len(c.Changes) != 2 || c.New != 0 {
		t.Errorf("compared %d, %d new", len(c.Changes), c.New)
	}
}
