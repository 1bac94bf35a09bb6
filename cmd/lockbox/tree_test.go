package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/blake3"
)

// noise returns n bytes that do not compress and follow from seed.
func noise(n int, seed string) []byte {
	h := blake3.New()
	_, _ = h.WriteString(seed)
	b := make([]byte, n)
	_, _ = h.Digest().Read(b)
	return b
}

// compareTrees returns the first difference between two trees, or "". It knows nothing of the packages
// under test.
func compareTrees(a, b string) string {
	left, err := readTree(a)
	if err != nil {
		return err.Error()
	}
	right, err := readTree(b)
	if err != nil {
		return err.Error()
	}
	for name, x := range left {
		y, ok := right[name]
		if !ok {
			return fmt.Sprintf("%q is only in %s", name, a)
		}
		if x.what != y.what {
			return fmt.Sprintf("%q: %s is not %s", name, x.what, y.what)
		}
		if !bytes.Equal(x.data, y.data) {
			return fmt.Sprintf("%q: other bytes", name)
		}
	}
	for name := range right {
		if _, ok := left[name]; !ok {
			return fmt.Sprintf("%q is only in %s", name, b)
		}
	}
	return ""
}

type treeEntry struct {
	what string
	data []byte
}

func readTree(top string) (map[string]treeEntry, error) {
	tree := map[string]treeEntry{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == top {
			return err
		}
		fi, err := os.Lstat(name)
		if err != nil {
			return err
		}
		e := treeEntry{what: fmt.Sprint(fi.Mode(), " ", fi.ModTime().UnixNano())}
		switch {
		case fi.Mode().IsRegular():
			e.data, err = os.ReadFile(name)
		case fi.Mode()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(name)
			e.data = []byte(target)
		}
		rel, _ := filepath.Rel(top, name)
		tree[rel] = e
		return err
	})
	return tree, err
}
