package lockbox_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What README.md shows of a Go program compiles.
func TestReadmeProgram(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```go\n")
	code, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("README.md shows no Go program")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program.go")
	code = "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"os\"\n\n\"lockbox\"\n)\n\nfunc main() {\nctx := context.Background()\n" + code + "\nfmt.Println(text, sum, err)\n}\n"
	if err := os.WriteFile(program, []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// The compiler sees it in a directory of this module, where nothing is.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "readme-program", "main.go"): program}})
	if err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(plan, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", plan, "-o", filepath.Join(dir, "program"), "./readme-program").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
