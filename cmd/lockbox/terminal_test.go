package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// actor is a terminal whose person gives prepared answers.
type actor struct {
	answers []string
	asked   []string
}

func (p *actor) close() {}

func (p *actor) line(_ context.Context, prompt string) (string, error) {
	p.asked = append(p.asked, prompt)
	if len(p.answers) == 0 {
		return "", fmt.Errorf("nobody answers %q", prompt)
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return answer, nil
}

func (p *actor) secret(ctx context.Context, prompt string) ([]byte, error) {
	s, err := p.line(ctx, prompt)
	return []byte(s), err
}

// withActor runs a command line in this process, with a person at the terminal.
func withActor(t *testing.T, p *actor, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	before := openTerminal
	defer func() { openTerminal = before }()
	openTerminal = func() (terminal, error) { return p, nil }
	return inProcess(t.Context(), args...)
}

// inProcess runs a command line in this process, with nothing on standard input and an empty environment.
func inProcess(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = newApp(system{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}).run(ctx, args)
	return code, out.String(), errs.String()
}

func TestPrompts(t *testing.T) {
	dir := t.TempDir()
	a, b, r, old := filepath.Join(dir, "a.lbx"), filepath.Join(dir, "b.lbx"), filepath.Join(dir, "r.lbx"), filepath.Join(dir, "old.lbx")
	keys := func(name string) string { return "testdata/keys/" + name }
	write(t, filepath.Join(dir, "f"), []byte("content"))
	create := func(name string) []string { return []string{"create", name, "--encrypt"} }
	for _, c := range []struct {
		args    []string
		answers string // what is typed, separated by |
		asked   string // what is asked for, in short
		code    int
		stderr  string
	}{
		// A slip, or nothing: no archive is locked with that.
		{create(a), "one|two", "New passphrase of|once more", 1, "the two passphrases differ"},
		{create(a), "|", "New passphrase of", 1, "the passphrase is empty"},
		{[]string{"info", a}, "", "", 12, ""},
		{create(a), "one|one", "New passphrase of|once more", 0, ""},
		{create(b), "two|two", "New passphrase of|once more", 0, ""},
		{[]string{"add", old, "-C", dir, "f", "--encrypt"}, "old|old", "New passphrase of|once more", 0, ""},
		// An archive is asked for once, also when it is opened several times; each for itself.
		{[]string{"list", a}, "one", "Passphrase of", 0, ""},
		{[]string{"verify", "--full", a, b}, "one|two", "a.lbx|b.lbx", 0, ""},
		{[]string{"compact", a}, "one", "Passphrase of", 0, ""},
		{[]string{"list", a}, "two", "Passphrase of", 11, "no key slot"},
		{[]string{"list", a}, "|", "Passphrase of", 11, "the passphrase is empty"},
		{[]string{"info", a}, "one", "Passphrase of", 0, ""},
		{[]string{"add", a, "-C", dir, "f", "--encrypt"}, "one", "Passphrase of", 0, ""},
		// Where no passphrase opens it, nobody is asked for one.
		{[]string{"create", r, "--recipient", keys("age.pub")}, "", "", 0, ""},
		{[]string{"info", r}, "", "", 0, ""},
		{[]string{"key", "list", r}, "", "", 0, ""},
		{[]string{"list", r}, "", "", 11, "no key was given"},
		// With a key nobody is asked, for a key that is locked its passphrase is.
		{[]string{"key", "add", a, "--recipient", keys("age.pub"), "--recipient", keys("locked.pub")}, "one", "Passphrase of", 0, ""},
		{[]string{"list", a, "-i", keys("age.key")}, "", "", 0, ""},
		{[]string{"list", a, "-i", keys("locked")}, "sesame", "Passphrase of the SSH key SHA256:", 0, ""},
		{[]string{"key", "add", a, "--new-passphrase", "-i", keys("age.key")}, "three|three", "New passphrase of|once more", 0, ""},
		{[]string{"list", a}, "three", "Passphrase of", 0, ""},
		{[]string{"key", "remove", a, "4", "-i", keys("age.key")}, "", "", 0, "may have kept the content key"},
		{[]string{"key", "rotate", a, "-i", keys("age.key")}, "one", "Passphrase of", 0, ""},
		{[]string{"key", "rotate", a, "-i", keys("age.key")}, "two", "Passphrase of", 11, "no key slot"},
		{[]string{"list", a}, "one", "Passphrase of", 0, ""},
		{[]string{"add", filepath.Join(dir, "s.lbx"), "-C", dir, "f", "--sign-key", keys("locked")}, "sesame", "Passphrase of the signing key", 0, ""},
		{[]string{"recover", old, "-o", filepath.Join(dir, "n.lbx"), "--encrypt"}, "new|new|old", "n.lbx|once more|old.lbx", 0, ""},
		{[]string{"list", filepath.Join(dir, "n.lbx")}, "new", "Passphrase of", 0, ""},
	} {
		p := &actor{}
		if c.answers != "" {
			p.answers = strings.Split(c.answers, "|")
		}
		code, _, stderr := withActor(t, p, c.args...)
		if code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
		var asked []string
		if c.asked != "" {
			asked = strings.Split(c.asked, "|")
		}
		if len(p.asked) != len(asked) {
			t.Errorf("%v: asked %q, want %q", c.args, p.asked, asked)
			continue
		}
		for i := range asked {
			if !strings.Contains(p.asked[i], asked[i]) {
				t.Errorf("%v: asked %q, want %q", c.args, p.asked[i], asked[i])
			}
		}
	}
}

// What a plugin asks at the terminal.
func TestPluginQuestions(t *testing.T) {
	before := openTerminal
	defer func() { openTerminal = before }()
	p := &actor{answers: []string{"42", "1", "2", "touch"}}
	openTerminal = func() (terminal, error) { return p, nil }
	var errs bytes.Buffer
	a := newApp(system{stdout: new(bytes.Buffer), stderr: &errs, getenv: func(string) string { return "" }})
	ui := a.ui(t.Context())
	if s, err := ui.Value("PIN"); s != "42" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	for _, want := range []bool{true, false, true} {
		if got, err := ui.Confirm("now?", "touch", ""); got != want || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if ui.Message("waiting\x1b[2J"); !strings.Contains(errs.String(), `hint: waiting\x1b`) {
		t.Errorf("%q", errs.String())
	}
	if _, err := ui.Value("PIN"); err == nil {
		t.Error("an answer that nobody gave")
	}
}
