// Package sourcetest is what the tests of the readers of other formats share: an archive in memory, a passphrase,
// contents read to their end, and archives held against what other programs say of them. Nothing but tests imports it.
package sourcetest

import (
	"bytes"
	"errors"
	"io"

	"lockbox/internal/migrate/source"
)

// Input is an archive that stands in memory.
func Input(b []byte) source.Input {
	return source.Input{ReaderAt: bytes.NewReader(b), Size: int64(len(b))}
}

// Pass opens what is encrypted with a passphrase.
func Pass(p string) source.Options {
	return source.Options{Passphrase: func() ([]byte, error) { return []byte(p), nil }}
}

// Content reads what an entry holds to its end, and closes it.
func Content(e *source.Entry) (string, error) {
	r, err := e.Open()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}
