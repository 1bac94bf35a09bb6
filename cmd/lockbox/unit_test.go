package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
)

func TestCodeOf(t *testing.T) {
	corrupt := format.Corrupt("node", 7, "bad")
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{nil, exitOK},
		{errors.New("anything"), exitFailed},
		{fs.ErrNotExist, exitFailed},
		{fs.ErrExist, exitFailed},
		{syscall.ENOSPC, exitFailed},
		{format.ErrPoisoned, exitFailed},
		{format.ErrChanged, exitFailed},
		{usagef("x"), exitUsage},
		{corrupt, exitDamaged},
		{fmt.Errorf("a: %w", corrupt), exitDamaged},
		{format.ErrAuth, exitAuth},
		{format.ErrBusy, exitBusy},
		{format.ErrNotLockbox, exitForeign},
		{format.ErrVersion, exitForeign},
		{context.Canceled, exitInterrupted},
		{new(app).missingEntry(paths{}, "a", "b"), exitMissing},
		{&failure{code: exitSkipped, err: corrupt}, exitDamaged},
		{&failure{code: exitUsage, err: errors.New("x")}, exitUsage},
		{errors.Join(format.ErrBusy, format.ErrAuth), exitAuth},
		{errors.Join(corrupt, context.Canceled), exitInterrupted},
		{errors.Join(errors.New("x"), &failure{code: exitMissing, err: errors.New("y")}), exitMissing},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestWorse(t *testing.T) {
	order := []exitCode{130, 15, 11, 16, 12, 3, 4, 0} // the documented one
	for i, a := range order {
		for _, b := range order[i:] {
			if worse(a, b) != a || worse(b, a) != a {
				t.Errorf("of %d and %d, %d must count", a, b, a)
			}
		}
	}
	if worse(exitFailed, exitSkipped) != exitFailed {
		t.Error("a failure must not be hidden by something skipped")
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1, "10": 10, "1K": 1 << 10, "3k": 3 << 10, "2M": 2 << 20, "5G": 5 << 30, "7T": 7 << 40,
		"9223372036854775807": 1<<63 - 1, "8388607T": 8388607 << 40,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "K", "-1", "+1", "1KB", "1.5M", " 1", "1 ", "0x10", "1P", "9223372036854775808", "8388608T", "1_000"} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q was taken for %d", s, got)
		}
	}
}

func TestValues(t *testing.T) {
	var g globals
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	g.register(f)
	if err := f.Parse([]string{"-j", "3", "--progress=never", "--lock-timeout", "2h", "--expect-root", strings.Repeat("aB", 32), "-q"}); err != nil {
		t.Fatal(err)
	}
	if g.jobs.n != 3 || g.progress.value != "never" || g.lockTimeout != 2*time.Hour || g.expectRoot.digest[31] != 0xab || !g.quiet {
		t.Errorf("%+v", g)
	}
	if err := f.Parse([]string{"--jobs", "auto"}); err != nil || g.jobs.n != 0 {
		t.Errorf("%v %+v", err, g.jobs)
	}
	for _, args := range [][]string{
		{"--jobs", "-1"}, {"--jobs", "1025"}, {"--progress", ""}, {"--lock-timeout", "-1s"}, {"--lock-timeout", "x"}, {"--expect-root", strings.Repeat("a", 63)},
	} {
		if err := f.Parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// Every flag that the help of a command shows has a use text, and no two commands of the contract's
// later part exist yet.
func TestCommands(t *testing.T) {
	root := newRoot(newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}), nil)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.HasParent() && cmd.Example == "" {
			t.Errorf("%s has no description or no example", cmd.Name())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no description", cmd.Name(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// A line feed of a name is one, however deep in an error the name stands; between joined errors it is none.
func TestWordsOfNamesWithLineFeeds(t *testing.T) {
	at := &fs.PathError{Op: "open", Path: "a\nb", Err: fs.ErrNotExist}
	for want, err := range map[string]error{
		`open a\x0ab: file does not exist`:                       at,
		`reading: open a\x0ab: file does not exist; that is all`: fmt.Errorf("reading: %w", errors.Join(at, errors.New("that is all"))),
		`link c\x0ad e\x0af: file already exists`:                &os.LinkError{Op: "link", Old: "c\nd", New: "e\nf", Err: fs.ErrExist},
		`nothing was done; file does not exist`:                  errors.Join(errors.New("nothing was done"), fs.ErrNotExist),
	} {
		var b bytes.Buffer
		v := voice{w: &b}
		v.Error(err)
		v.Warnf("%v", err)
		if got := b.String(); got != "lockbox: error: "+want+"\nlockbox: warning: "+want+"\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                "plain",
		"a\nb\n":               "a; b",
		"esc \x1b[31m":         `esc \x1b[31m`,
		`kept \x1b`:            `kept \x1b`,
		"bidi \u202e bad \xff": `bidi \u202e bad \xff`,
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestPanicIsAnError(t *testing.T) {
	var out, errs bytes.Buffer
	s := system{stdout: &out, stderr: &errs, getenv: func(string) string { panic("lost") }}
	if code := newApp(s).run(context.Background(), []string{"version"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if got := errs.String(); !strings.HasPrefix(got, "lockbox: error: internal error: lost (in ") || strings.Contains(got, "goroutine") {
		t.Errorf("%s", got)
	}
}

func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.ByteRange(0, 0x7f), rapid.SampledFrom([]byte("\"\\\n\xe2\x80\xae\xff")))).Draw(t, "s"))
		line := new(object).begin().bytes("k", s).line()
		var got map[string]string
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var want string
		std, _ := json.Marshal(s)
		if err := json.Unmarshal(std, &want); err != nil {
			t.Fatal(err)
		}
		if got["k"] != want {
			t.Fatalf("%q became %q, not %q", s, got["k"], want)
		}
		if _, has := got["k_base64"]; has == utf8.ValidString(s) {
			t.Fatalf("%q: base64 %v", s, has)
		}
	})
}

func TestObject(t *testing.T) {
	var o object
	o.begin().str("a", "x").int("b", -1).uint("c", 2).bool("d", true).null("e").list("f").endList().seconds("g", 0.5)
	got := string(o.open("h").str("i", "j").close().open("k").close().texts("l", []string{"m", "n"}).list("o").item().int("p", 1).close().item().close().endList().line())
	if want := `{"a":"x","b":-1,"c":2,"d":true,"e":null,"f":[],"g":0.500,"h":{"i":"j"},"k":{},"l":["m","n"],"o":[{"p":1},{}]}` + "\n"; got != want {
		t.Errorf("%s", got)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"add", "create", "extract", "cat", "list", "ls", "verify", "info", "help"}
	for in, want := range map[string]string{
		"lst": "list", "exract": "extract", "extrcat": "extract", "ADD": "add", "verfy": "verify", "ver": "verify", "creat": "create",
		"x": "", "remove": "", "zip": "", "mv": "", "q": "", "": "", strings.Repeat("y", 200): "",
	} {
		if got := nearest(in, words); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRecognise(t *testing.T) {
	tar := make([]byte, 512)
	copy(tar[257:], "ustar\x0000")
	slot := make([]byte, 320)
	copy(slot[160:], "LBX2HDR\x00")
	for what, head := range map[string][]byte{
		"a tar archive":                tar,
		"a reVault lockbox (format 2)": slot,
		"a RAR archive":                []byte("Rar!\x1a\x07\x01\x00"),
		"":                             []byte("hello"),
	} {
		if got := recognise(head); got != what {
			t.Errorf("%q, want %q", got, what)
		}
	}
	for _, s := range signatures {
		head := append(make([]byte, s.off), s.magic...)
		if got := recognise(head); got != s.what {
			t.Errorf("%q is hidden by %q", s.what, got)
		}
		recognise(head[:len(head)-1])
	}
}

func TestLeadsOut(t *testing.T) {
	links := map[string]string{
		"top": ".", "deep": "a/b/c", "p/q/up": "../..", "out": "..", "loop": "loop2", "loop2": "loop",
		"d/abs": "/etc", "self": "self/..", "a/b/here": ".",
	}
	linkAt := func(p string) (string, bool) { t, ok := links[p]; return t, ok }
	for _, c := range []struct {
		dir, target string
		out         bool
	}{
		{"", "x", false}, {"", ".", false}, {"", "..", true}, {"a", "..", false}, {"a", "../..", true}, {"a/b", "../../x", false},
		{"a/b", "../../../x", true}, {"", "/x", true}, {"", "a/../..", true}, {"", "a/..", false}, {"", "a//b/./../..", false},
		{"", "a//b/./../../..", true}, {"", "top/x", false}, {"", "top/..", true}, {"", "deep/..", false}, {"", "deep/../../..", false},
		{"", "deep/../../../..", true}, {"", "p/q/up", false}, {"", "p/q/up/..", true}, {"", "out/x", true}, {"", "loop", false},
		{"", "d/abs", true}, {"", "self", false}, {"a/b", "here/../../..", true}, {"a/b", "here/../..", false}, {"", "", false}, {"", "x/", false},
	} {
		if got := leadsOut(c.dir, c.target, linkAt, noLinks); got != c.out {
			t.Errorf("in %q, %q leads out: %v", c.dir, c.target, got)
		}
	}
	deep := strings.Repeat("a/", 8000) + ".."
	if leadsOut("", deep, linkAt, noLinks) {
		t.Error("a long target")
	}
}

func TestIsTemporary(t *testing.T) {
	for name, want := range map[string]bool{
		".lockbox-0123456789abcdef0123456789abcdef":  true,
		".lockbox-0123456789abcdef0123456789abcdeg":  false,
		".lockbox-0123456789abcdef0123456789abcdef0": false,
		".lockbox-notes":              false,
		"lockbox":                     false,
		".lbxtmp-0123abcd-12-3":       true,
		".lbxtmp-0123abcd-12":         false,
		".lbxtmp-0123abcd-12-3-4":     false,
		".lbxtmp-0123abcd-12-3-try:x": true,
		".lbxtmp-0123abcd-12-try:x":   false,
		".lbxtmp-0123abcx-12-3":       false,
		"x.lbxtmp-0123abcd-12-3":      false,
		".lbxtmp-0123abcd-twelve-3":   false,
	} {
		if got := isTemporary(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestAddOptions(t *testing.T) {
	ok := addOptions{paths: []string{"x"}}
	for _, c := range []struct {
		name string
		edit func(*addOptions)
		good bool
	}{
		{"plain", func(*addOptions) {}, true},
		{"nothing", func(o *addOptions) { o.paths = nil }, false},
		{"list only", func(o *addOptions) { o.paths, o.filesFrom = nil, "l" }, true},
		{"stdin", func(o *addOptions) { o.paths, o.stdinName = []string{"-"}, "n" }, true},
		{"stdin without a name", func(o *addOptions) { o.paths = []string{"-"} }, false},
		{"name without stdin", func(o *addOptions) { o.stdinName = "n" }, false},
		{"stdin twice", func(o *addOptions) { o.paths, o.stdinName = []string{"-", "-"}, "n" }, false},
		{"stdin and list", func(o *addOptions) { o.paths, o.stdinName, o.filesFrom = []string{"-"}, "n", "-" }, false},
		{"two lists", func(o *addOptions) { o.filesFrom, o.filesFrom0 = "-", "-" }, false},
		{"empty path", func(o *addOptions) { o.paths = []string{""} }, false},
	} {
		o := ok
		c.edit(&o)
		if err := o.validate(); (err == nil) != c.good || err != nil && codeOf(err) != exitUsage {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestStoredName(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "/a": "a", "./a": "a", "a/": "a", "a//b": "a/b", ".": "", "/": "", "./": "", "//x/./y/": "x/y", "../a": "../a", ".a": ".a", "a/..": "a/..",
	} {
		if got := storedName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if p := globBase("a/b*/c"); p.String() != "a" {
		t.Errorf("%v", p)
	}
	if p := globBase(`a/\[x/c`); p.String() != "a" {
		t.Errorf("%v", p)
	}
	if p := globBase("*"); p != (pathsafe.Path{}) {
		t.Errorf("%v", p)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "0 B", 0: "0 B", 999: "999 B", 1000: "1.0 kB", 1049: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		3_400_000: "3.4 MB", 1 << 40: "1.1 TB", 1<<63 - 1: "9.2 EB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := comma(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func noLinks(string) (string, bool) { return "", false }

// A link that the archive holds and that cannot be made counts as what stands there instead, too.
func TestPlannedLinksMayFail(t *testing.T) {
	planned := func(p string) (string, bool) { return map[string]string{"a": "deep/er"}[p], p == "a" }
	for target, out := range map[string]bool{"a/../x": false, "a/../../outside": true, "a/../../../outside": true, "a/f": false} {
		if got := leadsOut("", target, noLinks, planned); got != out {
			t.Errorf("%s: leads out: %v, want %v", target, got, out)
		}
	}
}
