package main

import (
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

func TestNearestStored(t *testing.T) {
	c := catalogueOf(t, "README.md", "docs/notes.txt", "docs/letters/ann.txt", "docs/letters/bob.txt", "src/main.go", "x")
	for operand, want := range map[string]string{
		"readme.md":               "README.md",
		"./REDAME.md":             "README.md",
		"doc":                     "docs",
		"docs/note.txt":           "docs/notes.txt",
		"docs/lettres/ann.txt":    "docs/letters/ann.txt",
		"docs/lettres/carl":       "docs/letters",
		"dosc/notes.txt":          "docs/notes.txt",
		"main.go":                 "src/main.go",
		"docs/main.go":            "src/main.go",
		"bob.txt":                 "docs/letters/bob.txt",
		"y":                       "",
		"nothing/like/it":         "",
		"../x":                    "",
		"":                        "",
		strings.Repeat("a", 9000): "",
	} {
		if got := nearestStored(c, operand); got != want {
			t.Errorf("%.20q: %q, want %q", operand, got, want)
		}
	}
}

func TestNearestFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Backup.lbx"), nil)
	write(t, filepath.Join(dir, "directory.lbx", "x"), nil)
	for name, want := range map[string]string{
		"bakcup.lbx": "Backup.lbx", "backup.lbx": "Backup.lbx", "backup": "Backup.lbx", "directory.lb": "", "other": "", "none/backup.lbx": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := nearestFile(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// endless is a catalogue that counts what is read of it and never ends.
type endless struct {
	paths
	read *int
}

func (e endless) List(pathsafe.Path) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		for {
			*e.read++
			p, err := pathsafe.Parse(fmt.Sprintf("dir/%d", *e.read))
			if !yield(index.Entry{Path: p, Kind: index.File}, err) {
				return
			}
		}
	}
}

// What is read for suggestions is bounded: for one, and for many.
func TestSuggestionsAreBounded(t *testing.T) {
	read := 0
	a := new(app)
	for range 10 * guessesPerRun {
		_ = a.missingEntry(endless{read: &read}, "a.lbx", "some name")
	}
	if most := 2 * guessesPerRun * (entriesPerGuess + 1); read > most || read == 0 {
		t.Errorf("%d entries were read, at most %d may be", read, most)
	}
}
