package migrate

import (
	"context"
	"strings"
	"testing"

	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
)

// Archives of programs that nobody has at hand any more, or that cost money.
func TestRealArchives(t *testing.T) {
	sourcetest.Facts(t, "testdata/libarchive", func(name string, b []byte) (source.Archive, error) {
		o := sourcetest.Pass("12345678")
		switch {
		case strings.Contains(name, "aes"):
			o = sourcetest.Pass("password")
		case strings.Contains(name, "cp932"):
			o.Encoding = "shift_jis"
		}
		return open(context.Background(), sourcetest.Input(b), o)
	})
}
