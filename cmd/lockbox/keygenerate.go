package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// generateOptions is a command line of key generate.
type generateOptions struct {
	output      string
	postQuantum bool
}

func newKeyGenerateCommand(a *app) *cobra.Command {
	var opt generateOptions
	cmd := &cobra.Command{
		Use:   "generate -o FILE [FLAG...]",
		Short: "make an identity: a private key in a file, and its public key",
		Long: `Make a new age identity, as age-keygen does: the private key goes to FILE, which only
its owner can read, and the public key is printed. The public key is what --recipient
takes, FILE is what --identity takes. An existing file is never touched. Whoever has
FILE opens what is locked for it: keep it apart from the archives, and keep a copy.

With --post-quantum it also withstands a computer that breaks elliptic curves
(ML-KEM-768 together with X25519); its public key is two thousand characters long.`,
		Example: `  lockbox key generate -o me.key
  lockbox create private.lbx --recipient "$(lockbox key generate -o backup.key)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return usagef("key generate takes no archive; %s was given", quoted(args[0]))
			case opt.output == "":
				return usagef("the file for the private key is missing: name it with -o")
			case opt.output == "-":
				return usagef("a private key goes to a file: -o cannot be -")
			}
			return a.generateKey(opt)
		},
	}
	cmd.Flags().StringVarP(&opt.output, "output", "o", "", "the file for the private key; it must not exist")
	cmd.Flags().BoolVar(&opt.postQuantum, "post-quantum", false, "a key that a quantum computer does not break either")
	return cmd
}

func (a *app) generateKey(opt generateOptions) error {
	secret, public, err := seal.GenerateIdentity(opt.postQuantum)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# created: %s\n# public key: %s\n%s\n", a.now().Format(time.RFC3339), public, secret)
	err = writeSecret(opt.output, text.Bytes())
	clear(text.Bytes())
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return &failure{
				code: exitFailed, err: fmt.Errorf("cannot write the private key to %s: a file of that name exists", quoted(opt.output)),
				hint: "give another name: a private key that is replaced is lost, and with it all that only it opens",
			}
		}
		return fmt.Errorf("cannot write the private key to %s: %w", quoted(opt.output), withoutPath(err))
	}
	switch {
	case a.g.json:
		var o object
		_, err = a.out.Write(o.begin().bytes("path", opt.output).str("recipient", public).line())
	case !a.g.quiet:
		_, err = fmt.Fprintln(a.out, public)
	}
	return err
}

// writeSecret makes a file that only its owner can read, whole and durable, or none.
func writeSecret(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = vfs.OS().SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
