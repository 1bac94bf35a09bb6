package source

import (
	"fmt"
	"strings"

	"lockbox/internal/pathsafe"
)

// Path makes a stored path of a name that another format has. What many programs write is tidied: a "./" before it, a
// slash after a directory, doubled slashes. A name that leads out of where it is unpacked is refused, not tidied: an
// absolute one, one with a drive, one with "..". unix says that a backslash is a character of the name like others, as
// it is where the name comes from a Unix system; even then one that would lead out on Windows is refused. The zero path
// and no error is the top itself, which is no entry.
func Path(name string, unix bool) (pathsafe.Path, error) {
	refuse := func(why string) (pathsafe.Path, error) {
		return pathsafe.Path{}, fmt.Errorf("%w: the name %s", pathsafe.ErrInvalid, why)
	}
	if name == "" {
		return refuse("is empty")
	}
	slashed := strings.ReplaceAll(name, `\`, "/")
	switch {
	case slashed != name && !unix:
		return refuse("has a backslash")
	case slashed[0] == '/':
		return refuse("is absolute")
	case len(slashed) > 2 && slashed[1] == ':' && slashed[2] == '/' && (slashed[0]|0x20) >= 'a' && (slashed[0]|0x20) <= 'z':
		return refuse("begins with a drive")
	}
	for c := range strings.SplitSeq(slashed, "/") {
		if c == ".." {
			return refuse(`leads out of the archive by ".."`)
		}
	}
	b := make([]byte, 0, len(name))
	for c := range strings.SplitSeq(name, "/") {
		if c != "" && c != "." {
			if len(b) > 0 {
				b = append(b, '/')
			}
			b = append(b, c...)
		}
	}
	if len(b) == 0 {
		return pathsafe.Path{}, nil
	}
	return pathsafe.Parse(string(b))
}
