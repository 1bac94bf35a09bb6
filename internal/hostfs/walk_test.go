package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox/internal/pathsafe"
)

// sample is a tree with the shapes that walks meet: names around the slash in order, an empty
// directory, a link to each kind of thing, names that are hard to print.
func sample(t testing.TB) string {
	dir := t.TempDir()
	for _, f := range []string{"a/x", "a/y/z", "a-b", "a.b/c", "ab", "-r", "new\nline", "z/CACHEDIR.TAG", "z/data", "z/d/e"} {
		write(t, filepath.Join(dir, f), "data of "+f)
	}
	if runtime.GOOS == "linux" {
		write(t, filepath.Join(dir, "not\xffutf8"), "x")
	}
	check(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	check(t, os.Symlink("a", filepath.Join(dir, "to-dir")))
	check(t, os.Symlink("ab", filepath.Join(dir, "to-file")))
	check(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	return dir
}

func TestWalkOrder(t *testing.T) {
	dir := sample(t)
	items := walkAll(top(dir), WalkOptions{})
	var want []string
	check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if rel != "." {
			if d.IsDir() {
				rel += "/"
			}
			want = append(want, rel)
		}
		return err
	}))
	got := names(items)
	slices.Sort(want)
	if s := slices.Sorted(slices.Values(got)); !slices.Equal(s, want) {
		t.Errorf("walk found\n%q, want\n%q", s, want)
	}
	for i := range items[1:] {
		if items[i].Path.Compare(items[i+1].Path) >= 0 {
			t.Errorf("%s is not before %s", items[i].Path, items[i+1].Path)
		}
	}
}

func TestWalkJobsGiveOneOrder(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		for j := range 10 {
			write(t, filepath.Join(dir, fmt.Sprintf("d%d", i), fmt.Sprintf("e%d", j%7), fmt.Sprintf("f%d", j)), "x")
		}
	}
	for i := range 2*batch + 50 { // more than one unit
		write(t, filepath.Join(dir, "d3", fmt.Sprintf("many%d", i)), "")
		if i%100 == 0 {
			write(t, filepath.Join(dir, "d3", fmt.Sprintf("many%d-sub", i), "f"), "")
		}
	}
	before := runtime.NumGoroutine()
	want := names(walkAll(top(dir), WalkOptions{}))
	if len(want) < 2*batch+250 {
		t.Fatalf("only %d items", len(want))
	}
	for _, jobs := range []int{1, 2, 3, 8} {
		for range 3 {
			if got := names(walkAll(top(dir), WalkOptions{Jobs: jobs})); !slices.Equal(got, want) {
				t.Fatalf("with %d jobs another order", jobs)
			}
		}
	}
	noGoroutines(t, before)
}

func TestWalkStops(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		write(t, filepath.Join(dir, fmt.Sprintf("d%d", i%30), fmt.Sprintf("f%d", i)), "x")
	}
	before := runtime.NumGoroutine()
	for _, after := range []int{1, 2, 50, 200} {
		n := 0
		for range Walk(context.Background(), top(dir), WalkOptions{Jobs: 4}) {
			if n++; n == after {
				break
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		n = 0
		var last Item
		for it := range Walk(ctx, top(dir), WalkOptions{Jobs: 4}) {
			if n++; n == after {
				cancel()
			}
			last = it
		}
		if !errors.Is(last.Err, context.Canceled) || !last.Path.IsZero() || n != after+1 {
			t.Errorf("cancelled after %d: %d items, the last with %v", after, n, last.Err)
		}
		cancel()
	}
	noGoroutines(t, before)
}

func TestWalkOperands(t *testing.T) {
	dir := sample(t)
	tests := []struct {
		host, stored string
		opt          WalkOptions
		want         []string
	}{
		{"a", "a", WalkOptions{}, []string{"a/", "a/x", "a/y/", "a/y/z"}},
		{"a", "other/name", WalkOptions{}, []string{"other/name/", "other/name/x", "other/name/y/", "other/name/y/z"}},
		{"./a/", "a", WalkOptions{}, []string{"a/", "a/x", "a/y/", "a/y/z"}},
		{"a/y/..", "up", WalkOptions{}, []string{"up/", "up/x", "up/y/", "up/y/z"}},
		{"a", "", WalkOptions{}, []string{"x", "y/", "y/z"}},
		{"a", "a", WalkOptions{NoRecurse: true}, []string{"a/"}},
		{"a/x", "a/x", WalkOptions{}, []string{"a/x"}},
		{"a/x/", "a/x", WalkOptions{}, []string{"a/x !"}},
		{"ab", "", WalkOptions{}, []string{" !"}},
		{"nothing", "nothing", WalkOptions{}, []string{"nothing !"}},
		{"no/thing", "nothing", WalkOptions{}, []string{"nothing !"}},
		{"", "x", WalkOptions{}, []string{"x !"}},
		{"to-dir", "l", WalkOptions{}, []string{"l"}},
		{"to-dir/", "l", WalkOptions{}, []string{"l/", "l/x", "l/y/", "l/y/z"}},
		{"to-dir/y", "l", WalkOptions{}, []string{"l/", "l/z"}},
		{"to-dir", "l", WalkOptions{Dereference: true}, []string{"l/", "l/x", "l/y/", "l/y/z"}},
		{"to-file", "l", WalkOptions{Dereference: true}, []string{"l"}},
		{"dangling", "l", WalkOptions{}, []string{"l"}},
		{"dangling", "l", WalkOptions{Dereference: true}, []string{"l !"}},
		{"-r", "-r", WalkOptions{}, []string{"-r"}},
		{filepath.Join(dir, "a", "y"), "abs", WalkOptions{}, []string{"abs/", "abs/z"}},
	}
	for _, tt := range tests {
		op := Operand{Host: tt.host}
		if tt.stored != "" {
			op.Stored = path(t, tt.stored)
		}
		tt.opt.Dir = dir
		items := walkAll([]Operand{op}, tt.opt)
		if got := names(items); !slices.Equal(got, tt.want) {
			t.Errorf("%q as %q: %q, want %q", tt.host, tt.stored, got, tt.want)
		}
		for _, it := range items {
			if it.Kind == KindFile && it.Err == nil {
				readItem(t, &it)
			}
			if it.Err != nil && tt.host != "" && !strings.Contains(it.Err.Error(), it.Host()) {
				t.Errorf("%q: %v does not name %q", tt.host, it.Err, it.Host())
			}
		}
	}
	for _, it := range walkAll([]Operand{{Host: "nothing", Stored: path(t, "n")}}, WalkOptions{Dir: dir}) {
		if !errors.Is(it.Err, fs.ErrNotExist) {
			t.Errorf("a missing operand gave %v", it.Err)
		}
	}
	// Host paths are told as the user began them.
	items := walkAll([]Operand{{Host: "a/y", Stored: path(t, "q")}, {Host: "./a", Stored: path(t, "r")}}, WalkOptions{Dir: dir})
	var hosts []string
	for _, it := range items {
		hosts = append(hosts, it.Host())
	}
	if want := []string{"a/y", "a/y/z", "./a", "./a/x", "./a/y", "./a/y/z"}; !slices.Equal(hosts, want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
}

func readItem(t testing.TB, it *Item) string {
	t.Helper()
	src, err := it.Open()
	check(t, err)
	defer src.Close()
	data, err := io.ReadAll(src)
	check(t, err)
	check(t, src.Check())
	return string(data)
}

func TestWalkFilters(t *testing.T) {
	dir := sample(t)
	write(t, filepath.Join(dir, "z", "CACHEDIR.TAG"), cacheSignature+"\n")
	filter := func(rules string) *Filter {
		f := new(Filter)
		check(t, f.ReadRules(strings.NewReader(rules)))
		return f
	}
	sub := func(opt WalkOptions, host, stored string) []string {
		opt.Dir = dir
		op := Operand{Host: host}
		if stored != "" {
			op.Stored = path(t, stored)
		}
		return names(walkAll([]Operand{op}, opt))
	}
	tests := []struct {
		what         string
		opt          WalkOptions
		host, stored string
		want         []string
	}{
		{"a directory is not entered", WalkOptions{Filter: filter("/y\n!z")}, "a", "", []string{"x"}},
		{"only directories", WalkOptions{Filter: filter("x/\ny/")}, "a", "a", []string{"a/", "a/x"}},
		{"an operand", WalkOptions{Filter: filter("a")}, "a/x", "a/x", []string{"a/x !"}},
		{"above an operand", WalkOptions{Filter: filter("/a")}, "a/y/z", "a/y/z", []string{"a/y/z !"}},
		{"prefix hidden", WalkOptions{Filter: filter("/a/x"), Prefix: path(t, "p/q")}, "a", "p/q/a", []string{"p/q/a/", "p/q/a/y/", "p/q/a/y/z"}},
		{"prefix is the tree", WalkOptions{Filter: filter("p"), Prefix: path(t, "p")}, "a", "p", []string{"p/", "p/x", "p/y/", "p/y/z"}},
		{"cache", WalkOptions{ExcludeCaches: true}, "z", "z", []string{"z/", "z/CACHEDIR.TAG"}},
		{"cache not asked for", WalkOptions{}, "z", "z", []string{"z/", "z/CACHEDIR.TAG", "z/d/", "z/d/e", "z/data"}},
	}
	for _, tt := range tests {
		if got := sub(tt.opt, tt.host, tt.stored); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
	write(t, filepath.Join(dir, "z", "CACHEDIR.TAG"), "something else")
	if got := sub(WalkOptions{ExcludeCaches: true}, "z", "z"); len(got) != 5 {
		t.Errorf("a tag without its signature marked a cache: %q", got)
	}
	fi, err := os.Stat(filepath.Join(dir, "a", "x"))
	check(t, err)
	if got := sub(WalkOptions{SkipSame: []os.FileInfo{fi}}, "a", "a"); runtime.GOOS != "windows" && !slices.Equal(got, []string{"a/", "a/y/", "a/y/z"}) {
		t.Errorf("the archive itself was found: %q", got)
	}
	// What the user named is reported, with the reason.
	for what, opt := range map[error]WalkOptions{
		ErrExcluded: {Dir: dir, Filter: filter("x")}, ErrSelf: {Dir: dir, SkipSame: []os.FileInfo{fi}},
	} {
		items := walkAll([]Operand{{Host: "a/x", Stored: path(t, "s/x")}}, opt)
		if len(items) != 1 || !errors.Is(items[0].Err, what) || items[0].Host() != "a/x" || items[0].Path.String() != "s/x" {
			if what != ErrSelf || runtime.GOOS != "windows" {
				t.Errorf("%v: %+v", what, items)
			}
		}
	}
	if got := sub(WalkOptions{OneFileSystem: true}, "a", "a"); len(got) != 4 {
		t.Errorf("one file system: %q", got)
	}
}

func TestWalkDereferenceLoop(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "f"), "x")
	check(t, os.Symlink("..", filepath.Join(dir, "a", "up")))
	check(t, os.Symlink("a", filepath.Join(dir, "b")))
	check(t, os.Symlink("self", filepath.Join(dir, "self")))
	items := walkAll([]Operand{{Host: dir, Stored: path(t, "t")}}, WalkOptions{Dereference: true})
	want := []string{"t/", "t/a/", "t/a/f", "t/a/up/ !", "t/b/", "t/b/f", "t/b/up/ !", "t/self !"}
	if got := names(items); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, it := range items {
		if it.Path.Base() == "up" && !errors.Is(it.Err, ErrLoop) {
			t.Errorf("%s: %v", it.Path, it.Err)
		}
	}
}

func TestCheckOperands(t *testing.T) {
	dir := sample(t)
	op := func(host string) Operand {
		p, err := pathsafe.FromOperand(host)
		check(t, err)
		return Operand{host, p}
	}
	tests := []struct {
		ops  []Operand
		opt  WalkOptions
		want []string
		err  error
	}{
		{ops: []Operand{op("ab"), op("a-b"), op("a")}, want: []string{"a", "a-b", "ab"}},
		{ops: []Operand{op("a/y"), op("a"), op("a/x")}, want: []string{"a"}},
		{ops: []Operand{op("./a/y/z"), op("."), op("./a")}, want: []string{"."}},
		{ops: []Operand{op("a"), op("../a")}, err: ErrCollision},
		{ops: []Operand{op("."), op("..")}, err: ErrCollision},
		{ops: []Operand{op("a"), {Host: "ab", Stored: path(t, "a/new")}}, err: ErrOverlap},
		{ops: []Operand{op("."), op("../q")}, err: ErrOverlap},
		{ops: []Operand{op("to-dir"), op("to-dir/x")}, err: ErrOverlap},
		{ops: []Operand{op("."), op("to-dir/x")}, err: ErrOverlap},
		{ops: []Operand{op("."), op("to-dir/x")}, opt: WalkOptions{Dereference: true}, want: []string{"."}},
		{ops: []Operand{op("."), op("to-dir")}, want: []string{"."}},
		{ops: []Operand{op("a"), op("a/none")}, want: []string{"a", "a/none"}},
		{ops: []Operand{op("a"), op("a/none"), op("a/x")}, want: []string{"a", "a/none"}},
		{ops: []Operand{op("a/x"), op("a")}, opt: WalkOptions{NoRecurse: true}, want: []string{"a", "a/x"}},
		{ops: nil},
	}
	for i, tt := range tests {
		tt.opt.Dir = dir
		kept, err := CheckOperands(tt.ops, tt.opt)
		if !errors.Is(err, tt.err) {
			t.Errorf("%d: %v, want %v", i, err, tt.err)
		}
		var got []string
		for _, op := range kept {
			got = append(got, op.Host)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d: %q, want %q", i, got, tt.want)
		}
	}
}

func TestSplitHost(t *testing.T) {
	type result struct {
		parent, name string
		self, follow bool
	}
	for in, want := range map[string]result{
		"a":      {".", "a", false, false},
		"a/b":    {"a/", "b", false, false},
		"/a":     {"/", "a", false, false},
		"a/b//":  {"a/", "b", false, true},
		"/":      {"/", "", true, true},
		".":      {".", "", true, true},
		"a/..":   {"a/..", "", true, true},
		"a/../":  {"a/../", "", true, true},
		"../x":   {"../", "x", false, false},
		"a/.hid": {"a/", ".hid", false, false},
	} {
		var got result
		got.parent, got.name, got.self, got.follow = splitHost(in)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
}

func TestWalkSeesVanishing(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a", "d/f", "e/f"} {
		write(t, filepath.Join(dir, f), "x")
	}
	var got []string
	for it := range Walk(context.Background(), top(dir), WalkOptions{}) {
		got = append(got, names([]Item{it})...)
		if it.Err != nil {
			continue
		}
		switch it.Path.String() {
		case "a":
			check(t, os.Remove(filepath.Join(dir, "a")))
			if _, err := it.Open(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opening what is gone: %v", err)
			}
		case "d":
			check(t, os.RemoveAll(filepath.Join(dir, "d")))
		case "e":
			// Another directory in its place is not the one that was listed.
			check(t, os.Rename(filepath.Join(dir, "e"), filepath.Join(dir, "g")))
			check(t, os.Symlink("g", filepath.Join(dir, "e")))
		}
	}
	if want := []string{"a", "d/", "d/ !", "e/", "e/ !"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLookaheadIsBounded lets workers loose on a tree without end.
func TestLookaheadIsBounded(t *testing.T) {
	before := runtime.NumGoroutine()
	const jobs, perUnit = 4, 100
	l := newLookahead(jobs, func(u *unit) {
		u.items = make([]Item, perUnit)
		for i := range u.items {
			u.items[i].sub = new(unit)
		}
		u.rest = new(unit)
	})
	state := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ahead
	}
	root := new(unit)
	l.push(root)
	if !l.need(root) {
		t.Fatal("not loaded")
	}
	for try := 0; state() < maxAhead; try++ {
		if try == 20_000 {
			t.Fatalf("only %d items are loaded ahead", state())
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	if n := state(); n >= maxAhead+jobs*perUnit {
		t.Errorf("%d items are loaded ahead", n)
	}
	// What the consumer comes to first is there first.
	if first := root.items[0].sub; first.state != unitDone {
		t.Error("the next directory is not loaded")
	}
	l.stop()
	if l.need(root.items[perUnit-1].sub) {
		t.Error("loaded after the stop")
	}
	noGoroutines(t, before)
}
