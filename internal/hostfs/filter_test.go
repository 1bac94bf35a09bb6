package hostfs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	tests := []struct {
		rules, path string // a path that ends in a slash is a directory
		want        bool
	}{
		{"foo", "foo", true},
		{"foo", "a/foo", true},
		{"foo", "foobar", false},
		{"foo", "foo/bar", true},
		{"/foo", "foo", true},
		{"/foo", "a/foo", false},
		{"foo/", "foo/", true},
		{"foo/", "foo", false},
		{"foo/", "a/foo/", true},
		{"foo/", "foo/x", true},
		{"a/foo", "a/foo", true},
		{"a/foo", "b/a/foo", false},
		{"a/foo/", "a/foo/", true},
		{"*.o", "x.o", true},
		{"*.o", "a/b/x.o", true},
		{"*.o", ".o", true},
		{"*.o", "x.oo", false},
		{"/*.o", "a/x.o", false},
		{"a/*", "a/b", true},
		{"a/*", "a/b/c", true}, // because a/b is excluded
		{"a/*.c", "a/b/x.c", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a?c/d", "a/c/d", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]x", "dx", true},
		{"[^a-c]x", "ax", false},
		{"[]]x", "]x", true},
		{"[]-]x", "-x", true},
		{"[a-]x", "-x", true},
		{`[\]]x`, "]x", true},
		{"[[:digit:]]x", "7x", true},
		{"[[:digit:]]x", "ax", false},
		{"[![:space:]]x", "ax", true},
		{"[[:]x", ":x", true},
		{"[a-b-d]", "-", true},
		{"[a-b-d]", "c", false},
		{"**/foo", "foo", true},
		{"**/foo", "a/b/foo", true},
		{"**/foo/bar", "a/foo/bar", true},
		{"**/foo/bar", "foo/x/bar", false},
		{"abc/**", "abc/", false},
		{"abc/**", "abc/x/y", true},
		{"abc/**/", "abc/x/", true},
		{"abc/**/", "abc/x", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a/**/b", "ab", false},
		{"a/**/b/**/c", "a/b/x/b/y/c", true},
		{"a/**/*.c", "a/x/y.c", true},
		{"a**b", "axxb", true},
		{"a**b", "a/b", false},
		{"x/a**b", "x/a/b", false},
		{"**", "anything/at/all", true},
		{"/**", "anything", true},
		{"**/", "a", false},
		{"**/", "a/", true},
		{"#foo", "#foo", false},
		{`\#foo`, "#foo", true},
		{`\!foo`, "!foo", true},
		{"foo  ", "foo", true},
		{`foo\ `, "foo ", true},
		{`foo\  `, "foo ", true},
		{"foo\r\nbar\r\n", "foo", true},
		{"\xef\xbb\xbffoo", "foo", true},
		{`f\oo`, "foo", true},
		{`f\*o`, "fxo", false},
		{`f\*o`, "f*o", true},
		{`a\/b`, "a/b", true},
		{`**\/b`, "a/b", true},
		{"{a,b}", "a", false},
		{"*.txt\n!keep.txt", "keep.txt", false},
		{"*.txt\n!keep.txt", "other.txt", true},
		{"!keep.txt\n*.txt", "keep.txt", true},
		{"/*\n!/foo\n/foo/*\n!/foo/bar", "foo/bar", false},
		{"/*\n!/foo\n/foo/*\n!/foo/bar", "foo/baz", true},
		{"foo/\n!foo/bar", "foo/bar", true},
		{"a//b", "a/b", false},
		{"x\xff*", "x\xff\xfe", true},
		{"Foo", "foo", false},
		// Here git would match nothing.
		{"./foo", "foo", true},
		{"./foo", "a/foo", false},
		{"./a/foo", "a/foo", true},
		{"./a/foo", "b/a/foo", false},
		{"././/foo/", "foo/", true},
		{"././/foo/", "a/foo/", false},
		{"foo\n!./foo", "foo", false},
		{"foo\n!./foo", "a/foo", true},
		{"./*.o", "a/x.o", false},
		{"a/./foo", "a/foo", false},
	}
	for _, tt := range tests {
		f := new(Filter)
		if err := f.ReadRules(strings.NewReader(tt.rules)); err != nil {
			t.Errorf("rules %q: %v", tt.rules, err)
			continue
		}
		path, isDir := strings.CutSuffix(tt.path, "/")
		if got := f.ExcludesTree(path, isDir); got != tt.want {
			t.Errorf("rules %q, path %q: excluded %v, want %v", tt.rules, tt.path, got, tt.want)
		}
	}
}

func TestFilterInclude(t *testing.T) {
	f := new(Filter)
	for _, err := range []error{f.Exclude("*.log"), f.Include("keep.log"), f.Exclude("#x")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{"a.log": true, "d/keep.log": false, "#x": true, "x": false} {
		if got := f.ExcludesTree(path, false); got != want {
			t.Errorf("%s: excluded %v, want %v", path, got, want)
		}
	}
	if err := f.Include("!x"); err == nil {
		t.Error("a negated pattern to include was taken")
	}
	var none *Filter
	if none.Excludes("x", false) || none.ExcludesTree("a/x", true) {
		t.Error("a nil Filter excludes something")
	}
}

func TestFilterRefuses(t *testing.T) {
	for _, p := range []string{"", "/", "./", "././/", "!./", "!", "!/", "[", "a[b", `x\`, "[[:nope:]]", "[a-", `[\`, "[[:alpha:"} {
		if err := new(Filter).Exclude(p); err == nil {
			t.Errorf("pattern %q was taken", p)
		}
	}
	err := new(Filter).ReadRules(strings.NewReader("ok\n\nb[ad\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("a bad line gave %v", err)
	}
	if err := new(Filter).ReadRules(strings.NewReader(strings.Repeat("x", maxName+2))); err == nil {
		t.Error("an endless line was taken")
	}
}

// Stars must not make matching explode.
func TestFilterManyStars(t *testing.T) {
	f := new(Filter)
	for _, p := range []string{strings.Repeat("a*", 200) + "b", strings.Repeat("a/**/", 200) + "b"} {
		if err := f.Exclude(p); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if f.Excludes(strings.Repeat("a", 5000), false) || f.Excludes(strings.Repeat("a/", 2000)+"a", false) {
		t.Error("matched")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestFilterAgainstGit holds random rules against what git does with them.
func TestFilterAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	repo := t.TempDir()
	run := func(stdin string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+repo, "GIT_DIR="+filepath.Join(repo, ".git"), "GIT_WORK_TREE="+repo, "LC_ALL=C")
		cmd.Stdin = strings.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if ee := (*exec.ExitError)(nil); err != nil && !(asExit(err, &ee) && ee.ExitCode() == 1) {
			t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	run("", "init", "-q")
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }

	// One tree for all rounds: each name is a directory where the list says so.
	var paths []string
	isDir := map[string]bool{}
	names := []string{"a", "b", "ab", "abc", "a.c", "-", "]", "a b", "é", "*"}
	var grow func(dir string, depth int)
	grow = func(dir string, depth int) {
		for _, n := range names {
			if depth > 0 && rnd.IntN(3) > 0 {
				continue
			}
			p := filepath.Join(dir, n)
			paths = append(paths, p)
			if depth < 3 && rnd.IntN(2) == 0 {
				isDir[p] = true
				if err := os.Mkdir(filepath.Join(repo, p), 0o755); err != nil {
					t.Fatal(err)
				}
				grow(p, depth+1)
			} else if err := os.WriteFile(filepath.Join(repo, p), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	grow("", 0)

	atoms := []string{"a", "b", "c", "ab", "*", "*", "**", "?", ".c", "[ab]", "[!a]", "[^b-c]", "[a-c]", "[]a]", "[[:alpha:]]", "[!-]", `\a`, `\*`, "/", "/", "/", "/**/", "-", "]", "é", " ", "{a,b}"}
	for range 120 {
		var rules []string
		f := new(Filter)
		for range 1 + rnd.IntN(4) {
			p := pick("", "", "", "!", "/", "!/", "**/")
			for range 1 + rnd.IntN(5) {
				p += pick(atoms...)
			}
			p += pick("", "", "", "/", "/**", "/*")
			if err := new(Filter).ReadRules(strings.NewReader(p)); err != nil {
				continue // git takes it and never matches it
			}
			if mixedStars(p) {
				continue
			}
			rules = append(rules, p)
		}
		text := strings.Join(rules, "\n") + "\n"
		if err := f.ReadRules(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, ".git", "info", "exclude"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		ignored := map[string]bool{}
		for p := range strings.SplitSeq(run(strings.Join(paths, "\x00"), "check-ignore", "-z", "--stdin", "--no-index"), "\x00") {
			ignored[p] = true
		}
		for _, p := range paths {
			if got := f.ExcludesTree(p, isDir[p]); got != ignored[p] {
				t.Fatalf("rules %q, path %q (directory %v): excluded %v, git says %v", rules, p, isDir[p], got, ignored[p])
			}
		}
	}
}

// mixedStars reports whether p has a "**" beside something else in one component. Git documents that to be
// a plain star, but matches it like a "**" of its own when nothing special stands before it.
func mixedStars(p string) bool {
	for c := range strings.SplitSeq(strings.TrimPrefix(p, "!"), "/") {
		if strings.Contains(c, "**") && c != "**" {
			return true
		}
	}
	return false
}

func asExit(err error, target **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*target = e
	return ok
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"*.o\n!x.o", "a/**/b/", "[!a-c]?", "\\#x\n# y", "**", "[[:alpha:]]*", "a\\/b"} {
		f.Add(s, "a/b/x.o")
	}
	f.Fuzz(func(t *testing.T, rules, path string) {
		flt := new(Filter)
		if flt.ReadRules(strings.NewReader(rules)) != nil {
			return
		}
		if flt.Excludes(path, true) && !flt.ExcludesTree(path, true) {
			t.Errorf("%q: excluded by itself but not with the directories above it", path)
		}
	})
}

func TestReadNames(t *testing.T) {
	tests := []struct {
		in   string
		nul  bool
		want string
		bad  bool
	}{
		{"a\nb c\n\n d\n", false, "a|b c| d", false},
		{"a\nlast", false, "a|last", false},
		{"", false, "", false},
		{"a\x00b\nc\x00\x00-d", true, "a|b\nc|-d", false},
		{"a\x00b\x00", false, "", true},
		{"ok\n" + strings.Repeat("x", maxName+1), false, "ok", true},
		{strings.Repeat("x", maxName) + "\ny", false, strings.Repeat("x", maxName) + "|y", false},
	}
	for i, tt := range tests {
		var got []string
		bad := false
		for name, err := range ReadNames(strings.NewReader(tt.in), tt.nul) {
			if err != nil {
				bad = true
				continue
			}
			if bad {
				t.Errorf("%d: a name after an error", i)
			}
			got = append(got, name)
		}
		if s := strings.Join(got, "|"); s != tt.want || bad != tt.bad {
			t.Errorf("%d: got %.60q, error %v", i, s, bad)
		}
	}
}

func FuzzReadNames(f *testing.F) {
	f.Add([]byte("a\nb\n"), false)
	f.Add([]byte("a\x00b"), true)
	f.Fuzz(func(t *testing.T, in []byte, nul bool) {
		for name, err := range ReadNames(bytes.NewReader(in), nul) {
			if err == nil && (name == "" || len(name) > maxName || strings.ContainsRune(name, 0) || !nul && strings.Contains(name, "\n")) {
				t.Errorf("yielded %q", name)
			}
		}
	})
}
