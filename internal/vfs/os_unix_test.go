//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// osVariants take the ways meant for file systems that lack something.
var osVariants = map[string]FS{
	"os named":   osFS{named: true},
	"os link":    osFS{named: true, skip: 1},
	"os reserve": osFS{named: true, skip: 2},
}

func TestOpenRefusesOtherKinds(t *testing.T) {
	dir := t.TempDir()
	fifo, sock, sub, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "s"), filepath.Join(dir, "sub"), filepath.Join(dir, "link")
	ok(t, unix.Mkfifo(fifo, 0o600))
	ok(t, os.Mkdir(sub, 0o700))
	ok(t, os.Symlink("sub", link))
	names := []string{fifo, sub, link, "/dev/null"}
	if l, err := net.Listen("unix", sock); err == nil { // the path may be too long for a socket
		defer l.Close()
		names = append(names, sock)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range names {
			for _, writable := range []bool{false, true} {
				f, err := OS().Open(name, writable)
				if !errors.Is(err, ErrNotRegular) || f != nil {
					t.Errorf("Open(%s, %v): %v, %v", name, writable, f, err)
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Open waits for the other end of a FIFO")
	}
}

func TestOpenFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link, loop := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "loop")
	ok(t, os.WriteFile(target, []byte("x"), 0o600))
	ok(t, os.Symlink("target", link))
	ok(t, os.Symlink("loop", loop))
	f, err := OS().Open(link, true)
	ok(t, err)
	defer f.Close()
	for _, name := range []string{link, target} {
		if same, err := f.SameFile(name); !same || err != nil {
			t.Errorf("SameFile(%s): %v, %v", name, same, err)
		}
	}
	if same, err := f.SameFile(filepath.Join(target, "below")); same || err != nil {
		t.Errorf("SameFile below a file: %v, %v", same, err)
	}
	if _, err := OS().Open(loop, false); err == nil {
		t.Error("a link to itself opens")
	}
	ok(t, OS().Remove(link))
	if _, err := os.Stat(target); err != nil {
		t.Errorf("removing a link took its target: %v", err)
	}
	if err := OS().Remove(dir); err == nil {
		t.Error("a directory was removed")
	}
	if err := OS().SyncDir(target); err == nil {
		t.Error("a file was synced as a directory")
	}
	is(t, OS().SyncDir(filepath.Join(dir, "gone")), fs.ErrNotExist)
}

// A name can be taken by anything.
func TestPublishReplacesNothing(t *testing.T) {
	for name, system := range map[string]FS{"os": OS(), "named": osVariants["os named"], "link": osVariants["os link"], "reserve": osVariants["os reserve"]} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			final := filepath.Join(dir, "a")
			for kind, occupy := range map[string]func() error{
				"file":          func() error { return os.WriteFile(final, []byte("x"), 0o600) },
				"dangling link": func() error { return os.Symlink("gone", final) },
				"directory":     func() error { return os.Mkdir(final, 0o700) },
				"FIFO":          func() error { return unix.Mkfifo(final, 0o600) },
			} {
				f, err := system.CreateTemp(final, 0o600)
				ok(t, err)
				ok(t, occupy())
				before, err := os.Lstat(final)
				ok(t, err)
				if err := f.Publish(); !errors.Is(err, fs.ErrExist) {
					t.Errorf("%s: Publish: %v", kind, err)
				}
				ok(t, f.Close())
				after, err := os.Lstat(final)
				ok(t, err)
				if !os.SameFile(before, after) || before.Mode() != after.Mode() {
					t.Errorf("%s: replaced", kind)
				}
				ok(t, os.Remove(final))
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
}

func TestCleanStale(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, tempName())
	ok(t, os.WriteFile(stale, []byte("half an archive"), 0o600))
	live, err := osVariants["os named"].CreateTemp(filepath.Join(dir, "a"), 0o600)
	ok(t, err) // and this has cleaned up already
	defer live.Close()
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("CreateTemp left what a killed run had left: %v", err)
	}

	other := filepath.Join(dir, "kept")
	ok(t, os.WriteFile(other, nil, 0o600))
	linked, piped := tempName(), tempName()
	ok(t, os.Symlink("kept", filepath.Join(dir, linked)))
	ok(t, unix.Mkfifo(filepath.Join(dir, piped), 0o600))
	mine := []string{".lockbox-", ".lockbox-notes", tempName() + "x", strings.ToUpper(tempName()), "x" + tempName()}
	for _, name := range mine {
		ok(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for range 3 {
		ok(t, os.WriteFile(filepath.Join(dir, tempName()), nil, 0o600))
	}
	removed, err := CleanStale(dir)
	if removed != 3 || err == nil {
		t.Errorf("removed %d, %v; want 3 and an error for the link or the FIFO", removed, err)
	}
	for _, name := range append(mine, "kept", linked, piped) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	ok(t, live.Publish())
	if removed, _ := CleanStale(dir); removed != 0 {
		t.Error("something was removed after Publish")
	}
	if same, err := live.SameFile(filepath.Join(dir, "a")); !same || err != nil {
		t.Errorf("the published file: %v, %v", same, err)
	}
}

// A run killed between linking and unlinking leaves its file under both names.
func TestCleanStaleSecondName(t *testing.T) {
	dir := t.TempDir()
	final := filepath.Join(dir, "a")
	ok(t, os.WriteFile(final, []byte("complete"), 0o600))
	ok(t, os.Link(final, filepath.Join(dir, tempName())))
	if removed, err := CleanStale(dir); removed != 1 || err != nil {
		t.Fatalf("removed %d, %v", removed, err)
	}
	if b, err := os.ReadFile(final); string(b) != "complete" || err != nil {
		t.Fatalf("the published file: %q, %v", b, err)
	}
}

func TestConcurrentNamedTemps(t *testing.T) {
	dir := t.TempDir()
	const runs = 8
	errs := make(chan error, runs)
	for i := range runs {
		go func() {
			errs <- func() error {
				for range 20 {
					f, err := osVariants["os named"].CreateTemp(filepath.Join(dir, string(rune('a'+i))), 0o600)
					if err != nil {
						return err
					}
					if err := errors.Join(f.Publish(), f.Close(), OS().Remove(filepath.Join(dir, string(rune('a'+i))))); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range runs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(dir)
	ok(t, err)
	if len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestUmaskAndDirectoryErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := OS().CreateTemp(filepath.Join(dir, "gone", "a"), 0o600)
	is(t, err, fs.ErrNotExist)
	ok(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = OS().CreateTemp(filepath.Join(dir, "file", "a"), 0o600)
	is(t, err, unix.ENOTDIR)
	t.Chdir(dir)
	for name, system := range map[string]FS{"anonymous": OS(), "named": osVariants["os named"]} {
		f, err := system.CreateTemp(name, 0o666)
		ok(t, err)
		ok(t, f.Publish())
		ok(t, f.Close())
		fi, err := os.Stat(name)
		ok(t, err)
		mask := unix.Umask(0)
		unix.Umask(mask)
		if want := fs.FileMode(0o666 &^ mask); fi.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v", name, fi.Mode().Perm(), want)
		}
	}
	entries, err := os.ReadDir(dir)
	ok(t, err)
	if len(entries) != 3 || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "named" }) {
		t.Errorf("the directory holds %v", entries)
	}
}

// TestPermissionDenied runs as somebody who is not root, to whom permissions apply.
func TestPermissionDenied(t *testing.T) {
	dir, err := os.MkdirTemp("", "lockbox-vfs") // t.TempDir has parents that only its owner may enter
	ok(t, err)
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "a")
	ok(t, os.WriteFile(name, []byte("x"), 0o444))
	ok(t, os.Chmod(dir, 0o555))
	end, _ := start(t, "denied", name)
	end()
	ok(t, os.Chmod(dir, 0o755))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("the directory holds %v, %v", entries, err)
	}
}

func init() {
	children["denied"] = func(name string) error {
		if os.Getuid() == 0 {
			if err := syscall.Setuid(65534); err != nil {
				return err
			}
		}
		_, writing := OS().Open(name, true)
		_, anonymous := OS().CreateTemp(name+"2", 0o600)
		_, named := osVariants["os named"].CreateTemp(name+"2", 0o600)
		for what, err := range map[string]error{
			"open for writing": writing, "anonymous": anonymous, "named": named, "remove": OS().Remove(name),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%s: %v", what, err)
			}
		}
		f, err := OS().Open(name, false)
		if err != nil {
			return err
		}
		if got, err := f.TryLock(base, 1, false); !got || err != nil {
			return fmt.Errorf("a shared lock on a file that may only be read: %v, %v", got, err)
		}
		return waitForEnd()
	}
}
