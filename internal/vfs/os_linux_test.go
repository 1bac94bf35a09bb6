package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnonymous(t *testing.T) {
	dir := t.TempDir()
	f, err := OS().CreateTemp(filepath.Join(dir, "a"), 0o600)
	ok(t, err)
	defer f.Close()
	fd, err := unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		t.Skipf("no anonymous files here: %v", err)
	}
	ok(t, unix.Close(fd))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Fatalf("the directory shows %v, %v", entries, err)
	}
}

// The error must come out of Publish although the file has its name.
func TestPublishReportsFailedDirectorySync(t *testing.T) {
	dir := t.TempDir()
	unsyncable, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(unsyncable)
	for name, system := range map[string]FS{"anonymous": OS(), "named": osVariants["os named"]} {
		f, err := system.CreateTemp(filepath.Join(dir, name), 0o600)
		ok(t, err)
		ok(t, unix.Dup3(unsyncable, f.(*osTemp).dir, unix.O_CLOEXEC))
		is(t, f.Publish(), unix.EBADF)
		if same, err := f.SameFile(filepath.Join(dir, name)); !same || err != nil {
			t.Errorf("%s: SameFile %v, %v", name, same, err)
		}
		is(t, f.Publish(), fs.ErrInvalid)
		ok(t, f.Close())
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: Close took the published file: %v", name, err)
		}
	}
}

func TestLockRefusalIsRecognised(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	ok(t, err)
	defer f.Close()
	// The kernel refuses a range that overflows in the way in which file systems refuse locks as such.
	if got, err := lockFile(f, math.MaxInt64, math.MaxInt64, true); got || !errors.Is(err, ErrLockUnsupported) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, err := range []error{unix.EINVAL, unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP} {
		if !lockUnsupported(err) {
			t.Errorf("%v is not taken for a refusal", err)
		}
	}
	for _, err := range []error{nil, unix.EIO, unix.EBADF} {
		if lockUnsupported(err) {
			t.Errorf("%v is taken for a refusal", err)
		}
	}
}
