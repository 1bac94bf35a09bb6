package hostfs

import (
	"io/fs"
	"math"
	"syscall"
	"time"
)

const openNoWait = 0

// Attributes that say something about a file wherever it is; others describe how it is stored or what it is.
const keptAttributes = syscall.FILE_ATTRIBUTE_READONLY | syscall.FILE_ATTRIBUTE_HIDDEN | syscall.FILE_ATTRIBUTE_SYSTEM | syscall.FILE_ATTRIBUTE_ARCHIVE

// openFileLimit is how many files the process may have open: the system sets none.
func openFileLimit() uint64 { return math.MaxUint64 }

// identify fills in attributes and the time of creation. The system gives no numbers without opening the object.
func identify(m *Meta, fi fs.FileInfo) {
	st, ok := fi.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return
	}
	if a := st.FileAttributes & keptAttributes; a != 0 {
		m.HasWinAttrs, m.WinAttrs = true, uint64(a)
	}
	t := time.Unix(0, st.CreationTime.Nanoseconds())
	m.HasBirth, m.BirthSec, m.BirthNsec = true, t.Unix(), uint32(t.Nanosecond())
}
