package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"filippo.io/age"

	"lockbox/internal/seal"
)

// remembering is an identity that opens a key slot once: a passphrase takes a second each time, and a hardware key a
// touch. What it remembers stays in memory and is wiped with the keyring.
type remembering struct {
	seal.Identity
	mu     sync.Mutex
	opened map[[sha256.Size]byte][]byte // by the stanzas; nil: it does not open them
}

func remember(ids []seal.Identity) []seal.Identity {
	out := make([]seal.Identity, len(ids))
	for i, id := range ids {
		out[i] = &remembering{Identity: id, opened: make(map[[sha256.Size]byte][]byte)}
	}
	return out
}

func (r *remembering) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	h := sha256.New()
	for _, s := range stanzas {
		fmt.Fprintf(h, "%q %q %q\n", s.Type, s.Args, s.Body)
	}
	of := [sha256.Size]byte(h.Sum(nil))
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, known := r.opened[of]; known && key == nil {
		return nil, age.ErrIncorrectIdentity
	} else if known {
		return bytes.Clone(key), nil
	}
	key, err := r.Identity.Unwrap(stanzas)
	switch {
	case err == nil:
		r.opened[of] = bytes.Clone(key)
	case errors.Is(err, age.ErrIncorrectIdentity):
		r.opened[of] = nil
	}
	return key, err
}

func (r *remembering) wipe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.opened {
		clear(key)
	}
}
