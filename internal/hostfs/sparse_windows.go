package hostfs

import (
	"math"

	"golang.org/x/sys/windows"
)

// seekData and seekHole say that there is data only: how this system tells is not known here.
func (f *hfile) seekData(at int64) (int64, error) { return at, nil }
func (f *hfile) seekHole(int64) (int64, error)    { return math.MaxInt64, nil }

// expectHoles asks the system to take no space for what is not written. Where it does not, the file gets zeros.
func (f *hfile) expectHoles() {
	c, err := f.f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(h uintptr) {
		var n uint32
		_ = windows.DeviceIoControl(windows.Handle(h), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
	})
}
