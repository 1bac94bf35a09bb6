package pathsafe

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"lockbox/internal/format"
	"pgregory.net/rapid"
)

func TestLimitsAreThoseOfTheFormat(t *testing.T) {
	if MaxLen != format.MaxPath || MaxComponent != format.MaxComponent {
		t.Fatalf("limits %d, %d differ from the format's %d, %d", MaxLen, MaxComponent, format.MaxPath, format.MaxComponent)
	}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("c", MaxComponent)
	deep := strings.Repeat("d/", MaxLen/2)
	for _, tc := range []struct{ in, want string }{
		{"a", ""},
		{"a/b/c", ""},
		{"...", ""},
		{".hidden/..x", ""},
		{`back\slash`, ""},
		{"\xff\xfe/\x01", ""},
		{"e\u0301/\u00e9", ""},
		{long, ""},
		{deep[:MaxLen-1], ""},
		{"", "it is empty"},
		{"/a", "not relative"},
		{"/", "not relative"},
		{"a/", "empty component"},
		{"a//b", "empty component"},
		{".", `component "."`},
		{"a/..", `component ".."`},
		{"../a", `component ".."`},
		{"a/./b", `component "."`},
		{long + "c", "1025 bytes long, more than 1024"},
		{"a\x00b", `component "a\x00b" has a zero byte`},
		{deep + "d", "16385 bytes long, more than 16384"},
	} {
		p, err := Parse(tc.in)
		if tc.want == "" {
			if err != nil || p.String() != tc.in {
				t.Errorf("Parse(%.40q) = %.40q, %v", tc.in, p, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) || !p.IsZero() {
			t.Errorf("Parse(%.40q) = %.40q, %v; want an error with %q", tc.in, p, err, tc.want)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("Parse(%.40q): error of %d bytes", tc.in, len(err.Error()))
		}
	}
}

func TestFromOperand(t *testing.T) {
	for _, tc := range []struct {
		in       string
		unix, nt string // "!" for an error
	}{
		{"", "!", "!"},
		{".", "", ""},
		{"..", "", ""},
		{"../..", "", ""},
		{"/", "", ""},
		{"a", "a", "a"},
		{"./a/", "a", "a"},
		{"../x/y", "x/y", "x/y"},
		{"../../x/../y", "y", "y"},
		{"a/../../b", "b", "b"},
		{"//a//b", "a/b", "b"},
		{"/etc/passwd", "etc/passwd", "etc/passwd"},
		{`a\b`, `a\b`, "a/b"},
		{`C:\x\y`, `C:\x\y`, "x/y"},
		{`c:..\x`, `c:..\x`, "x"},
		{"C:", "C:", ""},
		{"1:x", "1:x", "1:x"},
		{`\\srv\share\d\f`, `\\srv\share\d\f`, "d/f"},
		{`\\srv\share`, `\\srv\share`, ""},
		{`\\?\C:\d\f`, `\\?\C:\d\f`, "d/f"},
		{`\\?\UNC\srv\share\d`, `\\?\UNC\srv\share\d`, "d"},
		{`\\.\C:\d`, `\\.\C:\d`, "d"},
		{"a\x00b", "!", "!"},
		{"dir/" + strings.Repeat("n", 1025), "!", "!"},
	} {
		for _, windows := range []bool{false, true} {
			want := tc.unix
			if windows {
				want = tc.nt
			}
			p, err := fromOperand(tc.in, windows)
			switch {
			case want == "!":
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("windows=%v %.40q: %q, %v; want an error", windows, tc.in, p, err)
				}
			case err != nil || p.String() != want:
				t.Errorf("windows=%v %.40q: %q, %v; want %q", windows, tc.in, p, err, want)
			}
		}
	}
}

func TestFromKeyRefuses(t *testing.T) {
	for _, k := range []string{"", "a/b", "\x00a", "a\x00", "a\x00\x00b", "..", "a\x00.", strings.Repeat("x", 1025)} {
		if p, err := FromKey([]byte(k)); !errors.Is(err, ErrInvalid) {
			t.Errorf("FromKey(%.40q) = %q, %v; want an error", k, p, err)
		}
	}
}

func TestParts(t *testing.T) {
	p := must(t, "a/b/c")
	if p.Base() != "c" || p.Parent().String() != "a/b" || p.Depth() != 3 || !slices.Equal(p.Components(), []string{"a", "b", "c"}) {
		t.Errorf("parts of %v: %q %q %d %q", p, p.Base(), p.Parent(), p.Depth(), p.Components())
	}
	if top := must(t, "a"); !top.Parent().IsZero() || top.Base() != "a" {
		t.Error("the parent of a top-level path is not zero")
	}
	var z Path
	if !z.Parent().IsZero() || z.Base() != "" || z.Depth() != 0 || z.Components() != nil || len(z.Key()) != 0 {
		t.Error("the zero path has parts")
	}
	for n, want := range []string{"a/b/c", "b/c", "c"} {
		if q, ok := p.Strip(n); !ok || q.String() != want {
			t.Errorf("Strip(%d) = %q, %v", n, q, ok)
		}
	}
	for _, n := range []int{3, 4, -1} {
		if q, ok := p.Strip(n); ok || !q.IsZero() {
			t.Errorf("Strip(%d) = %q, %v", n, q, ok)
		}
	}
	if _, ok := z.Strip(0); ok {
		t.Error("Strip of the zero path succeeds")
	}
	for _, bad := range []string{"", ".", "..", "x/y", "/", "a\x00", strings.Repeat("n", 1025)} {
		if q, err := p.Join(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("Join(%.40q) = %q, %v", bad, q, err)
		}
	}
	full := must(t, strings.Repeat("d/", MaxLen/2-1)+"d")
	if q, err := full.Join("x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("Join past the limit: %d bytes, %v", len(q.String()), err)
	}
	if q, err := z.Join("x"); err != nil || q.String() != "x" {
		t.Errorf("Join at the top: %q, %v", q, err)
	}
	if lo, hi := SubtreeRange(z); len(lo) != 0 || hi != nil {
		t.Errorf("range of the top: %q, %q", lo, hi)
	}
}

func must(t *testing.T, s string) Path {
	t.Helper()
	p, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// somePath draws from few short components, so that prefixes, parents and neighbours of the separator
// come up often.
func somePath() *rapid.Generator[Path] {
	component := rapid.SampledFrom([]string{"a", "b", "a\x01", "a.", "a-", "a0", "\x01", "...", "ab", "\xff", "é"})
	return rapid.Custom(func(t *rapid.T) Path {
		p, err := Parse(strings.Join(rapid.SliceOfN(component, 1, 4).Draw(t, "components"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := somePath().Draw(t, "p"), somePath().Draw(t, "q")
		if got, err := FromKey(p.Key()); err != nil || got != p {
			t.Fatalf("FromKey(Key) = %q, %v", got, err)
		}
		if got := bytes.Compare(p.Key(), q.Key()); got != sign(p.Compare(q)) {
			t.Fatalf("Compare = %d, keys %d", p.Compare(q), got)
		}
		lo, hi := SubtreeRange(q)
		inRange := bytes.Compare(p.Key(), lo) >= 0 && bytes.Compare(p.Key(), hi) < 0
		if inRange != p.IsUnder(q) || inRange != strings.HasPrefix(p.String(), q.String()+"/") {
			t.Fatalf("in range %v, IsUnder %v", inRange, p.IsUnder(q))
		}
		if !p.IsUnder(Path{}) || (Path{}).IsUnder(Path{}) || (Path{}).IsUnder(p) {
			t.Fatal("IsUnder and the top disagree")
		}
		if joined, err := p.Parent().Join(p.Base()); err != nil || joined != p {
			t.Fatalf("Parent and Base join to %q, %v", joined, err)
		}
		joined, err := p.JoinPath(q)
		if err != nil || !joined.IsUnder(p) {
			t.Fatalf("JoinPath: %q, %v", joined, err)
		}
		if back, ok := joined.Strip(p.Depth()); !ok || back != q {
			t.Fatalf("Strip undoes JoinPath as %q", back)
		}
		for _, windows := range []bool{false, true} {
			if got, err := fromOperand(p.String(), windows); err != nil || got != p {
				t.Fatalf("a canonical path as operand becomes %q, %v", got, err)
			}
		}
	})
}

func sign(n int) int { return max(-1, min(1, n)) }

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"plain name.txt":     "plain name.txt",
		"tab\tnl\ncr\r":      `tab\x09nl\x0acr\x0d`,
		"\x1b[31m\x7f":       `\x1b[31m\x7f`,
		`back\slash`:         `back\x5cslash`,
		"\u0085\u009b":       `\u0085\u009b`,
		"abc\u202etxt.exe":   `abc\u202etxt.exe`,
		"\u2066\u061c\u200e": `\u2066\u061c\u200e`,
		"a\u200bb\ufeff":     `a\u200bb\ufeff`,
		"\u2028\u2029":       `\u2028\u2029`,
		"\u3164\u034f\ufe0f": `\u3164\u034f\ufe0f`,
		"\U000e0041":         `\U000e0041`,
		"bad\xff\xc3":        `bad\xff\xc3`,
		"\ufffd":             "\ufffd",
		"ü 日本 🙂 e\u0301":     "ü 日本 🙂 e\u0301",
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// unquote is the inverse that Quote promises to have.
func unquote(t testing.TB, s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i+1]]
		n, err := strconv.ParseUint(s[i+2:i+2+digits], 16, 32)
		if err != nil || digits == 0 {
			t.Fatalf("escape at %d of %s: %v", i, s, err)
		}
		if digits == 2 {
			b = append(b, byte(n))
		} else {
			b = utf8.AppendRune(b, rune(n))
		}
		i += 1 + digits
	}
	return string(b)
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", `\x41`, "\xff\u202e\n", "\xf3\xa0\x81", "日\u200d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := Quote(s)
		if !utf8.ValidString(q) || plainPrefix(strings.ReplaceAll(q, `\`, "")) != len(strings.ReplaceAll(q, `\`, "")) {
			t.Fatalf("%+q holds something that should be escaped", q)
		}
		if back := unquote(t, q); back != s {
			t.Fatalf("%q quoted is %q and reads back as %q", s, q, back)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "../a", "/x//y/.", "a\x00b", `C:\x`, "\xff/…"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := Parse(s); err == nil {
			canonical(t, p)
			if p.String() != s {
				t.Fatalf("Parse changed %q to %q", s, p)
			}
		}
		if p, err := FromKey([]byte(s)); err == nil {
			canonical(t, p)
			if string(p.Key()) != s {
				t.Fatalf("key %q became %q", s, p.Key())
			}
		}
		for _, windows := range []bool{false, true} {
			if p, err := fromOperand(s, windows); err == nil && !p.IsZero() {
				canonical(t, p)
			}
		}
	})
}

// canonical restates the rules of the format without the code under test.
func canonical(t *testing.T, p Path) {
	t.Helper()
	s := p.String()
	if s == "" || len(s) > 16384 || strings.Contains(s, "\x00") {
		t.Fatalf("%q is no canonical path", s)
	}
	for _, c := range strings.Split(s, "/") {
		if c == "" || c == "." || c == ".." || len(c) > 1024 {
			t.Fatalf("%q has the component %q", s, c)
		}
	}
}
