package vfs

import (
	"io/fs"
	"time"
)

// Stamp is what the system notes of a file when it is written to: another stamp, another state of the
// file. Equal stamps say that nothing went through the system since, as far as its clock can tell two
// moments apart; of a medium that rots they say nothing. Times are nanoseconds since 1970; Changed is 0 where
// the system has no such time.
type Stamp struct{ Size, Modified, Changed int64 }

// StampOf asks the system about an open file.
func StampOf(f interface{ Stat() (fs.FileInfo, error) }) (Stamp, error) {
	fi, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Size: fi.Size(), Modified: fi.ModTime().UnixNano(), Changed: changeTime(fi)}, nil
}

// BornOf is when the file came to be, in nanoseconds since 1970; 0 where the system, the file system or the kind of f does
// not tell. It stays when the file is written to, renamed or mounted anew, and a copy has another.
func BornOf(f File) int64 {
	if o, ok := f.(interface{ born() int64 }); ok {
		return o.born()
	}
	return 0
}

// Latest is when the file last changed.
func (s Stamp) Latest() time.Time { return time.Unix(0, max(s.Modified, s.Changed)) }
