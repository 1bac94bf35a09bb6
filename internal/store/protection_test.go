package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
)

// Keys that only tests have.
const (
	testIdentity  = "AGE-SECRET-KEY-1NNCPUJWKXCKDHYGU2ERKD6RGKQV3J9Q4ES24HNXA6QP48YWJ48YSHLLWF9"
	testRecipient = "age123eeurkma85rvl8mrgxavvkzncwap6d42sus23n2k7ml0plyx5yqqux9qh"
	otherIdentity = "AGE-SECRET-KEY-1VAFLYQTFGK3C99HCNRDGDV2ND5EJD35WRDT73ZG7LYYE7RRN876SSE7DHX"
)

var (
	testSigner  = seal.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("s"), 32)))
	otherSigner = seal.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("o"), 32)))
)

func unlockWith(identity string) seal.Unlock {
	return func(context.Context, []seal.Slot) ([]seal.Identity, error) {
		return seal.ParseIdentities([]byte(identity), seal.UI{})
	}
}

// slotFor is a slot that testIdentity opens, when recipient is testRecipient.
func slotFor(recipient string) seal.NewSlot {
	r, err := seal.ParseRecipient(recipient, seal.UI{})
	if err != nil {
		panic(err)
	}
	return seal.NewSlot{Recipient: r, Label: recipient}
}

// Protect completes options for archives of a suite.
func Protect(o *Options, c *CreateOptions, s format.Suite) {
	if s.Signed() {
		o.SignKey, o.Signers = testSigner, []seal.PublicKey{testSigner.Public()}
	}
	if s.Encrypted() {
		o.Unlock = sealtest.Unlock
		if c != nil {
			c.Slots = []seal.NewSlot{{Recipient: sealtest.ClearKey{}, Label: "test"}}
		}
	}
}

// Observe has every key and nonce that something is sealed with reported.
func Observe(o *Options, f func(key [seal.KeySize]byte, n seal.Nonce)) { o.observe = f }

var suites = []format.Suite{format.SuiteNone, format.SuiteSigned, format.SuiteEncrypted, format.SuiteBoth}

// combo is one of the sixteen kinds of archives.
type combo struct {
	suite   format.Suite
	level   frames.Level
	padding format.Padding
}

func (c combo) String() string {
	return fmt.Sprintf("%v, level %d, padding %v", c.suite, c.level, c.padding)
}

// sixteen are all combinations of suite, compression or not, padding or not.
func sixteen() (all []combo) {
	for i := range 16 {
		c := combo{suite: suites[i%4]}
		if i/4%2 == 1 {
			c.level = frames.LevelFast + frames.Level(i%4)
		}
		if i/8 == 1 {
			c.padding = format.PadPadme + format.Padding(i%2)
		}
		all = append(all, c)
	}
	return all
}
