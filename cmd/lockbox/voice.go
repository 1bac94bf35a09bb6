package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"

	"lockbox/internal/pathsafe"
)

// voice speaks to people on standard error, in three tones: error, warning, hint. A message is one
// line, and nothing in it can steer a terminal.
type voice struct {
	mu  sync.Mutex
	w   io.Writer
	bar *progress // taken off the screen while a message is printed
	// colour says whether the tone of a message is coloured; nil: no. It is asked once there is a message.
	colour func() bool
	said   map[string]bool
}

// Error prints an error and, when it knows one, its hint.
func (v *voice) Error(err error) {
	v.line("error", words(err).Error())
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		v.Hintf("%s", f.hint)
	}
}

func (v *voice) Errorf(msg string, args ...any) { v.line("error", spoken(msg, args)) }
func (v *voice) Warnf(msg string, args ...any)  { v.line("warning", spoken(msg, args)) }

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

func (v *voice) line(tone, text string) {
	v.raw("lockbox: " + v.painted(tone) + ": " + oneLine(text) + "\n")
}

// painted is a tone as it is shown: the words stay, as colours tell nothing to some people and in a log.
func (v *voice) painted(tone string) string {
	if v.colour == nil || !v.colour() {
		return tone
	}
	switch tone {
	case "error":
		tone = "\x1b[1;31m" + tone
	case "warning":
		tone = "\x1b[1;33m" + tone
	default:
		tone = "\x1b[1;36m" + tone
	}
	return tone + "\x1b[0m"
}

// coloured reports whether w is a terminal that shows colours, and nobody has said that there are to be none.
func coloured(w io.Writer, getenv func(string) string) bool {
	switch {
	case !isTerminal(w), getenv("NO_COLOR") != "", getenv("TERM") == "dumb":
		return false
	case runtime.GOOS == "windows":
		// Older consoles print escape sequences as they are; the newer program says that it is there.
		return getenv("WT_SESSION") != ""
	}
	return getenv("TERM") != ""
}

// spoken is a message whose arguments may be errors.
func spoken(msg string, args []any) string {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = words(err)
		}
	}
	return fmt.Sprintf(msg, args...)
}

// words is an error whose message shows a line feed of a name that the system put into it as what it is: between
// errors that were joined it stands for a semicolon.
func words(err error) error {
	msg := err.Error()
	if !strings.Contains(msg, "\n") {
		return err
	}
	escape := func(name string) {
		if strings.Contains(name, "\n") {
			msg = strings.ReplaceAll(msg, name, pathsafe.Quote(name))
		}
	}
	var walk func(err error)
	walk = func(err error) {
		switch e := err.(type) {
		case *fs.PathError:
			escape(e.Path)
		case *os.LinkError:
			escape(e.Old)
			escape(e.New)
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				walk(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		}
	}
	walk(err)
	return errors.New(msg)
}

// raw prints text as it is. Nothing can be done about an error: there is nowhere left to report it.
func (v *voice) raw(text string) { v.aside(func() { _, _ = io.WriteString(v.w, text) }) }

// aside runs fn with the progress bar off the screen, and no message between.
func (v *voice) aside(fn func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bar.aside(fn)
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
