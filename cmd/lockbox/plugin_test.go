package main

import (
	"errors"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

// probePlugin is an age plugin, age-plugin-probe. It stores the file key as it is, asks twice for the same touch, and
// refuses to work when its environment has what unlocks archives.
func probePlugin() {
	p, err := plugin.New("probe")
	if err != nil {
		panic(err)
	}
	p.HandleRecipient(func([]byte) (age.Recipient, error) { return probeKey{p}, nil })
	p.HandleIdentity(func([]byte) (age.Identity, error) { return probeKey{p}, nil })
	os.Exit(p.Main())
}

type probeKey struct{ p *plugin.Plugin }

func (probeKey) environment() error {
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "LOCKBOX_PASSPHRASE") {
			return errors.New("the plugin was given " + v)
		}
	}
	if os.Getenv("PROBE") != "set" {
		return errors.New("the plugin was not given the rest of the environment")
	}
	return nil
}

func (k probeKey) Wrap(key []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: "probe", Body: key}}, k.environment()
}

func (k probeKey) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if err := k.environment(); err != nil {
		return nil, err
	}
	for range 2 {
		if err := k.p.DisplayMessage("touch the key"); err != nil {
			return nil, err
		}
	}
	if stanzas[0].Type != "probe" {
		return nil, age.ErrIncorrectIdentity
	}
	return stanzas[0].Body, nil
}
