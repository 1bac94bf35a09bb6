package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

// commands returns the root command and all others.
func commands() []*cobra.Command {
	root := newRoot(newApp(system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}), nil)
	return allCommands(root)
}

// Every flag but those that say so takes one value only, also one that somebody adds later.
func TestFlagsAreGuarded(t *testing.T) {
	seen := 0
	for _, cmd := range commands() {
		check := func(f *pflag.Flag) {
			seen++
			switch v := f.Value.(type) {
			case *several, interface{ repeatable() }:
				if !strings.Contains(f.Usage, "repeatable") {
					t.Errorf("%s --%s may be repeated, and does not say so", cmd.Name(), f.Name)
				}
			case *single:
				if strings.Contains(f.Usage, "repeatable") {
					t.Errorf("%s --%s says that it may be repeated", cmd.Name(), f.Name)
				}
				if v.word == "bool" {
					return
				}
				good := f.DefValue
				if good == "" || v.Value.Set(good) != nil {
					return // nothing is known that it takes
				}
				var repeated *repeatedError
				if err := f.Value.Set(good); err != nil {
					t.Errorf("%s --%s %s: %v", cmd.Name(), f.Name, good, err)
				} else if err := f.Value.Set(good); !errors.As(err, &repeated) || repeated.name != "--"+f.Name {
					t.Errorf("%s --%s twice: %v", cmd.Name(), f.Name, err)
				}
			default:
				t.Errorf("%s --%s has no guard", cmd.Name(), f.Name)
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(check)
		if !cmd.HasParent() {
			cmd.PersistentFlags().VisitAll(check)
		}
	}
	if seen < 40 {
		t.Errorf("%d flags were looked at", seen)
	}
}

func TestSwitches(t *testing.T) {
	for _, c := range []struct {
		args string
		want bool
		good bool
	}{
		{"-x", true, true}, {"-x -x", true, true}, {"-x=false", false, true}, {"-x=false -x=false", false, true},
		{"-x -x=false", false, false}, {"-x=maybe", false, false}, {"-x=", false, false},
	} {
		var x bool
		f := pflag.NewFlagSet("t", pflag.ContinueOnError)
		f.BoolVarP(&x, "xx", "x", false, "x")
		f.VisitAll(guardFlag)
		err := f.Parse(strings.Fields(c.args))
		if (err == nil) != c.good || c.good && x != c.want {
			t.Errorf("%s: %v, %v", c.args, x, err)
		}
		if err != nil && strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

// What the help shows fits a terminal of 80 columns, examples excepted, and names no type of Go.
func TestHelpLines(t *testing.T) {
	for _, cmd := range commands() {
		var out bytes.Buffer
		cmd.Root().SetOut(&out)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		example := false
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasSuffix(line, ":") {
				example = line == "Examples:"
			}
			if n := utf8.RuneCountInString(line); n > helpWidth && !example {
				t.Errorf("help %s: %d columns: %s", cmd.Name(), n, line)
			}
			for _, word := range []string{" string ", "stringArray", " int ", " uint ", " TEXT "} {
				if strings.HasPrefix(line, "  ") && strings.Contains(line, word) {
					t.Errorf("help %s: %q in %s", cmd.Name(), word, line)
				}
			}
		}
	}
	for _, topic := range topics {
		for line := range strings.Lines(fill(topic.text)) {
			if utf8.RuneCountInString(line) > helpWidth+1 {
				t.Errorf("help %s: %s", topic.name, line)
			}
		}
	}
}

func TestFill(t *testing.T) {
	long := strings.Repeat("word ", 17)
	for in, want := range map[string]string{
		"":                             "",
		"a\nb\n":                       "a b\n",
		"a\n\nb\nc":                    "a\n\nb c",
		"a\n  kept\nas is\n\nb\nc":     "a\n  kept\nas is\n\nb c",
		"1    one\n12   two\n\nb\nc\n": "1    one\n12   two\n\nb c\n",
		long:                           strings.Repeat("word ", 15) + "word\nword",
	} {
		if got := fill(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.StringMatching(`[a-zé".,]{1,90}`)).Draw(t, "words"), "\n")
		got := fill(in)
		if strings.Join(strings.Fields(got), "\n") != in {
			t.Fatalf("%q became %q", in, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > helpWidth && strings.Contains(line, " ") {
				t.Fatalf("too long: %q", line)
			}
		}
	})
}

func TestThroughLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return dir + "/" + name }
	if err := os.MkdirAll(at("d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, at("file"), nil)
	for name, target := range map[string]string{
		"one": "new", "two": "one", "up": "d/../new", "abs": at("abs-target"), "dir": "d/e", "loop": "loop", "there": "file",
	} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Skip(err)
		}
	}
	for name, want := range map[string]string{
		"file": "file", "none": "none", "one": "new", "two": "new", "up": "d/../new", "abs": "abs-target", "there": "file",
		// What ".." is above depends on the link before it.
		"dir/../x": "dir/../x",
	} {
		got, err := throughLinks(at(name))
		if err != nil || got != filepath.ToSlash(at(want)) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := throughLinks(at("loop")); err == nil {
		t.Errorf("a loop led to %s", got)
	}
}
