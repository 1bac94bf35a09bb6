package main

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"lockbox/internal/seal"
)

type countedIdentity struct {
	seal.Identity
	n *atomic.Int64
}

func (c countedIdentity) Unwrap(s []*age.Stanza) ([]byte, error) {
	c.n.Add(1)
	return c.Identity.Unwrap(s)
}

// A command that opens an archive more than once pays for a passphrase once, right or wrong.
func TestPassphraseIsUsedOnce(t *testing.T) {
	dir := t.TempDir()
	var n atomic.Int64
	passphraseIdentity = func(p []byte) (seal.Identity, error) {
		id, err := seal.PassphraseIdentity(p)
		return countedIdentity{id, &n}, err
	}
	defer func() { passphraseIdentity = seal.PassphraseIdentity }()
	a, f, right, wrong := filepath.Join(dir, "a"), filepath.Join(dir, "f"), filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	write(t, f, []byte("f"))
	write(t, right, []byte("right\n"))
	write(t, wrong, []byte("wrong\n"))
	for _, c := range []struct {
		code int
		used int64
		args []string
	}{
		{0, 0, []string{"add", a, f, "--encrypt", "--passphrase-file", right}},
		{0, 1, []string{"verify", a, "--passphrase-file", right}},
		{0, 1, []string{"recover", a, "--dry-run", "--passphrase-file", right}},
		{11, 1, []string{"recover", a, "--dry-run", "--passphrase-file", wrong}},
		{11, 1, []string{"verify", a, "--passphrase-file", wrong}},
	} {
		n.Store(0)
		if code, _, errs := inProcess(t.Context(), c.args...); code != c.code || n.Load() != c.used {
			t.Errorf("%q: exit %d, the passphrase was used %d times: %s", c.args, code, n.Load(), errs)
		}
	}
}
