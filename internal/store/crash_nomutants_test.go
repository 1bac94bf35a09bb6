//go:build !mutants

package store_test

// noDirSync reports whether the system forgets to sync the directory of a new file.
func noDirSync() bool { return false }
