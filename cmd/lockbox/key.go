package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newKeyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key list|add|remove|rotate ARCHIVE, key generate -o FILE",
		Short: "see and change who can open an encrypted archive, make keys",
		Long: `See and change who can open an encrypted archive, and make keys.

An encrypted archive has one random content key, which protects everything in it.
Each of its key slots holds that key, locked with a passphrase or for a public key.
Adding a slot lets somebody in. Removing one takes the slot away, and not what its
owner may have kept: only a rotation encrypts the archive under a new content key.`,
		Example: `  lockbox key generate -o me.key
  lockbox key list private.lbx
  lockbox key add private.lbx --recipient alice.pub -i me.key
  lockbox key remove private.lbx 2 -i me.key
  lockbox key rotate private.lbx -i me.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return subcommandMissing(cmd, args, "what to do with keys is missing")
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(newKeyListCommand(a), newKeyAddCommand(a), newKeyRemoveCommand(a), newKeyRotateCommand(a), newKeyGenerateCommand(a))
	return cmd
}

// subcommandMissing is the error for a command that only others stand below, of which the command line names none.
func subcommandMissing(cmd *cobra.Command, args []string, missing string) error {
	name := cmd.Name()
	f := &failure{code: exitUsage, err: errors.New(missing), hint: fmt.Sprintf("lockbox help %s says what there is", name)}
	if len(args) > 0 {
		f.err = fmt.Errorf("there is no command %s %s", name, quoted(args[0]))
		if near := nearest(args[0], commandNames(cmd)); near != "" {
			f.hint = fmt.Sprintf("did you mean %s %s?", name, near)
		}
	}
	return f
}
