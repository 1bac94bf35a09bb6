package vfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	tempPrefix   = ".lockbox-"
	tempRandom   = 16 // bytes, in hexadecimal in the name
	tempAttempts = 16
	// tempLockOff is the byte that the maker of a named temporary file keeps locked. It lies just
	// below 1<<62, where an archive's own locks begin, and past the end of any archive.
	tempLockOff = 1<<62 - 1
)

func tempName() string {
	var b [tempRandom]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return tempPrefix + hex.EncodeToString(b[:])
}

// isTempName accepts exactly what tempName makes, so that no file of the user's is taken for one.
func isTempName(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	if !ok || len(digits) != 2*tempRandom || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}

// CleanStale removes the temporary files that killed runs have left in dir and returns how many. A file
// whose maker still lives is locked and stays; so does one that cannot be locked or belongs to
// someone else. The error is the first that kept something from being removed.
func CleanStale(dir string) (removed int, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	var stale []string
	for {
		names, rerr := d.Readdirnames(1024)
		for _, name := range names {
			if isTempName(name) {
				stale = append(stale, name)
			}
		}
		if rerr != nil {
			if rerr != io.EOF {
				err = rerr
			}
			break
		}
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	for _, name := range stale {
		ok, rerr := removeStale(filepath.Join(dir, name))
		if ok {
			removed++
		}
		if err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}
	return removed, err
}

// removeStale removes one temporary file while it holds the lock that a living maker would hold.
func removeStale(path string) (removed bool, err error) {
	f, err := openStale(path)
	if err != nil {
		return false, err
	}
	ok, err := f.TryLock(tempLockOff, 1, true)
	if err == nil && ok {
		// Meanwhile its maker may have published the file. Then this name, which nobody draws a second
		// time, is gone, and removing it harms nothing.
		err = OS().Remove(path)
		removed = err == nil
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return removed, err
}
