package main

import (
	"time"

	"github.com/spf13/pflag"
)

// globals are the flags that every command has.
type globals struct {
	jobs        jobsValue
	progress    choice
	quiet       bool
	json        bool
	timings     bool
	expectRoot  rootValue
	signers     []string
	lockTimeout time.Duration

	passphraseFile string
	identities     []string
}

func (g *globals) register(f *pflag.FlagSet) {
	g.progress = newChoice("auto", "auto", "always", "never")
	g.lockTimeout = 10 * time.Second
	f.VarP(&g.jobs, "jobs", "j", `workers: a number, 1 is fully serial; "auto" is the number of CPUs, six at most`)
	f.Var(&g.progress, "progress", "show a progress bar: auto (on a terminal, for longer work), always or never")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "print nothing on success; warnings and errors still show")
	f.BoolVar(&g.json, "json", false, "machine output on standard output, one JSON object per line")
	f.BoolVar(&g.timings, "timings", false, "print stage timings and counters at the end (also LOCKBOX_TIMINGS=1)")
	f.StringVar(&g.passphraseFile, "passphrase-file", "", "the first line of this file is the passphrase (also LOCKBOX_PASSPHRASE_FILE, or the passphrase itself in LOCKBOX_PASSPHRASE)")
	f.StringArrayVarP(&g.identities, "identity", "i", nil, "unlock with this private key: an age identity file or an SSH key (repeatable)")
	f.StringArrayVar(&g.signers, "signer", nil, "the archive must be signed by this public key, or one of those in this file, else exit 11 (repeatable)")
	f.Var(&g.expectRoot, "expect-root", "the archive must be in exactly this state (info prints it), else exit 11")
	f.Var((*durationValue)(&g.lockTimeout), "lock-timeout", "how long to wait for another writer")
}
