package seal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"filippo.io/age"
)

// Remembering is an identity that opens a key slot once: a passphrase takes a second each time, and a hardware key a
// touch. What it remembers stays in memory and is overwritten by Wipe.
type Remembering struct {
	id     Identity
	mu     sync.Mutex
	opened map[[sha256.Size]byte][]byte // by the stanzas; nil: it does not open them
}

// Remember returns an identity that remembers what id opened and what it did not.
func Remember(id Identity) *Remembering {
	return &Remembering{id: id, opened: make(map[[sha256.Size]byte][]byte)}
}

// Unwrap is as that of the identity.
func (r *Remembering) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
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
	key, err := r.id.Unwrap(stanzas)
	switch {
	case err == nil:
		r.opened[of] = bytes.Clone(key)
	case errors.Is(err, age.ErrIncorrectIdentity):
		r.opened[of] = nil
	}
	return key, err
}

// Wipe overwrites what is remembered. The identity is of no use then.
func (r *Remembering) Wipe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.opened {
		clear(key)
	}
}
