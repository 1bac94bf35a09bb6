package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	base := removableDir(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		src, dst := filepath.Join(base, fmt.Sprintf("s%d", round)), filepath.Join(base, fmt.Sprintf("d%d", round))
		check(t, os.Mkdir(src, 0o755))
		name := rapid.SampledFrom([]string{"a", "b", "a-b", "a.b", "ab", "-x", "new\nline", " ", "é", "#", strings.Repeat("n", 255)})
		var dirs []string
		var grow func(dir string, depth int)
		grow = func(dir string, depth int) {
			for _, n := range rapid.SliceOfNDistinct(name, 0, 6, rapid.ID).Draw(rt, "names") {
				p := filepath.Join(dir, n)
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					if depth < 4 {
						check(t, os.Mkdir(p, 0o755))
						dirs = append(dirs, p)
						grow(p, depth+1)
					}
					continue
				case 1:
					check(t, os.Symlink(rapid.SampledFrom([]string{"a", "../b", "/etc/passwd", "nowhere\n"}).Draw(rt, "target"), p))
					continue
				}
				data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "data")
				check(t, os.WriteFile(p, data, 0o600))
				mode := rapid.Uint32Range(0, 0o777).Draw(rt, "mode")
				if !isRoot() {
					mode |= 0o400
				}
				check(t, os.Chmod(p, fs.FileMode(mode)))
				check(t, os.Chtimes(p, time.Time{}, drawTime(rt)))
			}
		}
		grow(src, 0)
		for _, d := range slices.Backward(dirs) {
			check(t, os.Chmod(d, fs.FileMode(0o500|rapid.Uint32Range(0, 0o777).Draw(rt, "mode"))))
			check(t, os.Chtimes(d, time.Time{}, drawTime(rt)))
		}
		items := walkAll(top(src), WalkOptions{Jobs: 1 + round%3})
		for i := 1; i < len(items); i++ {
			if items[i-1].Path.Compare(items[i].Path) >= 0 {
				rt.Fatalf("%q is not before %q", items[i-1].Path, items[i].Path)
			}
		}
		x, err := NewExtractor(dst, ExtractOptions{})
		check(t, err)
		check(t, transfer(x, items))
		check(t, x.Finish())
		want, got := tree(t, src), tree(t, dst)
		sameTree(t, want, got)
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func drawTime(rt *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(-1<<30, 1<<32).Draw(rt, "sec"), rapid.Int64Range(0, 999_999_999).Draw(rt, "nsec"))
}

// newExtractor is an Extractor on a directory that it makes.
func newExtractor(t *testing.T, opt ExtractOptions) (*Extractor, string) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "dst")
	x, err := NewExtractor(dst, opt)
	check(t, err)
	return x, dst
}

var plain = Meta{Kind: KindFile, Mode: 0o644, MtimeSec: 1_000_000_000, MtimeNsec: 123_456_789}

func TestExtractExisting(t *testing.T) {
	dst := t.TempDir()
	write(t, filepath.Join(dst, "f"), "old")
	write(t, filepath.Join(dst, "d", "g"), "old g")
	check(t, os.Symlink("f", filepath.Join(dst, "l")))

	x, err := NewExtractor(dst, ExtractOptions{})
	check(t, err)
	for _, p := range []string{"f", "l", "d"} {
		if err := x.WriteFile(path(t, p), plain, []byte("new")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("writing %s: %v", p, err)
		}
		if err := x.Symlink(path(t, p), Meta{Target: "x"}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("linking %s: %v", p, err)
		}
	}
	for _, p := range []string{"f", "l"} {
		if err := x.Mkdir(path(t, p), Meta{Kind: KindDir, Mode: 0o755}, nil); !errors.Is(err, fs.ErrExist) {
			t.Errorf("making %s: %v", p, err)
		}
	}
	if err := x.WriteFile(path(t, "l/x"), plain, nil); err == nil {
		t.Error("wrote through a link")
	}
	// A directory that was there keeps what it had.
	check(t, x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o700}, nil))
	check(t, x.WriteFile(path(t, "d/new"), plain, []byte("n")))
	check(t, x.Finish())
	got := tree(t, dst)
	if len(got) != 5 || !strings.HasSuffix(got["f"], `"old"`) || !strings.HasPrefix(got["d"], "drwxr-xr-x") || !strings.HasPrefix(got["d/new"], "-rw-r--r-- 1000000000123456789") {
		t.Errorf("%v", got)
	}

	x, err = NewExtractor(dst, ExtractOptions{Overwrite: true})
	check(t, err)
	check(t, x.WriteFile(path(t, "f"), plain, []byte("new")))
	check(t, x.WriteFile(path(t, "l"), plain, []byte("no link now")))
	check(t, x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o700, MtimeSec: 5}, nil))
	check(t, x.Symlink(path(t, "d/g"), Meta{Target: "away"}))
	if err := x.WriteFile(path(t, "d"), plain, nil); err == nil {
		t.Error("a directory was replaced by a file")
	}
	check(t, x.Finish())
	got = tree(t, dst)
	if !strings.HasSuffix(got["f"], `"new"`) || !strings.HasSuffix(got["l"], `"no link now"`) || !strings.Contains(got["d/g"], `-> "away"`) || got["d"] != "drwx------ 5000000000" {
		t.Errorf("%v", got)
	}
	noTemps(t, dst)
}

func noTemps(t *testing.T, dir string) {
	t.Helper()
	for p := range tree(t, dir) {
		if strings.Contains(p, tempPrefix) {
			t.Errorf("%s was left", p)
		}
	}
}

func TestPreflight(t *testing.T) {
	setup := func(opt ExtractOptions) (*Extractor, string) {
		dst := t.TempDir()
		for _, f := range []string{"f", "d/g", "dir/x", "blocked", "e1", "e2", "e3", "e4", "e5"} {
			write(t, filepath.Join(dst, f), "old")
		}
		check(t, os.Symlink("d", filepath.Join(dst, "link")))
		x, err := NewExtractor(dst, opt)
		check(t, err)
		return x, dst
	}
	tests := []struct {
		items   string // a directory ends in a slash
		opt     ExtractOptions
		names   []string // what the error must name; none: no error
		skips   []string
		blocked bool // no option helps
	}{
		{items: "new d/ d/new n/ n/a n/b/ n/b/c zz/unknown/parent"},
		{items: "d/ d/g", names: []string{"d/g"}},
		{items: "f", names: []string{"/f"}},
		{items: "f d/g", opt: ExtractOptions{Overwrite: true}},
		{items: "f d/g new", opt: ExtractOptions{SkipExisting: true}, skips: []string{"f", "d/g"}},
		{items: "link/ link/g", names: []string{"link is a symbolic link"}, blocked: true},
		{items: "link/g link/h", names: []string{"link is a symbolic link"}, blocked: true},
		{items: "link/ link/g", opt: ExtractOptions{Overwrite: true}, names: []string{"link is a symbolic link"}, blocked: true},
		{items: "link/g", opt: ExtractOptions{SkipExisting: true}, names: []string{"link is a symbolic link"}, blocked: true},
		{items: "link", opt: ExtractOptions{Overwrite: true}},
		{items: "blocked/x", names: []string{"blocked is a file where a directory is needed"}, blocked: true},
		{items: "dir", names: []string{"dir is a directory"}, blocked: true},
		{items: "dir", opt: ExtractOptions{Overwrite: true}, names: []string{"dir is a directory"}, blocked: true},
		{items: "f blocked/x", names: []string{"/f", "blocked is a file"}, blocked: true},
		{items: "dir", opt: ExtractOptions{SkipExisting: true}, names: []string{"dir is a directory"}, blocked: true},
		{items: "d/g e1 e2 e3 e4 e5 f", names: []string{"d/g", "e1", "e4", "and 2 more"}},
	}
	for _, tt := range tests {
		x, dst := setup(tt.opt)
		before := tree(t, dst)
		fields := strings.Fields(tt.items)
		err := x.Preflight(func(yield func(PreflightItem) bool) {
			for _, f := range fields {
				kind := KindFile
				if strings.HasSuffix(f, "/") {
					kind = KindDir
				}
				if !yield(PreflightItem{path(t, strings.TrimSuffix(f, "/")), kind}) {
					return
				}
			}
		})
		if (err != nil) != (len(tt.names) > 0) || err != nil && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s, %+v: %v", tt.items, tt.opt, err)
		}
		if errors.Is(err, ErrBlocked) != tt.blocked {
			t.Errorf("%s, %+v: %v, blocked %v", tt.items, tt.opt, err, tt.blocked)
		}
		for _, n := range tt.names {
			if err != nil && !strings.Contains(err.Error(), n) {
				t.Errorf("%s: %v does not name %s", tt.items, err, n)
			}
		}
		for _, f := range fields {
			if got := x.Skipped(path(t, strings.TrimSuffix(f, "/"))); got != slices.Contains(tt.skips, f) {
				t.Errorf("%s: skips %s: %v", tt.items, f, got)
			}
		}
		sameTree(t, before, tree(t, dst))
		check(t, x.Finish())
	}
	if _, err := NewExtractor(t.TempDir(), ExtractOptions{Overwrite: true, SkipExisting: true}); err == nil {
		t.Error("contradicting options were taken")
	}
}

func TestOutput(t *testing.T) {
	x, dst := newExtractor(t, ExtractOptions{})
	m := plain
	m.Size = 1 << 20
	o, err := x.File(path(t, "made/on/the/way/f"), m)
	check(t, err)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := slices.Repeat([]byte{byte(i)}, 1<<16)
			if _, err := o.WriteAt(p, int64(i)<<16); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := os.Lstat(filepath.Join(dst, "made/on/the/way/f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there before it is complete: %v", err)
	}
	check(t, o.Commit())
	if err := o.Commit(); err == nil {
		t.Error("committed twice")
	}
	check(t, o.Abort())
	data, err := os.ReadFile(filepath.Join(dst, "made/on/the/way/f"))
	check(t, err)
	for i, b := range data {
		if int(b) != i>>16 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}

	m.Size = 10
	o, err = x.File(path(t, "short"), m)
	check(t, err)
	if _, err := o.WriteAt(make([]byte, 4), 7); err == nil {
		t.Error("wrote beyond the size")
	}
	if _, err := o.WriteAt(make([]byte, 4), -1); err == nil {
		t.Error("wrote before the start")
	}
	_, err = o.WriteAt(make([]byte, 9), 0)
	check(t, err)
	if err := o.Commit(); err == nil {
		t.Error("committed 9 bytes of 10")
	}
	o, err = x.File(path(t, "dropped"), m)
	check(t, err)
	check(t, o.Abort())
	check(t, x.WriteFile(path(t, "empty"), plain, nil))
	if err := x.WriteFile(path(t, "empty/below"), plain, nil); err == nil || !strings.Contains(err.Error(), "file stands where a directory") {
		t.Errorf("below a file: %v", err)
	}
	check(t, x.Finish())
	got := tree(t, dst)
	if _, ok := got["empty"]; !ok || len(got) != 6 {
		t.Errorf("%d entries: %v", len(got), got["empty"])
	}
	noTemps(t, dst)
}

func TestExtractorAbort(t *testing.T) {
	x, dst := newExtractor(t, ExtractOptions{})
	check(t, x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o750, MtimeSec: 9}, nil))
	check(t, x.WriteFile(path(t, "d/done"), plain, []byte("x")))
	m := plain
	m.Size = 4
	o, err := x.File(path(t, "d/open"), m)
	check(t, err)
	_, err = o.WriteAt([]byte("data"), 0)
	check(t, err)
	x.Abort()
	if got := tree(t, dst); len(got) != 2 || got["d"] != "drwxr-x--- 9000000000" {
		t.Errorf("after Abort: %v", got)
	}
	if err := o.Commit(); err == nil {
		t.Error("committed after Abort")
	}
	for what, err := range map[string]error{
		"WriteFile": x.WriteFile(path(t, "d/x"), plain, nil),
		"Mkdir":     x.Mkdir(path(t, "y"), plain, nil),
		"Symlink":   x.Symlink(path(t, "z"), Meta{Target: "z"}),
		"Finish":    x.Finish(),
	} {
		if !errors.Is(err, ErrAborted) {
			t.Errorf("%s after Abort: %v", what, err)
		}
	}
	if got := tree(t, dst); len(got) != 2 {
		t.Errorf("written after Abort: %v", got)
	}
}

// Abort comes from a signal while workers are in the middle of anything.
func TestAbortWhileWriting(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		dst := t.TempDir()
		for i := range 50 {
			write(t, filepath.Join(dst, fmt.Sprintf("d%d", i%5), fmt.Sprintf("f%d", i)), "old")
		}
		x, err := NewExtractor(dst, ExtractOptions{Overwrite: overwrite})
		check(t, err)
		var wg sync.WaitGroup
		started := make(chan struct{}, 4)
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					err := x.WriteFile(path(t, fmt.Sprintf("d%d/f%d", i%5, (i*4+w)%2000)), plain, []byte("new"))
					if errors.Is(err, ErrAborted) {
						return
					}
					if err != nil && !errors.Is(err, fs.ErrExist) {
						t.Error(err)
						return
					}
					if i == 20 {
						started <- struct{}{}
					}
				}
			})
		}
		<-started
		x.Abort()
		noTemps(t, dst)
		wg.Wait()
		noTemps(t, dst)
	}
}

func TestConcurrentExtract(t *testing.T) {
	x, dst := newExtractor(t, ExtractOptions{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < 800; i += 4 {
				// More directories than are kept open, each shared by all, none made beforehand.
				if err := x.WriteFile(path(t, fmt.Sprintf("d%d/e/f%d", i%(2*maxDirs), i)), plain, []byte("x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range 2 * maxDirs {
		check(t, x.Mkdir(path(t, fmt.Sprintf("d%d", i)), Meta{Kind: KindDir, Mode: 0o711, MtimeSec: 3}, nil))
	}
	check(t, x.Finish())
	files := 0
	for p, line := range tree(t, dst) {
		switch strings.Count(p, string(filepath.Separator)) {
		case 0:
			if line != "drwx--x--x 3000000000" {
				t.Errorf("%s is %s", p, line)
			}
		case 2:
			files++
		}
	}
	if files != 800 {
		t.Errorf("%d files", files)
	}
}

func TestExtractOptions(t *testing.T) {
	x, dst := newExtractor(t, ExtractOptions{NoPermissions: true, NoTimes: true})
	start := time.Now().Add(-time.Minute)
	check(t, x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o500, MtimeSec: 1}, nil))
	m := plain
	m.Mode = 0o4111
	check(t, x.WriteFile(path(t, "d/f"), m, []byte("x")))
	check(t, x.Symlink(path(t, "d/l"), Meta{Target: "f", MtimeSec: 1}))
	check(t, x.Finish())
	write(t, filepath.Join(dst, "ref"), "")
	check(t, os.Mkdir(filepath.Join(dst, "refdir"), 0o777))
	for _, p := range [][2]string{{"d/f", "ref"}, {"d", "refdir"}, {"d/l", ""}} {
		fi, err := os.Lstat(filepath.Join(dst, p[0]))
		check(t, err)
		if fi.ModTime().Before(start) {
			t.Errorf("%s has its stored time", p[0])
		}
		if p[1] == "" {
			continue
		}
		ref, err := os.Lstat(filepath.Join(dst, p[1]))
		check(t, err)
		if p[1] == "refdir" && fi.Mode() != ref.Mode() || p[1] == "ref" && fi.Mode()&0o111 != 0 {
			t.Errorf("%s has mode %v, a new one %v", p[0], fi.Mode(), ref.Mode())
		}
	}
	if err := x.WriteFile(path(t, "after"), plain, nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("writing after Finish: %v", err)
	}
	if err := x.Finish(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the second Finish: %v", err)
	}
}

func TestStaleTemps(t *testing.T) {
	for _, opt := range []ExtractOptions{{}, {Overwrite: true}} {
		t.Run(fmt.Sprintf("overwrite=%v", opt.Overwrite), func(t *testing.T) { staleTemps(t, opt) })
	}
}

func staleTemps(t *testing.T, opt ExtractOptions) {
	dst := t.TempDir()
	const gone = 1 << 22 // above what systems number processes to
	stale := []string{fmt.Sprintf("%s%d-1", tempOwner(), gone), filepath.Join("d", fmt.Sprintf("%s%d-7", tempOwner(), gone))}
	kept := []string{fmt.Sprintf("%s%d-1", tempOwner(), os.Getppid()), tempPrefix + "0000abcd-" + fmt.Sprint(gone) + "-1", tempPrefix + "x", "file", tempOwner() + "no-1"}
	for _, f := range append(slices.Clone(stale), kept...) {
		write(t, filepath.Join(dst, f), "x")
	}
	for _, f := range stale {
		if !staleTemp(filepath.Base(f)) {
			t.Errorf("%s is not taken for stale", f)
		}
	}
	x, err := NewExtractor(dst, opt)
	check(t, err)
	check(t, x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o755, MtimeSec: 5}, nil))
	check(t, x.WriteFile(path(t, "d/f"), plain, nil))
	check(t, x.Finish())
	got := tree(t, dst)
	for _, f := range kept {
		if _, ok := got[f]; !ok {
			t.Errorf("%s was removed", f)
		}
	}
	for _, f := range stale {
		// Even where files need no temporary names, replacing something and trying that out do.
		if _, ok := got[f]; ok {
			t.Errorf("%s is still there", f)
		}
	}
}

func TestMoveByClaim(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "from"), "data")
	write(t, filepath.Join(dir, "taken"), "old")
	d, err := openTop(dir)
	check(t, err)
	defer d.close()
	if err := moveByClaim(d, "from", "taken"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto an existing file: %v", err)
	}
	if err := moveByClaim(d, "missing", "free"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("from nothing: %v", err)
	}
	check(t, moveByClaim(d, "from", "to"))
	got := tree(t, dir)
	if len(got) != 2 || !strings.HasSuffix(got["to"], `"data"`) || !strings.HasSuffix(got["taken"], `"old"`) {
		t.Errorf("%v", got)
	}
}

func TestCheckHostName(t *testing.T) {
	for _, n := range []string{`a\b`, "a:b", "x.", "x ", "a?", "a\x01", `..\x`, "con:"} {
		if checkHostName(n, true) == nil {
			t.Errorf("%q is taken as a Windows name", n)
		}
		if err := checkHostName(n, false); err != nil {
			t.Errorf("%q: %v", n, err)
		}
	}
	if err := checkHostName("a b.txt", true); err != nil {
		t.Error(err)
	}
}

func TestNewExtractor(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	if _, err := NewExtractor(filepath.Join(dir, "file"), ExtractOptions{}); err == nil {
		t.Error("a file was taken as a destination")
	}
	x, err := NewExtractor(filepath.Join(dir, "a", "b", "c"), ExtractOptions{})
	check(t, err)
	check(t, x.Finish())
	if _, err := os.Stat(filepath.Join(dir, "a", "b", "c")); err != nil {
		t.Error(err)
	}
}
