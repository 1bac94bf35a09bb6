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
	code := run(args, system{stdin: os.Stdin, stdout: &out, stderr: &errs, getenv: func(string) string { return "" }})
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
