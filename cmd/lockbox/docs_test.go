package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// docBlock is a part of a document that is run: a block of commands, or preparations that a reader does not see.
type docBlock struct {
	line   int
	text   string
	setup  bool
	reason string // why it is not run, "" when it is
	exit   string // the exit code that it must have
}

// docBlocks finds the commands of a document: fenced blocks of the languages sh and console. A comment before a block
// says that it is not run and why (not run: ...), or which exit code it has (exit N); a comment that begins with the word
// setup is run and not seen.
func docBlocks(t *testing.T, text string) (blocks []docBlock) {
	t.Helper()
	next := docBlock{exit: "0"}
	var body strings.Builder
	inside := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch {
		case inside == "" && line == "<!-- setup":
			inside, next = "-->", docBlock{line: n, setup: true, exit: "0"}
		case inside == "" && strings.HasPrefix(line, "```"):
			inside = "```"
			if lang := line[3:]; lang != "sh" && lang != "console" {
				inside = "``` of something else"
			}
			next.line = n
		case inside == "" && strings.HasPrefix(line, "<!-- ") && strings.HasSuffix(line, " -->"):
			word := strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
			if reason, ok := strings.CutPrefix(word, "not run: "); ok {
				next.reason = reason
			} else if code, ok := strings.CutPrefix(word, "exit "); ok {
				next.exit = code
			}
		case inside == "":
			// A block that is set in by blanks would be commands that nobody runs.
			if strings.HasPrefix(line, "    lockbox ") {
				t.Errorf("line %d: a command outside of a fenced block: %s", n, line)
			}
			if line != "" {
				next = docBlock{exit: "0"}
			}
		case strings.HasPrefix(inside, line) && len(line) >= 3 && line == inside[:3]:
			if !strings.HasSuffix(inside, "else") {
				next.text = body.String()
				blocks = append(blocks, next)
			}
			body.Reset()
			inside, next = "", docBlock{exit: "0"}
		default:
			body.WriteString(line + "\n")
		}
	}
	if inside != "" {
		t.Errorf("a block that does not end")
	}
	return blocks
}

// What the documents tell people to type works, in the order in which they stand there.
func TestDocuments(t *testing.T) {
	shell, err := exec.LookPath("bash")
	pipefail := "set -o pipefail\n"
	if err != nil {
		if shell, err = exec.LookPath("sh"); err != nil {
			t.Skip("the commands in the documents need a POSIX shell")
		}
		pipefail = ""
	}
	for _, name := range []string{"README.md", "docs/guide.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			home := t.TempDir()
			keys := filepath.Join(t.TempDir(), "keys")
			if err := copyKeys(keys); err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			run := 0
			script.WriteString("set -u\n" + pipefail)
			for _, b := range docBlocks(t, string(text)) {
				switch {
				case b.reason != "":
				case b.setup:
					fmt.Fprintf(&script, "set -e\n%s\nset +e\n", b.text)
				default:
					run++
					fmt.Fprintf(&script, "echo '== line %d' >&2\n(set -e\n%s\n)\ncode=$?\n", b.line, b.text)
					fmt.Fprintf(&script, "test $code = %s || { echo \"line %d: exit $code, not %s\" >&2; exit 99; }\n", b.exit, b.line, b.exit)
				}
			}
			if run < 10 {
				t.Fatalf("%d blocks of commands were found", run)
			}
			cmd := exec.CommandContext(t.Context(), shell, "-c", script.String())
			cmd.Dir = home
			cmd.Env = append(os.Environ(), "HOME="+home, "KEYS="+keys, "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"), "TZ=UTC", "LOCKBOX_PASSPHRASE_FILE=")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
		})
	}
}

func TestDocBlocks(t *testing.T) {
	got := docBlocks(t, "text\n\n<!-- setup\nmkdir a\n-->\n\n```sh\none\n```\n\n<!-- exit 4 -->\n```console\ntwo\n```\n\n```json\n{}\n```\n<!-- not run: slow -->\n\n```sh\nthree\n```\n<!-- exit 3 -->\nother\n```sh\nfour\n```\n")
	want := []docBlock{
		{3, "mkdir a\n", true, "", "0"}, {7, "one\n", false, "", "0"}, {12, "two\n", false, "", "4"}, {21, "three\n", false, "slow", "0"}, {26, "four\n", false, "", "0"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
