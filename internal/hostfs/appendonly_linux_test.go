package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing can be removed from a directory that is marked append-only, the trial file neither. It is named, so that the user
// finds it once the mark is gone.
func TestTrialFileThatStaysIsNamed(t *testing.T) {
	if !anonTemps {
		t.Skip("this backend tries nothing out before it writes")
	}
	dir := t.TempDir()
	f, err := os.Open(dir)
	check(t, err)
	defer f.Close()
	const appendOnly = 0x20 // FS_APPEND_FL
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|appendOnly))
	}
	if err != nil {
		t.Skipf("no directory can be marked append-only here: %v", err)
	}
	defer func() { check(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))) }()
	x, err := NewExtractor(dir, ExtractOptions{})
	if err == nil {
		x.Abort()
		t.Fatal("the destination was taken")
	}
	left, rerr := os.ReadDir(dir)
	check(t, rerr)
	if len(left) != 1 || !strings.Contains(err.Error(), filepath.Join(dir, left[0].Name())) {
		t.Errorf("%v; left are %v", err, left)
	}
}
