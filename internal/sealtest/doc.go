// Package sealtest has the key slot that tests lock archives with: it costs nothing to open, so that they can be
// opened thousands of times. It keeps no secret, and nothing but tests imports it.
package sealtest

import (
	"context"

	"filippo.io/age"

	"lockbox/internal/seal"
)

// ClearKey is recipient and identity at once; the file key stands in its slot as it is.
type ClearKey struct{}

// Wrap implements age.Recipient.
func (ClearKey) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: "test", Body: fileKey}}, nil
}

// Unwrap implements age.Identity.
func (ClearKey) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if stanzas[0].Type != "test" {
		return nil, age.ErrIncorrectIdentity
	}
	return stanzas[0].Body, nil
}

// Unlock implements seal.Unlock with a ClearKey.
func Unlock(context.Context, []seal.Slot) ([]seal.Identity, error) {
	return []seal.Identity{ClearKey{}}, nil
}
