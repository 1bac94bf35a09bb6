package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docBlock is a part of a document: commands, or preparations that a reader does not see. A comment before a block
// says what else there is to know of it:
//
//	<!-- not run: WHY -->     its commands are held against the flags that there are, and that is all
//	<!-- needs: TOOL, ... --> it is run where these programs are
//	<!-- exit CODE ... -->    the exit code that it has when it is not 0; of examples one for each line, the last one for the rest
//	<!-- file: NAME -->       it is a file, which later blocks use
//
//	<!-- table -->            what follows is a table, and each command in it that names an archive is run like an example
//
// Blocks of the language sh are run, each by itself, in their order. Those of the language crontab have lines for cron, and
// each of their commands is run. Those of the language examples stand for the examples in the help of the command that they
// name, and each line is run in a copy of the directory as it is by then.
type docBlock struct {
	line  int
	lang  string // setup, sh, crontab, examples, table
	text  string
	why   string // why it is not run, "" when it is
	needs []string
	exit  []string // the exit codes that it must have; none: 0
	file  string
}

// inlineCommand is one that names an archive, in the middle of a text.
var inlineCommand = regexp.MustCompile("`[^`]*\\blockbox [^`]*\\w\\.lbx[^`]*`")

// textLanguages are those of blocks that hold no commands.
var textLanguages = []string{"text", "go", "json"}

// docBlocks takes a document apart, and says what nobody would run and nobody would notice: blocks without a language or set in by
// blanks, and comments that are none of the above or stand before something else.
func docBlocks(text string) (blocks []docBlock, problems []string) {
	var next docBlock
	var body strings.Builder
	marked := 0 // the line of a comment that waits for its block
	end := ""   // what ends the block
	n := 0
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("line %d: ", n)+fmt.Sprintf(format, args...))
	}
	blank := true
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if next.lang == "table" && !strings.HasPrefix(line, "|") {
			next.text = body.String()
			blocks = append(blocks, next)
			body.Reset()
			next, end = docBlock{}, ""
		}
		switch {
		case end != "" && line == end:
			if next.text = body.String(); !slices.Contains(textLanguages, next.lang) {
				blocks = append(blocks, next)
			} else if marked > 0 {
				bad("a comment stands before a block without commands")
			}
			body.Reset()
			next, end, marked = docBlock{}, "", 0
		case end != "":
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); slices.Contains(textLanguages, next.lang) && slices.Contains([]string{"lockbox", "make", "$", "#"}, word) {
				bad("commands in a block of the language %s", next.lang)
			}
			body.WriteString(line + "\n")
		case line == "<!-- table -->":
			end, next.lang, next.line = "the end of the table", "table", n+1
		case line == "<!-- setup":
			end, next.lang, next.line = "-->", "setup", n
		case strings.HasPrefix(line, "```"):
			end, next.lang, next.line = "```", line[3:], n
			if !slices.Contains(append([]string{"sh", "crontab", "examples"}, textLanguages...), next.lang) {
				bad("a block of the language %q", next.lang)
			}
		case strings.HasPrefix(line, "<!--"):
			word := strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
			if value, ok := strings.CutPrefix(word, "not run: "); ok {
				next.why = value
			} else if value, ok := strings.CutPrefix(word, "needs: "); ok {
				next.needs = strings.Split(value, ", ")
			} else if value, ok := strings.CutPrefix(word, "exit "); ok {
				next.exit = strings.Fields(value)
			} else if value, ok := strings.CutPrefix(word, "file: "); ok {
				next.file = value
			} else {
				bad("a comment that says nothing about a block: %s", line)
			}
			marked = n
		case line == "":
		case inlineCommand.MatchString(line):
			bad("a command that nobody runs: %s", line)
		case marked > 0:
			bad("the comment in line %d stands before something else than a block", marked)
			next, marked = docBlock{}, 0
		case blank && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
			bad("a block that is set in by blanks: %s", line)
		}
		blank = line == ""
	}
	if next.lang == "table" {
		bad("a table at the end of the page")
	} else if end != "" || marked > 0 {
		bad("a block that does not end, or a comment without one")
	}
	return blocks, problems
}

// documents are the pages that people read: all of the repository, and the one about the examples in the help.
func documents(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "dist" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, filepath.ToSlash(name)[len("../../"):])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(names, examplesPage)
}

const examplesPage = "cmd/lockbox/testdata/examples.md"

func readDocument(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func blocksOf(t *testing.T, name string) []docBlock {
	t.Helper()
	blocks, problems := docBlocks(readDocument(t, name))
	for _, p := range problems {
		t.Errorf("%s: %s", name, p)
	}
	return blocks
}

// The commands in documents that no test runs are those in testdata/not-run.txt, each with its reason.
func TestCommandsThatAreNotRun(t *testing.T) {
	var list strings.Builder
	for _, name := range documents(t) {
		for _, b := range blocksOf(t, name) {
			if b.why != "" {
				first, _, _ := strings.Cut(b.text, "\n")
				fmt.Fprintf(&list, "%s: %d lines, %q: %s\n", name, strings.Count(b.text, "\n"), first, b.why)
			}
		}
	}
	compare(t, "../not-run", list.String())
}

func TestDocBlocks(t *testing.T) {
	got, problems := docBlocks("text\n\n<!-- setup\nmkdir a\n-->\n\n```sh\none\n```\n\n<!-- exit 4 -->\n<!-- needs: a, b -->\n```sh\ntwo\n```\n\n```json\n{}\n```\n" +
		"<!-- not run: slow -->\n\n```sh\nthree\n```\n<!-- file: f -->\n```sh\nfour\n```\n```crontab\nfive\n```\n<!-- exit 1 2 -->\n```examples\nkey add\n```\n<!-- table -->\n| a |\n| b |\n\ntext\n")
	want := []docBlock{
		{line: 3, lang: "setup", text: "mkdir a\n"}, {line: 7, lang: "sh", text: "one\n"},
		{line: 13, lang: "sh", text: "two\n", exit: []string{"4"}, needs: []string{"a", "b"}},
		{line: 22, lang: "sh", text: "three\n", why: "slow"}, {line: 26, lang: "sh", text: "four\n", file: "f"},
		{line: 29, lang: "crontab", text: "five\n"}, {line: 33, lang: "examples", text: "key add\n", exit: []string{"1", "2"}},
		{line: 37, lang: "table", text: "| a |\n| b |\n"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(problems) > 0 {
		t.Errorf("%+v, want %+v; %q", got, want, problems)
	}
	for _, text := range []string{
		"```\nx\n```\n", "```bash\nx\n```\n", "a\n\n    lockbox list\n", "a\n\n\tx\n", "```sh\nx\n", "```text\nlockbox list\n```\n", "```text\n$ x\n```\n",
		"<!-- not run -->\n```sh\nx\n```\n", "<!-- not run: -->\n```sh\nx\n```\n", "<!-- notrun: x -->\n```sh\nx\n```\n", "<!-- exit 3 -->\nother\n\n```sh\nx\n```\n",
		"<!-- exit 3 -->\n", "<!-- exit 3 -->\n```text\nx\n```\n", "say `lockbox list a.lbx`\n", "| `lockbox list a.lbx` |\n", "<!--exit 3-->\n```sh\nx\n```\n", "<!-- table -->\n| a |\n",
	} {
		if _, problems := docBlocks(text); len(problems) != 1 {
			t.Errorf("%q: %q", text, problems)
		}
	}
}
