package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command line that names a key is for an archive that has key slots: every command refuses another one, which somebody
// may have put in its place, and changes and makes nothing.
func TestKeyFlagOnPlainArchive(t *testing.T) {
	rows := map[string][]string{ // ARCHIVE, KEY and DIR are replaced
		"add":        {"add", "ARCHIVE", "DIR/f"},
		"extract":    {"extract", "ARCHIVE", "-d", "DIR/out"},
		"cat":        {"cat", "ARCHIVE", "f"},
		"list":       {"list", "ARCHIVE"},
		"verify":     {"verify", "ARCHIVE"},
		"remove":     {"remove", "ARCHIVE", "f"},
		"move":       {"move", "ARCHIVE", "f", "g"},
		"compact":    {"compact", "ARCHIVE"},
		"copy":       {"copy", "ARCHIVE", "DIR/new"},
		"recover":    {"recover", "ARCHIVE", "-o", "DIR/new"},
		"info":       {"info", "ARCHIVE"},
		"export":     {"export", "ARCHIVE", "--format", "tar", "-o", "DIR/new"},
		"diff":       {"diff", "ARCHIVE", "DIR"},
		"debug dump": {"debug", "dump", "ARCHIVE"},
		"key list":   {"key", "list", "ARCHIVE"},
		"key add":    {"key", "add", "ARCHIVE", "--recipient", "testdata/keys/age.pub"},
		"key remove": {"key", "remove", "ARCHIVE", "1"},
		"key rotate": {"key", "rotate", "ARCHIVE"},
	}
	more := [][]string{
		{"add", "ARCHIVE", "DIR/f", "--dry-run"}, {"add", "ARCHIVE", "DIR/f", "--recipient", "testdata/keys/age.pub"}, {"verify", "ARCHIVE", "--full"},
		{"recover", "ARCHIVE", "--dry-run"}, {"recover", "ARCHIVE", "-o", "DIR/new", "--recipient", "testdata/keys/age.pub"},
		{"recover", "DAMAGED", "-o", "DIR/new"}, {"recover", "DAMAGED", "--dry-run"},
	}
	makes := map[string]bool{"create": true, "bench": true} // what opens no archive that is there
	var walk func(*cobra.Command, string)
	walk = func(c *cobra.Command, prefix string) {
		for _, sub := range c.Commands() {
			name := prefix + sub.Name()
			if row, ok := rows[name]; ok {
				more = append(more, row)
			} else if strings.Contains(sub.Use, " ARCHIVE") && !sub.HasSubCommands() && !makes[name] {
				t.Errorf("the command %q is not among those that are tested", name)
			}
			walk(sub, name+" ")
		}
	}
	walk(newRoot(newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}), nil), "")

	dir := t.TempDir()
	archive, damaged, phrase := filepath.Join(dir, "a"), filepath.Join(dir, "damaged"), filepath.Join(dir, "phrase")
	env := map[string]string{}
	run := func(args ...string) (int, string) {
		args = append([]string(nil), args...)
		for i, s := range args {
			args[i] = strings.NewReplacer("ARCHIVE", archive, "DAMAGED", damaged, "DIR", dir).Replace(s)
		}
		var out, errs bytes.Buffer
		a := newApp(system{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string { return env[name] }})
		return a.run(t.Context(), args), errs.String()
	}
	write(t, filepath.Join(dir, "f"), []byte("f"))
	write(t, phrase, []byte("sesame\n"))
	if code, errs := run("add", "ARCHIVE", "-C", "DIR", "f"); code != 0 {
		t.Fatal(errs)
	}
	good, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	clear(bad[:16<<10])
	write(t, damaged, bad)
	for _, row := range more {
		for flag, key := range map[string]string{"--identity": "testdata/keys/age.key", "--passphrase-file": phrase} {
			code, errs := run(append(row, flag, key)...)
			if code != int(exitAuth) || !strings.Contains(errs, "is not encrypted, and "+flag+" asks for one that is") || !strings.Contains(errs, "lockbox: hint: ") {
				t.Errorf("%q with %s: exit %d: %s", row, flag, code, errs)
			}
			if b, err := os.ReadFile(archive); err != nil || !bytes.Equal(b, good) {
				t.Fatalf("%q with %s changed the archive: %v", row, flag, err)
			}
		}
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 4 {
		t.Errorf("something was made: %q, %v", names, err)
	}
	// The environment says nothing about any archive; and a passphrase can be for what is made, or for a key file.
	env[envPassphraseFile] = phrase
	for _, row := range [][]string{
		{"list", "ARCHIVE"}, {"verify", "ARCHIVE"}, {"add", "ARCHIVE", "DIR/f"},
		{"recover", "ARCHIVE", "-o", "DIR/new", "--encrypt", "--passphrase-file", phrase},
	} {
		if code, errs := run(row...); code != 0 {
			t.Errorf("%q: exit %d: %s", row, code, errs)
		}
	}
}
