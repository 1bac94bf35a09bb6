package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// teed is standard output of which a copy is kept.
type teed struct {
	*os.File
	copy bytes.Buffer
}

func (t *teed) Write(p []byte) (int, error) {
	n, err := t.File.Write(p)
	t.copy.Write(p[:n])
	return n, err
}

// checkedMain is the program as the scripts run it: whatever it prints with --json, or into a report, must be as
// docs/json says.
func checkedMain() {
	docs := os.Getenv("DOCS")
	if docs == "" || !slices.Contains(os.Args, "--json") && !slices.Contains(os.Args, "--report") {
		main()
	}
	out := &teed{File: os.Stdout}
	a := newApp(system{stdin: os.Stdin, stdout: out, stderr: os.Stderr, getenv: withoutSecrets()})
	code := offFirstThread(func() int { return a.run(interruptible(), os.Args[1:]) })
	name := commandOf(os.Args[1:])
	var err error
	if a.g.json {
		err = validLines(docs, name, out.copy.Bytes())
	}
	if i := slices.Index(os.Args, "--report"); i > 0 && i+1 < len(os.Args) && name != "bench" && err == nil {
		if b, rerr := os.ReadFile(os.Args[i+1]); rerr == nil && json.Valid(b[:bytes.IndexByte(b, '\n')+1]) {
			err = validLines(docs, name+"-report", b)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "internal error:", err)
		code = 99
	}
	os.Exit(code)
}

// commandOf names the command of a command line, as its schema is called.
func commandOf(args []string) string {
	root := newRoot(newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}), args)
	cmd, _, err := root.Find(args)
	if err != nil {
		return ""
	}
	return schemaName(cmd.CommandPath())
}

func schemaName(path string) string {
	if path == "lockbox" {
		return "version" // with --version
	}
	return strings.ReplaceAll(strings.TrimPrefix(path, "lockbox "), " ", "-")
}

// validLines checks every whole line of a command's output.
func validLines(docs, name string, out []byte) error {
	if len(out) == 0 {
		return nil
	}
	s, err := schemaOf(docs, name)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // its reader has gone
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			return fmt.Errorf("%s is not as %s.schema.json says: %w", line, name, err)
		}
	}
	return nil
}

func schemaOf(docs, name string) (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile(filepath.Join(docs, "json", name+".schema.json"))
}

// Every command that has machine output has a schema, and every schema a command.
func TestEveryCommandHasASchema(t *testing.T) {
	want := []string{"common", "verify-report", "migrate-report"}
	for _, cmd := range allCommands(newRoot(newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}), nil)) {
		if cmd.HasParent() && !cmd.HasSubCommands() && !cmd.Hidden && !slices.Contains([]string{"cat", "completion", "dump", "help"}, cmd.Name()) {
			want = append(want, schemaName(cmd.CommandPath()))
		}
	}
	files, err := filepath.Glob("../../docs/json/*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".schema.json")
		got = append(got, name)
		if _, err := schemaOf("../../docs", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/json has %q, the commands are %q", got, want)
	}
}

// A schema that lets anything pass would say nothing: a key that it does not know is refused, and so is the lack of one
// that every line has.
func TestSchemasAreStrict(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "tree/a", []byte("alpha"))
	for _, args := range [][]string{
		{"add", "a.lbx", "tree"}, {"list", "a.lbx"}, {"info", "a.lbx"}, {"verify", "a.lbx", "--full", "--state", "s", "--report", "r"},
		{"extract", "a.lbx", "-d", "out"}, {"diff", "a.lbx", "out"}, {"copy", "a.lbx", "b.lbx"}, {"recover", "a.lbx", "-o", "c.lbx"},
		{"move", "a.lbx", "tree/a", "tree/b"}, {"remove", "a.lbx", "tree"}, {"compact", "a.lbx"}, {"version"},
	} {
		code, out, errs := inProcess(t.Context(), append(args, "--json")...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
		strict(t, docs, args[0], []byte(out))
	}
	b, err := os.ReadFile("r")
	if err != nil {
		t.Fatal(err)
	}
	strict(t, docs, "verify-report", b)
}

func strict(t *testing.T, docs, name string, out []byte) {
	t.Helper()
	if len(out) == 0 {
		t.Fatalf("%s prints nothing", name)
	}
	if err := validLines(docs, name, out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		for i, c := range line {
			if c != '{' {
				continue
			}
			more := line[:i+1] + `"no such key":1` + map[bool]string{false: ",", true: ""}[line[i+1] == '}'] + line[i+1:]
			if validLines(docs, name, []byte(more)) == nil {
				t.Errorf("%s passes", more)
			}
		}
		var top map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &top); err != nil {
			t.Fatal(err)
		}
		if name == "list" {
			continue // most keys are for some entries only
		}
		for key := range top {
			less := maps.Clone(top)
			delete(less, key)
			b, err := json.Marshal(less)
			if err != nil {
				t.Fatal(err)
			}
			if validLines(docs, name, append(b, '\n')) == nil {
				t.Errorf("%s passes without %q", b, key)
			}
		}
	}
}
