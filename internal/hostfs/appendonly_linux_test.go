package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// appendOnly marks a directory, from which nothing can be removed then.
func appendOnly(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	check(t, err)
	const flag = 0x20 // FS_APPEND_FL
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|flag))
	}
	if err != nil {
		check(t, f.Close())
		t.Skipf("no directory can be marked append-only here: %v", err)
	}
	t.Cleanup(func() {
		check(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)))
		check(t, f.Close())
	})
}

// stays fails unless the error names the only file in dir.
func stays(t *testing.T, dir string, err error) {
	t.Helper()
	left, rerr := os.ReadDir(dir)
	check(t, rerr)
	if err == nil || len(left) != 1 || !strings.Contains(err.Error(), filepath.Join(dir, left[0].Name())) {
		t.Errorf("%v; left are %v", err, left)
	}
}

// Nothing can be removed from a directory that is marked append-only, the trial file neither. It is named, so that the user
// finds it once the mark is gone.
func TestTrialFileThatStaysIsNamed(t *testing.T) {
	if !anonTemps {
		t.Skip("this backend tries nothing out before it writes")
	}
	dir := t.TempDir()
	appendOnly(t, dir)
	x, err := NewExtractor(dir, ExtractOptions{})
	if err == nil {
		x.Abort()
	}
	stays(t, dir, err)
}

// So it is where names are tried out, also in a directory below the destination.
func TestTrialNameThatStaysIsNamed(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	check(t, os.Mkdir(sub, 0o755))
	x, err := NewExtractor(dir, ExtractOptions{})
	check(t, err)
	defer x.Abort()
	appendOnly(t, sub)
	d, err := x.top.sub("sub", false)
	check(t, err)
	defer d.close()
	_, err = x.probeFolding(d, "sub")
	stays(t, sub, err)
}
