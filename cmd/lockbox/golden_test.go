package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Archives that the first version of the format has written are read for ever, and can be changed.
func TestGolden(t *testing.T) {
	key := []string{"-i", absolute(t, "testdata/keys/age.key")}
	pin := []string{"--signer", absolute(t, "testdata/keys/sign.pub")}
	sign := []string{"--sign-key", absolute(t, "testdata/keys/sign")}
	for _, c := range []struct {
		name                string
		read, check, change []string
	}{
		{"none", nil, nil, nil},
		{"signed", nil, pin, sign},
		{"encrypted", key, nil, nil},
		{"encrypted-xchacha20", key, nil, nil},
		{"both", key, pin, sign},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			archive := absolute(t, filepath.Join("testdata", "golden", c.name+".lbx"))
			run := func(args ...string) string {
				t.Helper()
				return mustRun(t, dir, append(args, c.read...)...)
			}
			compare(t, c.name+".dump", run("debug", "dump", archive, "--limit", "0"))
			compare(t, "list", run("list", archive, "--json"))
			if got := run(append([]string{"verify", "--full", "--quiet", archive}, c.check...)...); got != "" {
				t.Errorf("verify says %q", got)
			}
			for name, want := range map[string]string{"hello.txt": "hello, lockbox\n", "dir/second-name": "hello, lockbox\n", "dir/r.txt": "replaced twice\n"} {
				if got := run("cat", archive, name); got != want {
					t.Errorf("%s holds %q", name, got)
				}
			}
			whole, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(whole, []byte("removed later")) {
				t.Error("removed bytes stand in the archive")
			}
			// A copy takes a change, and stays whole.
			write(t, filepath.Join(dir, "copy.lbx"), whole)
			write(t, filepath.Join(dir, "new"), []byte("new"))
			run(append([]string{"add", "copy.lbx", "new"}, c.change...)...)
			run(append([]string{"compact", "copy.lbx"}, c.change...)...)
			run(append([]string{"verify", "--full", "copy.lbx"}, c.check...)...)
			if got := run("cat", "copy.lbx", "hello.txt", "new"); got != "hello, lockbox\nnew" {
				t.Errorf("after a change: %q", got)
			}
		})
	}
}

// compare holds output against a text beside the golden archives.
func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s differs in line %d:\n%s\nwant\n%s", name, i+1, g[i], w[i])
			return
		}
	}
	t.Errorf("%s has %d lines, want %d", name, len(g), len(w))
}
