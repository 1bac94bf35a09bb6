package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A dry run of add says what the same command then does: the same entries and actions, the same sums, the same exit
// code. It does not read files, so that it takes those for replaced of which add then finds that they are unchanged.
func TestDryRunAgrees(t *testing.T) {
	names := []string{"a", "b", "c"}
	kinds := []string{"file", "file", "dir", "dir", "link", "name", "name", "pipe", "none"}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		var files []string // to which further names are made
		// build makes what is called name one of the kinds, or leaves it as it is.
		var build func(name string, depth int, again bool)
		build = func(name string, depth int, again bool) {
			if again && depth > 0 && rapid.Bool().Draw(rt, name+" stays") {
				return
			}
			kind := "dir"
			if depth > 0 {
				kind = rapid.SampledFrom(kinds).Draw(rt, name)
			}
			fi, err := os.Lstat(name)
			if err == nil && (kind != "dir" || !fi.IsDir()) {
				if err := os.RemoveAll(name); err != nil {
					rt.Fatal(err)
				}
			}
			switch kind {
			case "file":
				err = os.WriteFile(name, []byte(rapid.SampledFrom(names).Draw(rt, "content")), 0o644)
				files = append(files, name)
			case "name":
				if err = nil; len(files) == 0 || os.Link(rapid.SampledFrom(files).Draw(rt, "first"), name) != nil {
					err = os.WriteFile(name, nil, 0o644)
				}
			case "pipe":
				if err = nil; mkfifo(name) != nil {
					err = os.WriteFile(name, nil, 0o644)
				}
			case "link":
				err = os.Symlink(rapid.SampledFrom(names).Draw(rt, "target"), name)
			case "dir":
				if err = os.MkdirAll(name, 0o755); depth < 2 {
					for _, n := range names {
						build(filepath.Join(name, n), depth+1, again)
					}
				}
			default:
				err = nil
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		run := func(args ...string) (int, []map[string]any) {
			var out, errs bytes.Buffer
			a := newApp(system{stdin: strings.NewReader("x"), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }})
			code := a.run(t.Context(), args)
			var lines []map[string]any
			for line := range strings.Lines(out.String()) {
				m := map[string]any{}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					rt.Fatalf("%v: %q", err, line)
				}
				lines = append(lines, m)
			}
			rt.Logf("%q: exit %d\n%s%s", args, code, out.String(), errs.String())
			return code, lines
		}
		archive := filepath.Join(dir, "archive")
		for _, top := range []string{"x", "y"} {
			build(filepath.Join(dir, "s", top), 0, false)
		}
		if code, _ := run("add", archive, "--json", "-C", filepath.Join(dir, "s"), "x", "y"); code != 0 {
			rt.Fatalf("exit %d", code)
		}
		for _, top := range []string{"x", "y"} {
			build(filepath.Join(dir, "s", top), 0, true)
		}
		if rapid.Bool().Draw(rt, "touched") {
			when := time.Unix(1_000_000_000, 0)
			if err := os.Chtimes(filepath.Join(dir, "s", "x"), when, when); err != nil {
				rt.Fatal(err)
			}
		}
		args := []string{"add", archive, "--json", "-C", filepath.Join(dir, "s")}
		args = append(args, rapid.SampledFrom([][]string{{"x", "y"}, {"x"}, {"."}, {"x", "y", "-", "--stdin-name", "x/a"}, {"x", "-", "--stdin-name", "y/b/c"}, {"x/a", "y"}}).Draw(rt, "paths")...)
		for _, flag := range []string{"--overwrite", "--update", "--no-dedup", "--mirror", "--force", "--no-replace", "--exclude=b"} {
			mirror := strings.Contains(strings.Join(args, " "), "--mirror")
			update := strings.Contains(strings.Join(args, " "), "--update")
			if (flag != "--force" || mirror) && (flag != "--no-replace" || !mirror && !update) && rapid.Bool().Draw(rt, flag) {
				args = append(args, flag)
			}
		}
		before, err := os.ReadFile(archive)
		if err != nil {
			rt.Fatal(err)
		}
		dryCode, dry := run(append(args, "--dry-run")...)
		if after, err := os.ReadFile(archive); err != nil || !bytes.Equal(before, after) {
			rt.Fatalf("the dry run changed the archive: %v", err)
		}
		code, done := run(args...)
		if dryCode != code {
			rt.Fatalf("the dry run ends with %d, the command with %d", dryCode, code)
		}
		if code != 0 && code != 3 {
			return // it tells of what it did not do
		}
		if len(dry) != len(done) {
			rt.Fatalf("the dry run has %d lines, the command %d", len(dry), len(done))
		}
		imperative := map[any]string{"added": "add", "replaced": "replace", "removed": "remove"}
		for i, d := range dry[:len(dry)-1] {
			got, want := d["action"], done[i]["action"]
			if word, ok := imperative[want]; ok {
				want = word
			}
			fi, err := os.Lstat(filepath.Join(dir, "s", filepath.FromSlash(d["path"].(string))))
			unread := got == "replace" && want == "unchanged" && err == nil && fi.Mode().IsRegular()
			if d["path"] != done[i]["path"] || got != want && !unread {
				rt.Fatalf("%v, but %v", d, done[i])
			}
		}
		sums := [2]map[string]any{dry[len(dry)-1]["summary"].(map[string]any), done[len(done)-1]["summary"].(map[string]any)}
		for _, key := range []string{"entries", "skipped", "removed"} {
			if sums[0][key] != sums[1][key] {
				rt.Fatalf("%s: %v, but %v", key, sums[0][key], sums[1][key])
			}
		}
	})
}
