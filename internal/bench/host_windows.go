package bench

import (
	"os"

	"golang.org/x/sys/windows"
)

// freeSpace is how many bytes a user may write below a directory.
func freeSpace(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(free), nil
}

// maxResident is not known on this system.
func maxResident(*os.ProcessState) int64 { return 0 }
