package hostfs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lockbox/internal/pathsafe"
)

// macNames are what macOS has by default.
var macNames = NameRules{FoldCase: true, FoldForm: true, UTF8: true, Longest: 255}

func TestNameProblem(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, c := range []struct {
		name             string
		windows, mac, no bool // refused by Windows, by macOS, by a system that takes all bytes
	}{
		{"a", false, false, false},
		{"CON", true, false, false},
		{"con.txt", true, false, false},
		{"nul .x.y", true, false, false},
		{"COM1", true, false, false},
		{"com¹", true, false, false},
		{"LPT³.log", true, false, false},
		{"conin$", true, false, false},
		{"COM", false, false, false},
		{"COM12", false, false, false},
		{"CONSOLE", false, false, false},
		{"xcon", false, false, false},
		{"AUX:", true, false, false},
		{"a.", true, false, false},
		{"a ", true, false, false},
		{"...", true, false, false},
		{".a", false, false, false},
		{"a:b", true, false, false},
		{`a\b`, true, false, false},
		{"a?", true, false, false},
		{"a\x1fb", true, false, false},
		{"a\xffb", true, true, false},
		{"a\ufffdb", false, false, false},
		{long, false, true, true},
		{long + strings.Repeat("a", 56), true, true, true},
		{strings.Repeat("𝄞", 127), false, true, true},
		{strings.Repeat("𝄞", 128), true, true, true},
		{strings.Repeat("a", 255), false, false, false},
		{strings.Repeat("a", 256), true, true, true},
	} {
		rules := []struct {
			r       NameRules
			refused bool
		}{{windowsNames, c.windows}, {macNames, c.mac}, {NameRules{Longest: 255}, c.no}, {NameRules{}, false}}
		for i, r := range rules {
			if got := r.r.problem(c.name); (got != "") != r.refused {
				t.Errorf("%d: %.30q: %q", i, c.name, got)
			}
		}
		if (c.windows || c.mac || c.no) && !OddPath("dir/"+c.name+"/x") {
			t.Errorf("%.30q is not odd", c.name)
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		a, b      string
		windows   bool
		mac       bool
		different bool // on a system that folds nothing
	}{
		{"README", "readme", true, true, true},
		{"é", "e\u0301", false, true, true},
		{"É", "e\u0301", false, true, true},
		{"É", "é", true, true, true},
		{"straße", "STRASSE", true, true, true},
		{"\u212b", "\u00e5", true, true, true}, // the sign of the unit
		{"ſ", "S", true, true, true},
		{"\u212a", "k", true, true, true}, // the Kelvin sign
		{"ﬁ", "FI", true, true, true},
		{".git", ".g\u200cit", false, true, true},
		{"a", "b", false, false, true},
		{"²", "2", false, false, true},
		{"a\xff", "A\xff", true, false, true},
		{"a\xff", "a\xfe", false, false, true},
	} {
		for i, r := range []struct {
			r    NameRules
			same bool
		}{{windowsNames, c.windows}, {macNames, c.mac}, {NameRules{}, !c.different}} {
			if got := r.r.fold(c.a) == r.r.fold(c.b); got != r.same {
				t.Errorf("%d: %q and %q: %v; they fold to %q and %q", i, c.a, c.b, got, r.r.fold(c.a), r.r.fold(c.b))
			}
		}
	}
}

func TestMapName(t *testing.T) {
	for _, c := range []struct {
		name  string
		apart int
		want  string
	}{
		{"plain.txt", 1, "plain.txt"},
		{"a:b", 1, "a%3Ab"},
		{"CON.txt", 1, "%43ON.txt"},
		{"end.", 1, "end%2E"},
		{"bad\xff", 1, "bad%FF"},
		{"100%.txt", 1, "100%.txt"},
		{"a%3Ab", 1, "a%253Ab"},
		{"a%3ab", 1, "a%3ab"},
		{"%~7", 1, "%25~7"},
		{"readme.txt", 2, "readme%~2.txt"},
		{".profile", 3, ".profile%~3"},
		{"é:.", 2, "é%3A%2E%~2"},
	} {
		if got := windowsNames.MapName(c.name, c.apart); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.name, c.apart, got, c.want)
		}
	}
	long := strings.Repeat("n", 300) + ".tar"
	short := windowsNames.MapName(long, 1)
	if len(short) != 255 || !strings.HasSuffix(short, ".tar") || !strings.Contains(short, "n%^") {
		t.Errorf("shortened: %q", short)
	}
	if name, ok := unmapName(short); ok {
		t.Errorf("a shortened name leads back to %q", name)
	}
	if other := windowsNames.MapName(long[1:]+"x", 1); other == short {
		t.Error("two long names are shortened to one")
	}
}

// unmapName is the way back that the help promises to people: the name for which MapName made mapped. ok is false for one
// that was shortened, whose name only the archive has.
func unmapName(mapped string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(mapped); {
		if !beginsEscape(mapped[i:]) {
			b.WriteByte(mapped[i])
			i++
			continue
		}
		switch mapped[i+1] {
		case '^':
			return "", false
		case '~':
			for i += len(tellApart); i < len(mapped) && isDigit(mapped[i]); i++ {
			}
		default:
			c, _ := hex.DecodeString(mapped[i+1 : i+3]) // beginsEscape has seen the digits
			b.WriteByte(c[0])
			i += 3
		}
	}
	return b.String(), true
}

// someName draws names from what is special to one rule or another.
func someName() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"a", "A", "é", "e\u0301", "%", "%~", "%^", "~", "2", "41", "4", "%41", ".", " ", ":", "\\", "?", "\x01", "\xff", "\xc3", "CON", "nul", "com¹", "𝄞", "ß",
		strings.Repeat("x", 120), strings.Repeat("é", 60), "%^0123456789abcdef0123456789abcdef",
	})
	return rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), "")
		if s == "." || s == ".." {
			s += "x"
		}
		return s
	})
}

func TestMapNameProperties(t *testing.T) {
	for _, rules := range []NameRules{windowsNames, macNames, {}, {Longest: 143}, strictestNames} {
		rapid.Check(t, func(t *rapid.T) {
			a, b := someName().Draw(t, "a"), someName().Draw(t, "b")
			n, m := rapid.IntRange(1, 12).Draw(t, "n"), rapid.IntRange(1, 12).Draw(t, "m")
			x, y := rules.MapName(a, n), rules.MapName(b, m)
			if bad := rules.problem(x); bad != "" {
				t.Fatalf("%q becomes %q: %s", a, x, bad)
			}
			if _, err := pathsafe.Parse(x); err != nil {
				t.Fatal(err)
			}
			if back, ok := unmapName(x); ok && back != a {
				t.Fatalf("%q becomes %q, which leads back to %q", a, x, back)
			} else if !ok && rules.length(rules.escape(a)) <= rules.Longest-5 {
				t.Fatalf("%q becomes %q, shortened without need", a, x)
			}
			if x == y && (a != b || n != m) {
				t.Fatalf("%q, %d and %q, %d both become %q", a, n, b, m, x)
			}
			if n == 1 && rules.problem(a) == "" && !hasEscape(a) && x != a {
				t.Fatalf("%q needs no other name and becomes %q", a, x)
			}
			if utf8.ValidString(a) && !utf8.ValidString(x) {
				t.Fatalf("%q becomes %q, which is no text", a, x)
			}
		})
	}
}

// checkNames runs CheckNames over a list, by rules.
func checkNames(t testing.TB, rules *NameRules, rename bool, list ...string) (*Names, error) {
	t.Helper()
	x, err := NewExtractor(t.TempDir(), ExtractOptions{Names: rules})
	check(t, err)
	defer x.Abort()
	var paths []pathsafe.Path
	for _, s := range list {
		paths = append(paths, path(t, s))
	}
	slices.SortFunc(paths, pathsafe.Path.Compare)
	odd := slices.ContainsFunc(list, OddPath)
	return x.CheckNames(func(yield func(pathsafe.Path, error) bool) {
		for _, p := range paths {
			if !yield(p, nil) {
				return
			}
		}
	}, odd, rename)
}

func TestCheckNames(t *testing.T) {
	tree := []string{"A/x", "A/X", "a/x", "b", "d/a:b/CON", "d/a:b/e", "d/a%3Ab", "é", "e\u0301", "z/B", "z/b/c"}
	n, err := checkNames(t, &windowsNames, false, tree...)
	if !errors.Is(err, ErrNames) {
		t.Fatalf("%v", err)
	}
	var got []string
	for _, p := range n.Problems {
		got = append(got, p.Path.String())
	}
	if want := []string{"A/x", "a", "d/a:b", "d/a:b/CON", "z/b"}; !slices.Equal(got, want) || n.Count != len(want) {
		t.Errorf("%q, want %q", got, want)
	}
	n, err = checkNames(t, &windowsNames, true, tree...)
	check(t, err)
	for from, want := range map[string]string{
		"A/X": "A/X", "A/x": "A/x%~2", "a/x": "a%~2/x", "d/a:b/CON": "d/a%3Ab/%43ON", "d/a:b/e": "d/a%3Ab/e", "d/a%3Ab": "d/a%253Ab",
		"é": "é", "z/b/c": "z/b%~2/c", "z": "z",
	} {
		if to, err := n.Path(path(t, from)); err != nil || to.String() != want {
			t.Errorf("%q goes to %q, %v; want %q", from, to, err, want)
		}
	}
	if n, err = checkNames(t, &macNames, true, tree...); err != nil {
		t.Fatal(err)
	}
	if to, _ := n.Path(path(t, "é")); to.String() != "é%~2" {
		t.Errorf("the composed form goes to %q", to)
	}
	if n, err = checkNames(t, &NameRules{}, false, tree...); err != nil || len(n.Problems) > 0 {
		t.Errorf("%v, %v", n.Problems, err)
	}

	// A path that escapes make too long is refused, and the list of problems is bounded.
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat(":", 80)+"/", 202), "/")
	if _, err := checkNames(t, &windowsNames, true, deep); !errors.Is(err, pathsafe.ErrInvalid) {
		t.Errorf("a path of %d colons: %v", len(deep), err)
	}
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("%d:", i))
	}
	if n, err := checkNames(t, &windowsNames, false, many...); n.Count != 500 || len(n.Problems) != maxProblems || !errors.Is(err, ErrNames) {
		t.Errorf("%d of %d problems, %v", len(n.Problems), n.Count, err)
	}
}

// Whatever the tree, each of its paths gets a place of its own that the system can hold.
func TestRenamingProperties(t *testing.T) {
	for _, rules := range []NameRules{windowsNames, macNames} {
		rapid.Check(t, func(rt *rapid.T) {
			var list []string
			for _, parts := range rapid.SliceOfN(rapid.SliceOfN(someName(), 1, 3), 1, 12).Draw(rt, "paths") {
				for i := range parts {
					parts[i] = parts[i][:min(len(parts[i]), 1000)]
				}
				list = append(list, strings.Join(parts, "/"))
			}
			n, err := checkNames(t, &rules, true, list...)
			if err != nil {
				rt.Fatal(err)
			}
			places := make(map[string]string) // folded place -> path
			for _, s := range list {
				for end := 0; end < len(s); {
					if i := strings.IndexByte(s[end+1:], '/'); i >= 0 {
						end += 1 + i
					} else {
						end = len(s)
					}
					to, err := n.Path(path(t, s[:end]))
					if err != nil {
						rt.Fatal(err)
					}
					if bad := rules.problem(to.Base()); bad != "" {
						rt.Fatalf("%q goes to %q: %s", s[:end], to, bad)
					}
					folded := rules.fold(to.String())
					if other, ok := places[folded]; ok && other != s[:end] {
						rt.Fatalf("%q and %q both go to %q", other, s[:end], to)
					}
					places[folded] = s[:end]
				}
			}
		})
	}
}

// The name that many others collide with is not tried again for each of them.
func TestManyCollisions(t *testing.T) {
	var list []string
	for i := range 1 << 13 {
		b := []byte("abcdefghijklm")
		for j := range b {
			if i>>j&1 == 1 {
				b[j] -= 'a' - 'A'
			}
		}
		list = append(list, string(b))
	}
	n, err := checkNames(t, &windowsNames, true, list...)
	check(t, err)
	if last := n.Problems[len(n.Problems)-1]; n.Count != len(list)-1 || last.To.String() != "abcdefghijklm%~8192" {
		t.Errorf("%d, %q", n.Count, last.To)
	}
}

// Trying out an ordinary directory finds an ordinary system, and leaves nothing.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	x, err := NewExtractor(dir, ExtractOptions{})
	check(t, err)
	defer x.Abort()
	r, err := x.probeFolding(x.top.dir, "")
	check(t, err)
	check(t, x.probeNames(x.top.dir, "", &r))
	if left := tree(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// What the rules say is what the system does.
	write(t, filepath.Join(dir, "probe"), "x")
	if _, err := os.Stat(filepath.Join(dir, "PROBE")); (err == nil) != r.FoldCase {
		t.Errorf("FoldCase is %v", r.FoldCase)
	}
	for _, name := range []string{"a:b", "a?b", "q\"q", "c\x01", "u\xff", strings.Repeat("é", 150), strings.Repeat("é", 255), strings.Repeat("n", 255)} {
		err := os.WriteFile(filepath.Join(dir, name), nil, 0o600)
		if bad := r.problem(name); (err != nil) != (bad != "") {
			t.Errorf("%.20q: %v, but the rules say %q", name, err, bad)
		}
	}
}

// On file systems that fold names, or refuse some, made for the purpose.
func TestProbeOfOtherSystems(t *testing.T) {
	if !isRoot() {
		t.Skip("mounting a file system takes root")
	}
	for _, c := range []struct {
		name string
		mkfs []string
		want NameRules
	}{
		{"vfat", []string{"mkfs.vfat"}, NameRules{FoldCase: true, Refused: refusedByWindows, Control: true, Trailing: true, Longest: 255, Units: true}},
		{"ext4", []string{"mkfs.ext4", "-q", "-F", "-O", "casefold", "-E", "encoding=utf8"}, NameRules{FoldCase: true, FoldForm: true, Longest: 255}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := mountImage(t, c.name, c.mkfs)
			if c.name == "ext4" {
				dir = filepath.Join(dir, "folding")
				check(t, os.Mkdir(dir, 0o755))
				if out, err := exec.Command("chattr", "+F", dir).CombinedOutput(); err != nil {
					t.Skipf("chattr +F: %v: %s", err, out)
				}
			}
			x, err := NewExtractor(dir, ExtractOptions{})
			check(t, err)
			defer x.Abort()
			r, err := x.probeFolding(x.top.dir, "")
			check(t, err)
			check(t, x.probeNames(x.top.dir, "", &r))
			r.UTF8 = false // the mount options say what of that
			if r != c.want {
				t.Errorf("%+v, want %+v", r, c.want)
			}
			if left := tree(t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// mountImage makes a file system in a file and mounts it.
func mountImage(t *testing.T, kind string, mkfs []string) string {
	t.Helper()
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		t.Skip(mkfs[0] + " is not there")
	}
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 16<<20))
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s", mkfs[0], err, out)
	}
	dir := t.TempDir()
	args := []string{"-o", "loop", "-t", kind}
	if kind == "vfat" {
		args[1] += ",iocharset=utf8"
	}
	if out, err := exec.Command("mount", append(args, image, dir)...).CombinedOutput(); err != nil {
		t.Skipf("mounting %s: %.60s", kind, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}
