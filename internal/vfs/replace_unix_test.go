//go:build linux || darwin

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceFileKeepsTheMode(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "report"), filepath.Join(dir, "link")
	ok(t, os.WriteFile(name, []byte("old"), 0o600))
	ok(t, os.Chmod(name, 0o640))
	ok(t, ReplaceFile(name, 0o600, []byte("new")))
	if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o640 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	ok(t, os.Symlink("report", link))
	if err := ReplaceFile(link, 0o600, []byte("x")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a link: %v", err)
	}
}
