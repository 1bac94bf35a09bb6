//go:build !linux

package bench

import (
	"os"
	"runtime"
)

func drop(*os.File) error { return errNoCold() }

// coldWorks says that dropping is not possible.
func coldWorks(string) error { return errNoCold() }

func errNoCold() error { return &NoColdError{"a program cannot do that on " + runtime.GOOS} }

// fileSystemOf does not know on this system.
func fileSystemOf(string) string { return "the file system of " + runtime.GOOS }
