package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"lockbox/internal/seal"
)

// Where a passphrase may come from when nobody is asked.
const (
	envPassphrase     = "LOCKBOX_PASSPHRASE"
	envPassphraseFile = "LOCKBOX_PASSPHRASE_FILE"
)

// withoutSecrets takes what unlocks archives out of the process's environment, so that no program that is started from
// it, such as a plugin, is given that. What it returns looks the environment up as it was.
func withoutSecrets() func(string) string {
	taken := make(map[string]string)
	for _, name := range []string{envPassphrase, envPassphraseFile} {
		taken[name] = os.Getenv(name)
		_ = os.Unsetenv(name) // fails for malformed names alone
	}
	return func(name string) string {
		if v, ok := taken[name]; ok {
			return v
		}
		return os.Getenv(name)
	}
}

// maxPassphrase bounds what is read of a passphrase file.
const maxPassphrase = 64 << 10

var errEmptyPassphrase = errors.New("the passphrase is empty")

// passphraseHint says how to give one.
const passphraseHint = "--passphrase-file FILE names a file with the passphrase, as " + envPassphraseFile + " does; " + envPassphrase + " holds one"

// givenPassphrase returns the passphrase that a flag or the environment gives, nil when none does. It is the
// app's: the caller does not wipe it.
func (a *app) givenPassphrase(ctx context.Context) ([]byte, error) {
	k := &a.keys
	if k.passphrase != nil {
		return k.passphrase, nil
	}
	name := a.g.passphraseFile
	if name == "" {
		name = a.sys.getenv(envPassphraseFile)
	}
	var err error
	if name != "" {
		k.passphrase, err = readPassphrase(ctx, name)
	} else if p := a.sys.getenv(envPassphrase); p != "" {
		k.passphrase = []byte(p)
	}
	return k.passphrase, err
}

// readPassphrase reads the first line of a file, without its end.
func readPassphrase(ctx context.Context, name string) ([]byte, error) {
	p, err := readNamed(ctx, name, firstLine)
	if err != nil {
		return nil, unreadable("passphrase file", name, err)
	}
	return p, nil
}

// firstLine is a passphrase file's passphrase.
func firstLine(f *os.File) (_ []byte, err error) {
	buf := make([]byte, maxPassphrase)
	defer clear(buf)
	n := 0
	for err == nil && n < len(buf) && bytes.IndexByte(buf[:n], '\n') < 0 {
		var k int
		k, err = f.Read(buf[n:])
		n += k
	}
	line, _, ended := bytes.Cut(buf[:n], []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case !ended && n == len(buf):
		return nil, fmt.Errorf("its first line is longer than %d bytes", maxPassphrase)
	case len(line) == 0:
		return nil, errors.New("its first line is empty")
	}
	return bytes.Clone(line), nil
}

// ui answers what key files and plugins ask. The passphrase that was given is for key files as well as for archives; what
// a plugin wants to know it has to ask a person.
func (a *app) ui(ctx context.Context) seal.UI {
	return seal.UI{
		Passphrase: func(prompt string) ([]byte, error) {
			p, err := a.givenPassphrase(ctx)
			if p != nil || err != nil {
				return bytes.Clone(p), err
			}
			if p, err = a.askSecret(ctx, prompt); errors.Is(err, errNoTerminal) {
				return nil, &failure{code: exitAuth, err: fmt.Errorf("%s: none was given, and %w", prompt, err), hint: passphraseHint}
			}
			return p, err
		},
		Secret: func(prompt string) ([]byte, error) { return a.askSecret(ctx, prompt) },
		Value: func(prompt string) (answer string, err error) {
			err = a.atTerminal(func(t terminal) error {
				answer, err = t.line(ctx, oneLine(prompt)+": ")
				return err
			})
			return answer, err
		},
		Confirm: func(prompt, yes, no string) (bool, error) {
			if no == "" {
				no = "no"
			}
			answer := ""
			err := a.atTerminal(func(t terminal) (err error) {
				answer, err = t.line(ctx, oneLine(fmt.Sprintf("%s (1: %s, 2: %s): ", prompt, yes, no)))
				return err
			})
			return answer == "1" || answer == yes, err
		},
		Message: func(text string) { a.say.Promptf("%s", text) },
	}
}

// passphraseRecipient locks a slot with a passphrase. A variable: tests have a cheaper one.
var passphraseRecipient = seal.PassphraseRecipient

// passphraseIdentity opens such a slot. A variable: tests count its uses.
var passphraseIdentity = seal.PassphraseIdentity

// passphraseSlot is a slot that a passphrase opens.
func passphraseSlot(p []byte) (seal.NewSlot, error) {
	r, err := passphraseRecipient(p)
	return seal.NewSlot{Recipient: r}, err
}

// newPassphrase returns a passphrase that is to lock something: the first line of a file when one is named,
// else one that is typed twice. The caller wipes it.
func (a *app) newPassphrase(ctx context.Context, what, file string) ([]byte, error) {
	if file != "" {
		return readPassphrase(ctx, file)
	}
	p, err := a.askNewPassphrase(ctx, what)
	if errors.Is(err, errNoTerminal) {
		return nil, &failure{code: exitAuth, err: fmt.Errorf("no new passphrase of %s was given, and %w", what, err), hint: "--new-passphrase-file FILE names a file with it"}
	}
	return p, err
}
