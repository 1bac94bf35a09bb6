package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
)

// revaultOptions are the flags of migrate that mean something for reVault's archives only.
type revaultOptions struct {
	rawKeyFile   string
	identityFile string
	variablesTo  string
	mtime        timeValue
	kdfMemory    sizeValue
	kdfTime      countValue

	prefix             pathsafe.Path // what variablesTo says
	rawKey, identities []byte        // what the files hold, read once
}

func (o *revaultOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.rawKeyFile, "raw-key-file", "", "reVault: this file is the content key of the old archive, byte for byte")
	f.StringVar(&o.identityFile, "source-identity", "", "reVault: this file holds the private key that the old archive was locked for")
	f.StringVar(&o.variablesTo, "variables-to", "", "reVault: make a file of each variable in this directory of the new archive")
	f.Var(&o.mtime, "mtime", "reVault: the time of all entries, such as 2026-01-31 or 2026-01-31T12:00:00Z (default: that of the old archive's file)")
	f.Var(&o.kdfMemory, "kdf-memory", "reVault: refuse to take more memory than this to try a passphrase (default 64M, what the format takes)")
	f.Var(&o.kdfTime, "kdf-time", "reVault: refuse to make more passes over that memory, 3 for each key slot tried (default 48)")
}

func (o *revaultOptions) validate() error {
	if o.kdfMemory.set && o.kdfMemory.n == 0 || o.kdfTime.set && o.kdfTime.n == 0 {
		return usagef("a limit of 0 would let nothing through")
	}
	if o.kdfTime.n > math.MaxUint32 {
		return usagef("--kdf-time is at most %d", uint32(math.MaxUint32))
	}
	if o.variablesTo == "" {
		return nil
	}
	var err error
	if o.prefix, err = pathsafe.FromOperand(o.variablesTo); err != nil {
		return usagef("--variables-to: %v", err)
	}
	if o.prefix.IsZero() {
		return usagef("--variables-to takes a directory that the old archive has not, such as variables")
	}
	return nil
}

// given names a flag of these that was given, or is "".
func (o *revaultOptions) given() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"--raw-key-file", o.rawKeyFile != ""}, {"--source-identity", o.identityFile != ""}, {"--variables-to", o.variablesTo != ""},
		{"--mtime", o.mtime.set}, {"--kdf-memory", o.kdfMemory.set}, {"--kdf-time", o.kdfTime.set},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// fits refuses a flag that would do nothing. With several old archives each takes those that it can.
func (o *revaultOptions) fits(old string, info source.Info, several bool) error {
	if name := o.given(); name != "" && !several && !strings.HasPrefix(info.Format, "revault") {
		return usagef("%s is for reVault's archives; %s is %s", name, quoted(old), info.Format)
	}
	return nil
}

// options fills in what reading the old archive takes.
func (o *revaultOptions) options(ctx context.Context, old string, s *source.Options) (err error) {
	if o.rawKeyFile != "" && o.rawKey == nil {
		if o.rawKey, err = readKeyFile(ctx, "raw key", o.rawKeyFile); err != nil {
			return err
		}
		if len(o.rawKey) == 0 {
			return usagef("the raw key %s is empty", quoted(o.rawKeyFile))
		}
	}
	if o.identityFile != "" && o.identities == nil {
		if o.identities, err = readKeyFile(ctx, "identity", o.identityFile); err != nil {
			return err
		}
		if len(o.identities) == 0 {
			return usagef("the identity %s is empty", quoted(o.identityFile))
		}
	}
	s.RawKey, s.Identities, s.VariablesTo = o.rawKey, o.identities, o.prefix
	s.MaxKDFMemory, s.MaxKDFTime = o.kdfMemory.n, uint32(o.kdfTime.n)
	s.Mtime = o.mtime.t
	if !o.mtime.set && old != "-" {
		fi, err := os.Stat(old)
		if err != nil {
			return err
		}
		s.Mtime = fi.ModTime()
	}
	return nil
}

func (o *revaultOptions) wipe() {
	clear(o.rawKey)
	clear(o.identities)
}

// lossFailure is the error for an old archive of which less than all can be had, nil for any other error.
func lossFailure(name string, err error) error {
	if !errors.Is(err, source.ErrAllowLoss) {
		return nil
	}
	return &failure{code: codeOf(err), err: fmt.Errorf("%s was not migrated: %w", name, err), hint: "--allow-loss takes it, and names what is missing"}
}

// timeValue is a moment.
type timeValue struct {
	t   time.Time
	set bool
}

func (v *timeValue) Type() string { return "TIME" }
func (v *timeValue) String() string {
	if !v.set {
		return ""
	}
	return v.t.Format(time.RFC3339Nano)
}

// Set takes a day or a moment; without an offset it is UTC, so that it means the same everywhere.
func (v *timeValue) Set(s string) error {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			v.t, v.set = t, true
			return nil
		}
	}
	return errors.New("a time is a day, such as 2026-01-31, or a moment, such as 2026-01-31T12:00:00Z")
}
