package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// runJSON runs a command in this process and returns the last line it printed, decoded.
func runJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(system{stdin: os.Stdin, stdout: &out, stderr: &errs, getenv: func(string) string { return "" }})
	code := a.run(t.Context(), args)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, errs.String())
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var v map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &v); err != nil {
		t.Fatalf("%v: %v in %s", args, err, out.Bytes())
	}
	return v
}

// The root that a change reports is the one in which it leaves the archive, the wiping of what it
// replaced included: what --expect-root is given.
func TestSummaryNamesTheFinalRoot(t *testing.T) {
	dir := t.TempDir()
	archive, file := filepath.Join(dir, "a.lbx"), filepath.Join(dir, "f")
	for i, content := range []string{"one", "two", "three"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		sum := runJSON(t, "add", "--json", archive, "-C", dir, "f")["summary"].(map[string]any)
		info := runJSON(t, "info", "--json", "--expect-root", sum["root"].(string), archive)
		if info["root"] != sum["root"] || info["generation"] != sum["generation"] {
			t.Errorf("change %d: reported %v, is %v", i, sum, info)
		}
	}
}

// A command line that names a command gets that one alone, under each of its names.
func TestOneCommandIsMade(t *testing.T) {
	a := newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)})
	all := commandNames(newRoot(a, nil))
	named := 0
	for _, c := range commandMakers {
		for _, name := range c.names {
			named++
			root := newRoot(a, []string{name, "x"})
			cmd, _, err := root.Find([]string{name})
			if err != nil || cmd.Name() != c.names[0] {
				t.Errorf("%s leads to %v, %v", name, cmd, err)
			}
			if got := commandNames(root); len(got) != len(c.names)+1 { // and help
				t.Errorf("for %s the commands %v were made", name, got)
			}
		}
	}
	if named != len(all)-1 {
		t.Errorf("%d names are listed, the commands have %v", named, all)
	}
	for _, args := range [][]string{{"help"}, {"--quiet", "add"}, {"ad"}, {"__complete", "add"}} {
		if got := commandNames(newRoot(a, args)); len(got) != len(all) {
			t.Errorf("for %v the commands %v were made", args, got)
		}
	}
}
