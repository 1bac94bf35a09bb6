// Package lockbox_test holds the documents at the top of the repository against the code.
package lockbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const everything = "everything"

// mdTable returns the rows, without the header, of a file's first table whose first column is called first.
func mdTable(t *testing.T, file, first string) [][]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	in := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if in {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !in:
			in = cells[0] == first
		case !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table whose first column is %q", file, first)
	}
	return rows
}

type goPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

// goList returns the module's packages as they are built for a system.
func goList(t *testing.T, goos string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,GoFiles", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=arm64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			ps = append(ps, p)
		}
	}
}

// pure packages must not be able to do I/O, read a clock or draw randomness, so they may not name these.
var impure = []string{"os", "net", "time", "syscall", "crypto/rand", "math/rand", "math/rand/v2", "io/ioutil", "os/exec", "os/signal", "unsafe"}

func TestImportTable(t *testing.T) {
	const module = "lockbox/"
	may := map[string][]string{}
	for _, row := range mdTable(t, "ARCHITECTURE.md", "package") {
		name := strings.Trim(row[0], "`")
		may[name] = nil
		for n := range strings.SplitSeq(row[2], ",") {
			if n = strings.TrimSpace(n); n != "–" {
				may[name] = append(may[name], n)
			}
		}
	}
	thirdParty := map[string][]string{}
	for _, row := range mdTable(t, "ARCHITECTURE.md", "module") {
		for n := range strings.SplitSeq(row[1], ",") {
			thirdParty[strings.Trim(row[0], "`")] = append(thirdParty[strings.Trim(row[0], "`")], strings.TrimSpace(n))
		}
	}

	seen := map[string]bool{}
	used := map[string]bool{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, p := range goList(t, goos) {
			name := strings.TrimPrefix(p.ImportPath+"/", module)
			if name = strings.TrimSuffix(name, "/"); name == "" {
				name = "."
			}
			allowed, ok := may[name]
			if !ok {
				t.Errorf("package %s has no row in ARCHITECTURE.md", name)
				continue
			}
			seen[name] = true
			if !slices.Contains(p.GoFiles, "doc.go") {
				t.Errorf("GOOS=%s: package %s has no doc.go", goos, name)
			}
			for _, imp := range p.Imports {
				if err := checkImport(name, imp, module, allowed, thirdParty, used); err != "" {
					t.Errorf("GOOS=%s: %s imports %s: %s", goos, name, imp, err)
				}
			}
		}
	}
	for name := range may {
		if !seen[name] {
			t.Errorf("ARCHITECTURE.md has a row for %s, which is no package", name)
		}
	}
	for m, by := range thirdParty {
		for _, b := range by {
			if !used[m+" "+b] {
				t.Errorf("ARCHITECTURE.md says that %s imports %s; it does not", b, m)
			}
		}
	}
}

// checkImport returns what is wrong with an import, or "", and notes which module was used by whom.
func checkImport(name, imp, module string, allowed []string, thirdParty map[string][]string, used map[string]bool) string {
	base := path.Base(name)
	switch {
	case imp == "C":
		return "cgo"
	case strings.HasPrefix(imp+"/", module):
		if !slices.Contains(allowed, everything) && !slices.Contains(allowed, path.Base(imp)) {
			return "not in its row"
		}
	case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		for m, by := range thirdParty {
			if imp == m || strings.HasPrefix(imp, m+"/") {
				if !slices.Contains(by, base) {
					return "the module's row does not name it"
				}
				used[m+" "+base] = true
				return ""
			}
		}
		return "a module without a row"
	case slices.Contains([]string{"format", "frames", "index"}, base) && slices.Contains(impure, imp):
		return "the package is pure"
	}
	return ""
}

// TestCheckImport shows that what the table forbids is found.
func TestCheckImport(t *testing.T) {
	third := map[string][]string{"example.org/m": {"frames"}}
	for _, c := range []struct {
		name, imp string
		allowed   []string
		ok        bool
	}{
		{"internal/seal", "lockbox/internal/format", []string{"format"}, true},
		{"internal/seal", "lockbox/internal/store", []string{"format"}, false},
		{"internal/seal", "lockbox", []string{"format"}, false},
		{"cmd/lockbox", "lockbox/internal/store", []string{everything}, true},
		{"internal/frames", "example.org/m/sub", nil, true},
		{"internal/frames", "example.org/more", nil, false},
		{"internal/seal", "example.org/m", nil, false},
		{"internal/index", "os", nil, false},
		{"internal/vfs", "os", nil, true},
		{"internal/vfs", "C", nil, false},
	} {
		if got := checkImport(c.name, c.imp, "lockbox/", c.allowed, third, map[string]bool{}); (got == "") != c.ok {
			t.Errorf("%s importing %s: %q", c.name, c.imp, got)
		}
	}
}

// TestCitedSteps finds every step that the code cites by its number in the page that defines it.
func TestCitedSteps(t *testing.T) {
	doc, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	cited := regexp.MustCompile(`\b[CR][0-9]{1,2}\b`)
	found := 0
	for _, dir := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") {
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				_, comment, ok := strings.Cut(line, "//")
				if !ok {
					continue
				}
				for _, step := range cited.FindAllString(comment, -1) {
					found++
					if !bytes.Contains(doc, []byte("**"+step+"**")) {
						t.Errorf("%s cites %s, which ARCHITECTURE.md does not define: %s", name, step, strings.TrimSpace(comment))
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no comment cites a step")
	}
}
