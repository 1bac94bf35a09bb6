package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// protections are the ways to protect an archive: what makes one, what opens it, what changes it.
var protections = []struct {
	name              string
	make, open, write []string
}{
	{name: "none"},
	{
		name: "signed",
		make: []string{"--sign-key", "testdata/keys/sign"}, open: []string{"--signer", "testdata/keys/sign.pub"},
		write: []string{"--sign-key", "testdata/keys/sign", "--signer", "testdata/keys/sign.pub"},
	},
	{
		name: "encrypted",
		make: []string{"--recipient", "testdata/keys/age.pub"}, open: []string{"-i", "testdata/keys/age.key"},
		write: []string{"-i", "testdata/keys/age.key"},
	},
	{
		name:  "signed+encrypted",
		make:  []string{"--recipient", "testdata/keys/age.pub", "--sign-key", "testdata/keys/sign"},
		open:  []string{"-i", "testdata/keys/age.key", "--signer", "testdata/keys/sign.pub"},
		write: []string{"-i", "testdata/keys/age.key", "--sign-key", "testdata/keys/sign"},
	},
}

// Every command does with every kind of protection, compressed or not and padded or not, what it does without;
// what it was protected by stays; and without the key it does nothing (exit 11).
func TestCommandsOfEverySuite(t *testing.T) {
	tree := t.TempDir()
	for name, size := range map[string]int{"d/raw": 200_000, "d/one": 900, "d/two": 901, "text": 0} {
		data := noise(size, name)
		if size == 0 {
			data = bytes.Repeat([]byte("a line that repeats itself\n"), 4000)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tree, name), data)
	}
	for i, p := range protections {
		for _, o := range [][]string{{"--padding", "none"}, {"--padding", []string{"padme", "pow2"}[i%2], "--compression", "none"}} {
			t.Run(p.name+" "+strings.Join(o, " "), func(t *testing.T) { oneSuite(t, i, o, tree) })
		}
	}
}

// The archives that the engine keeps from earlier versions are read by the program, each with the key that it is
// locked for.
func TestGoldenArchives(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	write(t, key, []byte("AGE-SECRET-KEY-1NNCPUJWKXCKDHYGU2ERKD6RGKQV3J9Q4ES24HNXA6QP48YWJ48YSHLLWF9\n"))
	names, err := filepath.Glob("../../internal/store/testdata/golden/*.lbx")
	if err != nil || len(names) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range names {
		args := []string{"verify", "--full", "--json", name}
		if strings.Contains(name, "encrypted") || strings.Contains(name, "both") {
			args = append(args, "-i", key)
		}
		sum := runJSON(t, args...)["summary"].(map[string]any)
		if sum["complete"] != true || sum["damaged"] != 0.0 || sum["entries"] == 0.0 {
			t.Errorf("%s: %v", name, sum)
		}
	}
}

func oneSuite(t *testing.T, i int, o []string, tree string) {
	p, dir := protections[i], t.TempDir()
	a, copied, saved := filepath.Join(dir, "a.lbx"), filepath.Join(dir, "copy.lbx"), filepath.Join(dir, "saved.lbx")
	do := func(want int, lists ...[]string) string {
		t.Helper()
		args := slices.Concat(lists...)
		code, out, errs := inProcess(t.Context(), args...)
		if code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, code, want, errs)
		}
		return out
	}
	cmd := func(args ...string) []string { return args }
	do(0, cmd("add", a, "-C", tree, "."), p.make, o)
	do(0, cmd("add", a, "-C", tree, "d", "--to", "again"), p.write, o)
	do(0, cmd("move", a, "again/d/raw", "moved"), p.write)
	do(0, cmd("remove", a, "again"), p.write)
	do(0, cmd("compact", a), p.write)
	do(0, cmd("verify", "--full", a), p.open)
	do(0, cmd("copy", a, copied), p.open)
	do(0, cmd("recover", a, "-o", saved), p.make, p.open)
	for _, name := range []string{a, copied, saved} {
		if got, want := do(0, cmd("list", name), p.open), "d/\nd/one\nd/raw\nd/two\nmoved\ntext\n"; got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
		if do(0, cmd("cat", name, "moved"), p.open) != string(noise(200_000, "d/raw")) {
			t.Errorf("%s: the file that was moved reads as something else", name)
		}
		out := filepath.Join(dir, "out-"+filepath.Base(name))
		do(0, cmd("extract", name, "-d", out, "d", "text"), p.open)
		if diff := compareTrees(tree, out); diff != "" {
			t.Errorf("%s extracted: %s", name, diff)
		}
		info := do(0, cmd("info", name, "--json"), p.open)
		for _, want := range []string{`"suite":"` + p.name + `"`, `"padding":"` + o[1] + `"`} {
			if !strings.Contains(info, want) {
				t.Errorf("%s: no %s in %s", name, want, info)
			}
		}
	}
	before, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	noKey, noSignature := 0, 0
	if strings.Contains(p.name, "encrypted") {
		noKey = 11
		for _, secret := range []string{"moved", "text", "a line that", string(noise(901, "d/two")[:32])} {
			if bytes.Contains(before, []byte(secret)) {
				t.Errorf("%q shows", secret)
			}
		}
	}
	if noSignature = noKey; strings.Contains(p.name, "signed") {
		noSignature = 11
	}
	do(noKey, cmd("list", a))
	do(noKey, cmd("verify", "--full", a))
	do(noKey, cmd("cat", a, "text"))
	do(0, cmd("info", a))
	do(0, cmd("key", "list", a))
	do(noSignature, cmd("add", a, "-C", tree, "text"))
	do(noSignature, cmd("compact", a))
	if noSignature == 0 {
		return
	}
	if after, err := os.ReadFile(a); err != nil || !bytes.Equal(before, after) {
		t.Errorf("refused commands changed the archive: %v", err)
	}
}
