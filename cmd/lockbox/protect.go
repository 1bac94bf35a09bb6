package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// encrypts reports whether the options make an encrypted archive.
func (c *creation) encrypts() bool { return c.encrypt || len(c.recipients) > 0 }

// openNew begins a new archive with the protection that was asked for.
func (a *app) openNew(ctx context.Context, archive string, so store.Options, c *creation, reproducible bool) (*store.Archive, error) {
	switch flag := a.keyFlag(); {
	case c.encrypts() && reproducible:
		return nil, usagef("an encrypted archive cannot be reproducible: its keys are random")
	case !c.encrypts() && flag != "":
		return nil, &failure{
			code: exitUsage, err: fmt.Errorf("%s is new and would not be encrypted: there is nothing that %s could unlock", quoted(archive), flag),
			hint: "--encrypt locks a new archive with a passphrase, --recipient KEY for a public key",
		}
	}
	if err := a.pinned(ctx, archive); err != nil {
		return nil, err
	}
	o := c.options(reproducible)
	var err error
	if o.Slots, err = a.newSlots(ctx, archive, c); err != nil {
		return nil, err
	}
	return a.openCreate(ctx, archive, so, o)
}

// pinned refuses to make an archive that the same command line would not open.
func (a *app) pinned(ctx context.Context, archive string) error {
	if len(a.keys.pins) == 0 {
		return nil
	}
	s, err := a.signer(ctx)
	switch {
	case err != nil:
		return err
	case s == nil:
		return usagef("%s is new and would not be signed, and --signer asks for a signature: --sign-key FILE makes one", quoted(archive))
	case !slices.Contains(a.keys.pins, s.Public()):
		return usagef("%s is new and would be signed by %s, which is no key of --signer", quoted(archive), s.Public().Fingerprint())
	}
	return nil
}

// newSlots returns the key slots of a new archive: those of --recipient and, with --encrypt, one for a passphrase.
func (a *app) newSlots(ctx context.Context, archive string, c *creation) ([]seal.NewSlot, error) {
	slots, err := a.recipientSlots(ctx, c.recipients)
	if err != nil || !c.encrypt {
		return slots, err
	}
	p, err := a.givenPassphrase(ctx)
	if p = bytes.Clone(p); p == nil && err == nil {
		p, err = a.askNewPassphrase(ctx, quoted(archive))
	}
	defer clear(p)
	if errors.Is(err, errNoTerminal) {
		return nil, &failure{code: exitAuth, err: fmt.Errorf("cannot encrypt %s: no passphrase was given, and %w", quoted(archive), err), hint: passphraseHint}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt %s: %w", quoted(archive), err)
	}
	s, err := passphraseSlot(p)
	return append(slots, s), err
}

// agree refuses options that an existing archive does not have.
func (a *app) agree(ctx context.Context, archive string, c *creation, in store.Info) error {
	slotOf := func(label string) bool {
		return slices.ContainsFunc(in.Slots, func(s seal.Slot) bool { return sameKey(s.Label, label) })
	}
	if c.encrypts() && !in.Suite.Encrypted() {
		return &failure{
			code: exitUsage, err: fmt.Errorf("%s is not encrypted, and cannot be made so", quoted(archive)),
			hint: "an archive is encrypted from the beginning or never: add to a new one",
		}
	}
	if c.encrypt && !slices.ContainsFunc(in.Slots, opensWithPassphrase) {
		return &failure{
			code: exitUsage, err: fmt.Errorf("%s has no key slot for a passphrase, as --encrypt asks for", quoted(archive)),
			hint: "lockbox key add " + quoted(archive) + " --new-passphrase makes one",
		}
	}
	slots, err := a.recipientSlots(ctx, c.recipients)
	if err != nil {
		return err
	}
	for _, s := range slots {
		if !slotOf(s.Label) {
			return &failure{
				code: exitUsage, err: fmt.Errorf("%s has no key slot for %s", quoted(archive), quoted(s.Label)),
				hint: "lockbox key add " + quoted(archive) + " --recipient makes one",
			}
		}
	}
	return c.agree(archive, in)
}
