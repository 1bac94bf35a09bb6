//go:build unix

package hostfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSpecialFilesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	check(t, syscall.Mkfifo(fifo, 0o644))
	write(t, filepath.Join(dir, "file"), "x")
	sock, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(sock)
	check(t, syscall.Bind(sock, &syscall.SockaddrUnix{Name: filepath.Join(dir, "sock")}))
	done := make(chan []Item)
	go func() { done <- walkAll(top(dir), WalkOptions{}) }()
	var items []Item
	select {
	case items = <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the walk hangs")
	}
	if got, want := names(items), []string{"fifo", "file", "sock !"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if items[0].Kind != KindFIFO {
		t.Errorf("a FIFO is a %s", items[0].Kind)
	}
	if !errors.Is(items[2].Err, ErrSkipped) || !strings.Contains(items[2].Err.Error(), "socket") {
		t.Errorf("%s: %v", items[2].Path, items[2].Err)
	}
	// A FIFO that takes the place of a file must not make Open wait for a writer.
	check(t, os.Rename(fifo, filepath.Join(dir, "file")))
	opened := make(chan error)
	go func() {
		_, err := items[1].Open()
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, ErrChanged) {
			t.Errorf("a FIFO in the place of a file: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Open hangs on a FIFO")
	}
}

// A tree far deeper than the longest path that the system takes, beyond the handles kept open.
func TestDeepTree(t *testing.T) {
	const depth, name = 200, "a-directory-with-a-rather-long-name"
	src, dst := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(src)
	check(t, err)
	at := root
	for range depth {
		check(t, at.Mkdir(name, 0o755))
		sub, err := at.OpenRoot(name)
		check(t, err)
		check(t, sub.WriteFile("z-file", []byte("deep"), 0o640))
		check(t, at.Close())
		at = sub
	}
	check(t, at.Close())
	for _, jobs := range []int{1, 4} {
		items := walkAll(top(src), WalkOptions{Jobs: jobs})
		if len(items) != 2*depth {
			t.Fatalf("%d items, want %d", len(items), 2*depth)
		}
		out := filepath.Join(dst, fmt.Sprint(jobs))
		x, err := NewExtractor(out, ExtractOptions{})
		check(t, err)
		check(t, transfer(x, items))
		check(t, x.Finish())
		again := walkAll(top(out), WalkOptions{Jobs: jobs})
		if !slices.Equal(names(again), names(items)) {
			t.Error("another tree came out")
		}
		for i := range again {
			a, b := again[i].Meta, items[i].Meta
			if a.Mode != b.Mode || a.MtimeSec != b.MtimeSec || a.MtimeNsec != b.MtimeNsec || a.Size != b.Size {
				t.Fatalf("item %d: %+v, want %+v", i, a, b)
			}
		}
		if got := readItem(t, &again[depth]); got != "deep" {
			t.Errorf("the deepest file holds %q", got)
		}
	}
}

func TestOpenAfterWalkKeepsFewHandles(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * maxDirs {
		write(t, filepath.Join(dir, fmt.Sprintf("d%d", i), "f"), "x")
	}
	before := openFiles(t, func(n int) bool { return n < 30 }) // walks of other tests are garbage by now
	items := walkAll(top(dir), WalkOptions{Jobs: 2})
	for i := range items {
		if items[i].Kind == KindFile {
			readItem(t, &items[i])
		}
	}
	if n := openFiles(t, nil) - before; n > maxDirs+3 {
		t.Errorf("%d more files are open", n)
	}
	runtime.KeepAlive(items)
	items = nil
	if n := openFiles(t, func(n int) bool { return n <= before }); n > before {
		t.Errorf("%d files are open when nothing of the walk is left, %d were before it", n, before)
	}
}

// openFiles counts the open files, with enough is set until that is content or some time has passed.
func openFiles(t *testing.T, enough func(int) bool) int {
	t.Helper()
	for try := 0; ; try++ {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("open files cannot be counted here")
		}
		if enough == nil || enough(len(entries)) || try == 2000 {
			return len(entries)
		}
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
	}
}

// asNobody runs the calling test again as an ordinary user, for whom modes mean something.
func asNobody(t *testing.T) (child bool) {
	t.Helper()
	if !isRoot() {
		return true
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		check(t, os.Chmod(d, 0o755))
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("root, and no way to run as somebody else")
	}
	exe := filepath.Join(dir, "test")
	check(t, os.WriteFile(exe, self, 0o755))
	tmp := filepath.Join(dir, "tmp")
	check(t, os.Mkdir(tmp, 0o777))
	check(t, os.Chmod(tmp, 0o777))
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("as an ordinary user the test did not run:\n%s", out)
	}
	return false
}

func TestReadOnlyDirectories(t *testing.T) {
	if !asNobody(t) {
		return
	}
	src, dst := t.TempDir(), t.TempDir()
	write(t, filepath.Join(src, "ro", "sub", "f"), "x")
	write(t, filepath.Join(src, "ro", "g"), "y")
	check(t, os.Chmod(filepath.Join(src, "ro", "g"), 0o400))
	check(t, os.Chmod(filepath.Join(src, "ro", "sub"), 0o555))
	check(t, os.Chmod(filepath.Join(src, "ro"), 0o555))
	defer func() { // or the clean-up cannot remove them
		for _, d := range []string{src, dst} {
			_ = filepath.WalkDir(d, func(p string, e fs.DirEntry, _ error) error { return os.Chmod(p, 0o755) })
		}
	}()
	items := walkAll(top(src), WalkOptions{})
	// A directory that its owner cannot even search is finished after what lies in it.
	closed := filepath.Join(dst, "closed")
	x, err := NewExtractor(closed, ExtractOptions{})
	check(t, err)
	for _, p := range []string{"n", "n/sub", "n/sub/deeper"} {
		check(t, x.Mkdir(path(t, p), Meta{Kind: KindDir, Mode: 0, MtimeSec: 4}, nil))
	}
	check(t, x.Finish())
	for _, p := range []string{"n", "n/sub", "n/sub/deeper"} {
		fi, err := os.Lstat(filepath.Join(closed, p))
		check(t, err)
		if fi.Mode() != fs.ModeDir || fi.ModTime().Unix() != 4 {
			t.Errorf("%s is %v of %v", p, fi.Mode(), fi.ModTime())
		}
		check(t, os.Chmod(filepath.Join(closed, p), 0o755))
	}
	check(t, os.RemoveAll(closed))

	for round, opt := range []ExtractOptions{{}, {Overwrite: true}} {
		x, err := NewExtractor(dst, opt)
		check(t, err)
		if err := transfer(x, items); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		check(t, x.Finish())
		sameTree(t, tree(t, src), tree(t, dst))
	}
}

func TestUnreadable(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	for _, f := range []string{"closed/f", "search/in/f", "secret"} {
		write(t, filepath.Join(dir, f), "x")
	}
	check(t, os.Chmod(filepath.Join(dir, "secret"), 0))
	check(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	check(t, os.Chmod(filepath.Join(dir, "search"), 0o311))
	defer os.Chmod(filepath.Join(dir, "closed"), 0o755)
	defer os.Chmod(filepath.Join(dir, "search"), 0o755)
	items := walkAll(top(dir), WalkOptions{})
	if got, want := names(items), []string{"closed/", "closed/ !", "search/", "search/ !", "secret"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, it := range items {
		if it.Err != nil && !errors.Is(it.Err, fs.ErrPermission) {
			t.Errorf("%s: %v", it.Path, it.Err)
		}
	}
	if _, err := items[4].Open(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opening an unreadable file: %v", err)
	}
	// What the user names behind a directory that cannot be listed can still be reached.
	if !anonTemps {
		return
	}
	got := names(walkAll([]Operand{{Host: filepath.Join(dir, "search", "in"), Stored: path(t, "in")}}, WalkOptions{}))
	if want := []string{"in/", "in/f"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSetidIsDropped(t *testing.T) {
	src := t.TempDir()
	write(t, filepath.Join(src, "d", "f"), "x")
	check(t, os.Chmod(filepath.Join(src, "d", "f"), 0o755|fs.ModeSetuid))
	check(t, os.Chmod(filepath.Join(src, "d"), 0o755|fs.ModeSticky))
	items := walkAll(top(src), WalkOptions{})
	if items[0].Mode != 0o1755 || items[1].Mode != 0o4755 {
		t.Fatalf("modes %o and %o", items[0].Mode, items[1].Mode)
	}
	for _, keep := range []bool{false, true} {
		dst := t.TempDir()
		x, err := NewExtractor(dst, ExtractOptions{KeepSetid: keep})
		check(t, err)
		check(t, transfer(x, items))
		check(t, x.Finish())
		for i, it := range walkAll(top(dst), WalkOptions{}) {
			want := items[i].Mode
			if !keep {
				want &= modePerm | modeSticky
			}
			if it.Mode != want {
				t.Errorf("keep %v: %s has mode %o, want %o", keep, it.Path, it.Mode, want)
			}
		}
	}
}

// A destination that cannot be written is found before anything is tried, unless nothing is to be made in it
// itself.
func TestUnwritableDestination(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dst := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dst, "open"), 0o755))
	write(t, filepath.Join(dst, "open", "there"), "x")
	write(t, filepath.Join(dst, "there"), "x")
	check(t, os.Chmod(dst, 0o555))
	defer os.Chmod(dst, 0o755)
	for _, tt := range []struct {
		path string
		kind Kind
		opt  ExtractOptions
		bad  bool
	}{
		{"new", KindFile, ExtractOptions{}, true},
		{"new", KindDir, ExtractOptions{}, true},
		{"new/x", KindFile, ExtractOptions{}, true},
		{"there", KindFile, ExtractOptions{Overwrite: true}, true},
		{"there", KindFile, ExtractOptions{SkipExisting: true}, false},
		{"open", KindDir, ExtractOptions{}, false},
		{"open/new", KindFile, ExtractOptions{}, false},
		{"open/there", KindFile, ExtractOptions{Overwrite: true}, false},
	} {
		x, err := NewExtractor(dst, tt.opt)
		check(t, err)
		err = x.Preflight(func(yield func(PreflightItem) bool) { yield(PreflightItem{path(t, tt.path), tt.kind}) })
		if errors.Is(err, ErrUnwritable) != tt.bad || errors.Is(err, fs.ErrPermission) != tt.bad || (err != nil) != tt.bad {
			t.Errorf("%s, %+v: %v", tt.path, tt.opt, err)
		}
		x.Abort()
	}
}

// TestPlantedLink races a link against the extraction: whatever wins, nothing is written through it.
func TestPlantedLink(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	check(t, os.Mkdir(outside, 0o755))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	dst := filepath.Join(base, "dst")
	check(t, os.Mkdir(dst, 0o755))
	d := filepath.Join(dst, "d")
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_ = os.Rename(d, filepath.Join(dst, "away"))
			_ = os.Symlink(outside, d)
			_ = os.Remove(d)
			_ = os.RemoveAll(filepath.Join(dst, "away"))
		}
	}()
	for range 300 {
		x, err := NewExtractor(dst, ExtractOptions{Overwrite: true})
		check(t, err)
		// Any of these may fail; where they write is what matters.
		_ = x.Mkdir(path(t, "d"), Meta{Kind: KindDir, Mode: 0o700}, nil)
		_ = x.WriteFile(path(t, "d/f"), Meta{Mode: 0o644}, []byte("x"))
		_ = x.Symlink(path(t, "d/l"), Meta{Target: "f"})
		_ = x.Finish()
	}
	cancel()
	<-stopped
	if got := tree(t, outside); len(got) != 0 {
		t.Errorf("written through a planted link: %v", got)
	}
	fi, err := os.Stat(outside)
	check(t, err)
	if fi.Mode().Perm() != 0o755 {
		t.Errorf("the directory behind the link has mode %v now", fi.Mode())
	}
}
