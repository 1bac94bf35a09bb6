package source

import (
	"testing"

	"lockbox/internal/index"
)

func TestUnixKind(t *testing.T) {
	const none = index.Kind(200)
	kinds := [16]index.Kind{0: none, 1: index.FIFO, 2: index.CharDevice, 4: index.Dir, 6: index.BlockDevice, 8: index.File, 10: index.Symlink, 12: index.Socket}
	for i, want := range kinds {
		for _, bits := range []uint64{0, 0o7777, 1 << 16} {
			if got := UnixKind(uint64(i)<<12|bits, none); got != want {
				t.Errorf("mode %o: %v, want %v", uint64(i)<<12|bits, got, want)
			}
		}
	}
}
