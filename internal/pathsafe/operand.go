package pathsafe

import (
	"path"
	"runtime"
	"strings"
)

// FromOperand returns the default stored name of a host path as a user wrote it: cleaned, with slashes,
// without a leading "/" (on Windows also a drive or share) and without leading "..". A path that
// names no component of its own, such as ".", ".." or "/", gives the zero Path: its contents belong
// at the top. The empty string is an error, because no host path is empty.
func FromOperand(s string) (Path, error) { return fromOperand(s, runtime.GOOS == "windows") }

func fromOperand(s string, windows bool) (Path, error) {
	if s == "" {
		return Path{}, invalid("it is empty")
	}
	if windows {
		s = dropVolume(strings.ReplaceAll(s, `\`, "/"))
	}
	// Rooting the path before cleaning drops every ".." that would lead out of it, and only those.
	s = path.Clean("/" + s)[1:]
	if s == "" {
		return Path{}, nil
	}
	return Parse(s)
}

// dropVolume removes the drive letter or the server and share of a Windows path written with slashes,
// with or without the prefix that switches path parsing off there.
func dropVolume(s string) string {
	rest, verbatim := strings.CutPrefix(s, "//?/")
	if !verbatim {
		rest, verbatim = strings.CutPrefix(s, "//./")
	}
	if verbatim {
		if len(rest) >= 4 && strings.EqualFold(rest[:4], "UNC/") {
			return afterShare(rest[4:])
		}
		return dropDrive(rest)
	}
	if share, ok := strings.CutPrefix(s, "//"); ok && share != "" && share[0] != '/' {
		return afterShare(share)
	}
	return dropDrive(s)
}

func dropDrive(s string) string {
	if len(s) >= 2 && s[1] == ':' && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z') {
		return s[2:]
	}
	return s
}

// afterShare returns what follows "server/share".
func afterShare(s string) string {
	_, s, _ = strings.Cut(s, "/")
	_, s, _ = strings.Cut(s, "/")
	return s
}
