package hostfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// filterCase says what rules make of a path; one that ends in a slash is a directory.
type filterCase struct {
	rules, path string
	ignored     bool
}

// tableOf reads lines of two quoted strings and a verdict, which must be yes or no.
func tableOf(t *testing.T, name, yes, no string) (cases []filterCase) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	check(t, err)
	for number, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var c filterCase
		var verdict string
		if _, err := fmt.Sscanf(line, "%q %q %s", &c.rules, &c.path, &verdict); err != nil || verdict != yes && verdict != no {
			t.Fatalf("%s:%d: %s: %v", name, number+1, line, err)
		}
		c.ignored = verdict == yes
		cases = append(cases, c)
	}
	return cases
}

// excluded is what a Filter says; rules that it refuses exclude nothing, as in git.
func (c *filterCase) excluded() bool {
	f := new(Filter)
	if f.ReadRules(strings.NewReader(c.rules)) != nil {
		return false
	}
	path, isDir := strings.CutSuffix(c.path, "/")
	return f.ExcludesTree(path, isDir)
}

func TestFilter(t *testing.T) {
	for _, c := range tableOf(t, "gitignore.txt", "ignored", "kept") {
		if got := c.excluded(); got != c.ignored {
			t.Errorf("rules %q, path %q: excluded %v, git says %v", c.rules, c.path, got, c.ignored)
		}
	}
}

// Where the filter differs from git, which would match nothing: a leading "./" is what people write for "here", and
// malformed rules are refused.
func TestFilterBeyondGit(t *testing.T) {
	for _, c := range []filterCase{
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
	} {
		if got := c.excluded(); got != c.ignored {
			t.Errorf("rules %q, path %q: excluded %v, want %v", c.rules, c.path, got, c.ignored)
		}
	}
}

// TestWildmatch holds one pattern against one text, as git's own cases do.
func TestWildmatch(t *testing.T) {
	for _, c := range tableOf(t, "wildmatch.txt", "match", "no") {
		g, err := compileGlob(c.rules)
		if got := err == nil && g.match(c.path); got != c.ignored {
			t.Errorf("pattern %q, text %q: %v, git says %v (%v)", c.rules, c.path, got, c.ignored, err)
		}
	}
}

// gitRepo makes an empty repository and returns what runs git in it.
func gitRepo(t *testing.T) (repo string, run func(stdin string, args ...string) string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	repo = t.TempDir()
	run = func(stdin string, args ...string) string {
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
	return repo, run
}

// TestFilterCasesAreGits asks git for every verdict of the table.
func TestFilterCasesAreGits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the table has names that other systems do not take")
	}
	repo, run := gitRepo(t)
	cases := tableOf(t, "gitignore.txt", "ignored", "kept")
	var asked []string
	for i, c := range cases {
		dir := fmt.Sprintf("case%d/", i)
		write(t, filepath.Join(repo, dir, ".gitignore"), c.rules+"\n")
		name, isDir := strings.CutSuffix(c.path, "/")
		if isDir {
			check(t, os.MkdirAll(filepath.Join(repo, dir+name), 0o755))
		} else {
			write(t, filepath.Join(repo, dir+name), "")
		}
		asked = append(asked, dir+name)
	}
	ignored := map[string]bool{}
	for p := range strings.SplitSeq(run(strings.Join(asked, "\x00"), "check-ignore", "-z", "--stdin", "--no-index"), "\x00") {
		ignored[p] = true
	}
	for i, c := range cases {
		if got := ignored[asked[i]]; got != c.ignored {
			t.Errorf("rules %q, path %q: git says %v, the table %v", c.rules, c.path, got, c.ignored)
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

// Stars must not make matching explode: it would not come to an end.
func TestFilterManyStars(t *testing.T) {
	f := new(Filter)
	for _, p := range []string{strings.Repeat("a*", 200) + "b", strings.Repeat("a/**/", 200) + "b"} {
		if err := f.Exclude(p); err != nil {
			t.Fatal(err)
		}
	}
	if f.Excludes(strings.Repeat("a", 5000), false) || f.Excludes(strings.Repeat("a/", 2000)+"a", false) {
		t.Error("matched")
	}
	if f.Excludes(strings.Repeat("a/", 8000)+strings.Repeat("a", 255), false) {
		t.Error("matched")
	}
}

func TestFilterUnmatched(t *testing.T) {
	f := new(Filter)
	for _, err := range []error{
		f.Exclude("*.tmp"), f.Exclude("a.*"), f.Exclude("/never"), f.Exclude("d/"), f.Include("a.tmp"), f.Include("nothing"),
		f.ReadRules(strings.NewReader("*.rule")), f.Exclude("!*.o"), f.Exclude("!*.x"),
	} {
		check(t, err)
	}
	// The first two match, although the last rule that does decides; "d" is no directory.
	for path, want := range map[string]bool{"a.tmp": false, "x/never": false, "d": false, "y.o": false} {
		if got := f.Excludes(path, false); got != want {
			t.Errorf("%s: excluded %v", path, got)
		}
	}
	if got, want := f.Unmatched(), []string{"/never", "d/", "nothing", "!*.x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (*Filter)(nil).Unmatched(); got != nil {
		t.Errorf("of no filter %q", got)
	}
}

// TestFilterAgainstGit holds random rules against what git does with them.
func TestFilterAgainstGit(t *testing.T) {
	repo, run := gitRepo(t)
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
