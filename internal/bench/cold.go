package bench

import (
	"errors"
	"os"
)

// NoColdError says why archives cannot be dropped from the system's cache.
type NoColdError struct{ Why string }

func (e *NoColdError) Error() string {
	return "archives cannot be dropped from the system's cache: " + e.Why
}

// dropAll drops files from the system's cache.
func dropAll(names []string) error {
	for _, name := range names {
		if err := withFile(name, os.O_RDONLY, drop); err != nil {
			return err
		}
	}
	return nil
}

// syncFiles writes files through to the device: what is dirty cannot be dropped.
func syncFiles(names []string) error {
	for _, name := range names {
		if err := withFile(name, os.O_RDWR, (*os.File).Sync); err != nil {
			return err
		}
	}
	return nil
}

func withFile(name string, flag int, fn func(*os.File) error) error {
	f, err := os.OpenFile(name, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(fn(f), f.Close())
}
