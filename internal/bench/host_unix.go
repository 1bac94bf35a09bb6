//go:build linux || darwin

package bench

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeSpace is how many bytes a user may write below a directory.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil
}

// maxResident is a finished process's largest resident size in bytes.
func maxResident(p *os.ProcessState) int64 {
	r, ok := p.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin":
		return int64(r.Maxrss)
	}
	return int64(r.Maxrss) * 1024
}
