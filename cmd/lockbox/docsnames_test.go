package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A page of the program's help: that of a command, or a topic's.
type helpPage struct {
	text     string
	examples []string // the lines to type
}

// helpPages are the pages by what is typed behind lockbox to come to them, a topic's with help before it.
func helpPages() map[string]helpPage {
	pages := map[string]helpPage{}
	for _, cmd := range commands() {
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "lockbox"), " ")
		p := helpPage{text: cmd.Short + "\n" + cmd.Long + "\n" + cmd.LocalFlags().FlagUsages()}
		for line := range strings.Lines(cmd.Example) {
			p.examples = append(p.examples, strings.TrimSpace(line))
		}
		pages[name] = p
	}
	for _, t := range topics {
		p := helpPage{text: t.text}
		for line := range strings.Lines(t.text) {
			if strings.HasPrefix(line, "  lockbox ") {
				p.examples = append(p.examples, strings.TrimSpace(line))
			}
		}
		pages["help "+t.name] = p
	}
	return pages
}

// Every example in the help stands in the page that has examples run.
func TestHelpExamplesAreRun(t *testing.T) {
	seen := map[string]int{"": 0}
	for _, b := range blocksOf(t, examplesPage) {
		if b.lang == "examples" {
			seen[strings.TrimPrefix(strings.TrimSpace(b.text), "lockbox")]++
		}
	}
	pages := helpPages()
	for name, p := range pages {
		if len(p.examples) > 0 && seen[name] != 1 {
			t.Errorf("%s has the examples of %q %d times", examplesPage, name, seen[name])
		}
	}
	for name := range seen {
		if _, ok := pages[name]; !ok {
			t.Errorf("%s has examples of %q, which has no help", examplesPage, name)
		}
	}
}

// nameCheck checks what a text says by name: of commands, flags, targets of make, tests and files.
type nameCheck struct {
	t       *testing.T
	where   string
	root    *cobra.Command
	flags   map[string]bool // of all commands
	targets string          // the Makefile, and what it runs
	tests   map[string]bool // the names of tests
	sources []string        // the names of Go files, without their directories
}

func newNameCheck(t *testing.T) *nameCheck {
	w := &nameCheck{t: t, root: commands()[len(commands())-1], flags: map[string]bool{}, tests: map[string]bool{}}
	for _, cmd := range commands() {
		for line := range strings.Lines(cmd.Flags().FlagUsages() + cmd.InheritedFlags().FlagUsages()) {
			for _, name := range regexp.MustCompile(`^ *(?:-., )?--([a-z0-9-]+)`).FindAllStringSubmatch(line, -1) {
				w.flags[name[1]] = true
			}
		}
	}
	for _, name := range []string{"Makefile", "scripts/crash.sh"} {
		w.targets += readDocument(t, name)
	}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".go") {
			w.sources = append(w.sources, filepath.Base(name))
		}
		if err == nil && strings.HasSuffix(name, "_test.go") {
			b, err := os.ReadFile(name)
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(b), -1) {
				w.tests[m[1]] = true
			}
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// command checks a command line: the names of command and flags. What a program before or behind a pipe does is its own.
func (w *nameCheck) command(line string) {
	for part := range strings.SplitSeq(strings.NewReplacer("$(", "|", "<(", "|", ";", "|", "&&", "|").Replace(line), "|") {
		part, _, _ = strings.Cut(part, " # ")
		args := strings.Fields(strings.NewReplacer("'", " ", `"`, " ", ")", " ").Replace(part))
		if i := slices.Index(args, "lockbox"); i >= 0 {
			w.lockbox(part, args[i+1:])
		} else if len(args) > 0 && args[0] == "make" {
			w.make(part, args[1:])
		}
	}
}

func (w *nameCheck) lockbox(line string, args []string) {
	if len(args) == 0 || regexp.MustCompile(`^[A-Z|.]+$|^20[0-9-]+$`).MatchString(args[0]) {
		return // the program, any command of it, or the context of a key
	}
	cmd, rest := findCommand(w.root, args)
	if cmd == w.root && rest[0] != "--version" {
		w.t.Errorf("%s: there is no command %s: %s", w.where, rest[0], line)
		return
	}
	if cmd.Name() == "help" && len(rest) > 0 {
		if found, left := findCommand(w.root, rest); (found == w.root || len(left) > 0) && findTopic(rest[0]) == nil && !regexp.MustCompile(`^[A-Z|\[\]]+$`).MatchString(rest[0]) {
			w.t.Errorf("%s: there is no help on %s: %s", w.where, rest[0], line)
		}
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range rest {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case strings.HasPrefix(arg, "--") && name != "":
			if cmd.Flag(name) == nil {
				w.t.Errorf("%s: lockbox %s has no flag --%s: %s", w.where, cmd.Name(), name, line)
			}
		case strings.HasPrefix(arg, "-") && name != "":
			if cmd.Flags().ShorthandLookup(name[:1]) == nil && cmd.InheritedFlags().ShorthandLookup(name[:1]) == nil {
				w.t.Errorf("%s: lockbox %s has no flag -%s: %s", w.where, cmd.Name(), name[:1], line)
			}
		}
	}
}

func (w *nameCheck) make(line string, args []string) {
	for _, arg := range args {
		pattern := `(?m)^` + arg + `:.*## `
		if name, _, ok := strings.Cut(arg, "="); ok {
			pattern = `(?m)^` + name + `\s*[:?]?=|\$\{?` + name
		}
		if !regexp.MustCompile(pattern).MatchString(w.targets) {
			w.t.Errorf("%s: make knows no %s: %s", w.where, arg, line)
		}
	}
}

// span checks what stands between two backticks.
func (w *nameCheck) span(s string) {
	switch first, _, _ := strings.Cut(s, " "); {
	case first == "go":
		if m := regexp.MustCompile(`-run '?\^?(\w+)`).FindStringSubmatch(s); m != nil {
			w.test(m[1])
		}
	case regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`).MatchString(s):
		w.test(s)
	case regexp.MustCompile(`^(cmd|contrib|internal|scripts|testdata|docs/json|docs/decisions)/[\w./*-]+$|^docs/[\w-]+\.md$`).MatchString(s):
		if found, err := filepath.Glob("../../" + strings.ReplaceAll(s, "NAME", "*")); err != nil || len(found) == 0 {
			w.t.Errorf("%s: there is no %s", w.where, s)
		}
	case regexp.MustCompile(`^[\w*]+\.go$`).MatchString(s):
		if !slices.ContainsFunc(w.sources, func(name string) bool { ok, err := filepath.Match(s, name); return ok && err == nil }) {
			w.t.Errorf("%s: there is no %s", w.where, s)
		}
	case strings.HasPrefix(s, "--"):
		w.flagsIn(s)
	default:
		w.command(s)
	}
}

func (w *nameCheck) test(name string) {
	for test := range w.tests {
		if strings.HasPrefix(test, name) {
			return
		}
	}
	w.t.Errorf("%s: there is no test %s", w.where, name)
}

var longFlag = regexp.MustCompile(`(?:^|[\s("'\x60/])--([a-z][a-z0-9-]*)`)

// flagsIn checks all that looks like a flag of some command.
func (w *nameCheck) flagsIn(text string) {
	text = strings.ReplaceAll(text, "b3sum --check", "")
	for _, m := range longFlag.FindAllStringSubmatch(text, -1) {
		if !w.flags[m[1]] {
			w.t.Errorf("%s: no command has a flag --%s", w.where, m[1])
		}
	}
}

// Documents name commands, flags, targets, tests and files that there are; also in blocks that are not run.
func TestNamesInDocuments(t *testing.T) {
	w := newNameCheck(t)
	comment := regexp.MustCompile(`(?ms)^<!--.*?-->$`)
	fence := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	link := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	for _, name := range documents(t) {
		w.where = name
		text := comment.ReplaceAllString(readDocument(t, name), "")
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			if m[1] == "sh" || m[1] == "crontab" {
				for line := range strings.Lines(m[2]) {
					w.command(strings.TrimSpace(line))
				}
			}
		}
		text = fence.ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`").FindAllStringSubmatch(text, -1) {
			w.span(strings.ReplaceAll(strings.ReplaceAll(m[1], "\n", " "), `\|`, "|"))
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			switch {
			case strings.Contains(m[1], "://"):
			case m[1] == "":
				if !slices.Contains(anchors(text), m[2]) {
					t.Errorf("%s: a link leads to #%s, which is no heading", name, m[2])
				}
			default:
				if _, err := os.Stat(filepath.Join("../..", filepath.Dir(name), m[1])); err != nil {
					t.Errorf("%s: a link leads nowhere: %v", name, err)
				}
			}
		}
	}
}

// anchors are the headings of a page as links name them.
func anchors(text string) (list []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		list = append(list, strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// The help names commands and flags that there are, and so do all messages.
func TestNamesInHelpAndMessages(t *testing.T) {
	w := newNameCheck(t)
	for name, p := range helpPages() {
		w.where = "help " + name
		w.flagsIn(p.text)
		for _, m := range regexp.MustCompile(`"(lockbox [^"]+)"`).FindAllStringSubmatch(p.text, -1) {
			w.command(strings.ReplaceAll(m[1], "\n", " "))
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.where = name
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					w.flagsIn(s)
				}
			}
			return true
		})
	}
}

// What is in contrib runs commands that there are.
func TestNamesInContrib(t *testing.T) {
	w := newNameCheck(t)
	line := regexp.MustCompile("lockbox (verify [^`\n]*)")
	seen := 0
	err := filepath.WalkDir("../../contrib", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		for _, m := range line.FindAllStringSubmatch(string(b), -1) {
			if w.where = name; strings.Contains(m[1], " --") {
				seen++
				w.command("lockbox " + m[1])
			}
		}
		return err
	})
	if err != nil || seen < 3 {
		t.Errorf("%d commands, %v", seen, err)
	}
}
