package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// errNoTerminal says that there is nobody to ask.
var errNoTerminal = errors.New("there is no terminal to ask at")

// terminal is where a person is asked.
type terminal interface {
	// secret asks for something that is not shown while it is typed. The caller wipes the answer.
	secret(ctx context.Context, prompt string) ([]byte, error)
	// line asks for something that may be seen.
	line(ctx context.Context, prompt string) (string, error)
	close()
}

// openTerminal finds the terminal that the process belongs to, whatever its standard input is: that may
// be a file that is being stored.
var openTerminal = func() (terminal, error) {
	in, out := "/dev/tty", "/dev/tty"
	if runtime.GOOS == "windows" {
		in, out = "CONIN$", "CONOUT$"
	}
	r, err := os.OpenFile(in, os.O_RDWR, 0)
	if err != nil {
		return nil, errNoTerminal
	}
	w := r
	if out != in {
		if w, err = os.OpenFile(out, os.O_RDWR, 0); err != nil {
			_ = r.Close()
			return nil, errNoTerminal
		}
	}
	if !term.IsTerminal(int(r.Fd())) {
		_ = r.Close()
		return nil, errNoTerminal
	}
	return &console{r, w}, nil
}

// console is the terminal of the process.
type console struct{ in, out *os.File }

func (c *console) close() {
	_ = c.in.Close()
	if c.out != c.in {
		_ = c.out.Close()
	}
}

func (c *console) secret(ctx context.Context, prompt string) ([]byte, error) {
	fd := int(c.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	answer, err := c.ask(ctx, prompt, func() ([]byte, error) { return term.ReadPassword(fd) })
	if ctx.Err() != nil {
		// The read goes on until the process ends; the terminal must show again what is typed.
		_ = term.Restore(fd, before)
	}
	_, _ = fmt.Fprintln(c.out) // the one that was typed was not shown
	return answer, err
}

func (c *console) line(ctx context.Context, prompt string) (string, error) {
	answer, err := c.ask(ctx, prompt, func() ([]byte, error) { return bufio.NewReader(c.in).ReadBytes('\n') })
	return strings.TrimRight(string(answer), "\r\n"), err
}

// ask prints a prompt and waits for read, or for the end of ctx: a signal does not end a read.
func (c *console) ask(ctx context.Context, prompt string, read func() ([]byte, error)) ([]byte, error) {
	if _, err := io.WriteString(c.out, prompt); err != nil {
		return nil, err
	}
	type reading struct {
		answer []byte
		err    error
	}
	done := make(chan reading, 1)
	go func() {
		answer, err := read()
		done <- reading{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// atTerminal has fn ask a person, with the progress bar and messages out of the way.
func (a *app) atTerminal(fn func(terminal) error) error {
	awaitSignals()
	t, err := openTerminal()
	if err != nil {
		return err
	}
	defer t.close()
	a.say.mu.Lock()
	defer a.say.mu.Unlock()
	a.say.bar.aside(func() { err = fn(t) })
	return err
}

// askSecret asks for something secret.
func (a *app) askSecret(ctx context.Context, prompt string) (answer []byte, err error) {
	err = a.atTerminal(func(t terminal) error {
		answer, err = t.secret(ctx, oneLine(prompt)+": ")
		if errors.Is(err, io.EOF) {
			err = errors.New("nothing was typed")
		}
		return err
	})
	return answer, err
}

// askNewPassphrase asks for a passphrase that is to lock something, twice: a slip would lock it for good.
func (a *app) askNewPassphrase(ctx context.Context, what string) ([]byte, error) {
	first, err := a.askSecret(ctx, "New passphrase of "+what)
	if err != nil {
		return nil, err
	}
	if len(first) == 0 {
		return nil, errEmptyPassphrase
	}
	second, err := a.askSecret(ctx, "The same once more")
	defer clear(second)
	switch {
	case err != nil:
		clear(first)
		return nil, err
	case string(first) != string(second):
		clear(first)
		return nil, errors.New("the two passphrases differ; nothing was changed")
	}
	return first, nil
}
