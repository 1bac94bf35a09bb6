package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"lockbox/internal/pathsafe"
)

// voice speaks to people on standard error, in three tones: error, warning, hint. A message is one
// line, and nothing in it can steer a terminal.
type voice struct {
	mu   sync.Mutex
	w    io.Writer
	bar  *progress // taken off the screen while a message is printed
	said map[string]bool
}

// Error prints an error and, when it knows one, its hint.
func (v *voice) Error(err error) {
	v.line("error", err.Error())
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		v.Hintf("%s", f.hint)
	}
}

func (v *voice) Errorf(msg string, args ...any) { v.line("error", fmt.Sprintf(msg, args...)) }
func (v *voice) Warnf(msg string, args ...any)  { v.line("warning", fmt.Sprintf(msg, args...)) }

// Hintf says what to do next. A hint that was given is not repeated.
func (v *voice) Hintf(msg string, args ...any) {
	text := fmt.Sprintf(msg, args...)
	v.mu.Lock()
	if v.said[text] {
		v.mu.Unlock()
		return
	}
	if v.said == nil {
		v.said = make(map[string]bool)
	}
	v.said[text] = true
	v.mu.Unlock()
	v.line("hint", text)
}

// Promptf says what somebody has to do now, such as to touch a key: each time.
func (v *voice) Promptf(msg string, args ...any) { v.line("hint", fmt.Sprintf(msg, args...)) }

func (v *voice) line(tone, text string) { v.raw("lockbox: " + tone + ": " + oneLine(text) + "\n") }

// raw prints text as it is. Nothing can be done about an error: there is nowhere left to report it.
func (v *voice) raw(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bar.aside(func() { _, _ = io.WriteString(v.w, text) })
}

// oneLine escapes what a message must not hold. Names in it are escaped already, those that the
// system put into its errors are not; backslashes stay, so that nothing is escaped twice.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ")
	parts := strings.Split(s, `\`)
	for i := range parts {
		parts[i] = pathsafe.Quote(parts[i])
	}
	return strings.Join(parts, `\`)
}

// quoted is a name as messages show it.
func quoted(name string) string { return `"` + pathsafe.Quote(name) + `"` }

// hasWords reports whether an error says already what was being done.
func hasWords(err error) bool {
	var f *failure
	return errors.As(err, &f) || errors.Is(err, errReaderGone)
}
