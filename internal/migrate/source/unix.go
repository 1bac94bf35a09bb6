package source

import "lockbox/internal/index"

// UnixKind is the kind of file that the upper bits of a Unix mode name. none is returned where they name nothing, and 0
// where nobody knows what they name. What a reader takes of the kinds is its own matter: few formats say all of each.
func UnixKind(mode uint64, none index.Kind) index.Kind {
	switch mode & 0o170000 {
	case 0:
		return none
	case 0o010000:
		return index.FIFO
	case 0o020000:
		return index.CharDevice
	case 0o040000:
		return index.Dir
	case 0o060000:
		return index.BlockDevice
	case 0o100000:
		return index.File
	case 0o120000:
		return index.Symlink
	case 0o140000:
		return index.Socket
	}
	return 0
}
