package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a script that completes commands in a shell",
		Long: `Print a script for bash, zsh, fish or powershell that completes commands, flags
and stored paths.`,
		Example: `  source <(lockbox completion bash)
  lockbox completion zsh > "${fpath[1]}/_lockbox"
  lockbox completion fish > ~/.config/fish/completions/lockbox.fish`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.noJSON(cmd); err != nil {
				return err
			}
			if len(args) != 1 {
				return usagef("completion takes the name of one shell: %s", strings.Join(shells, ", "))
			}
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(a.out)
			case "fish":
				return cmd.Root().GenFishCompletion(a.out, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(a.out)
			}
			return usagef("%s is none of the shells %s", quoted(args[0]), strings.Join(shells, ", "))
		},
	}
}

// completeFlags makes the flags that take one word of a list complete it.
func completeFlags(root *cobra.Command) {
	for _, cmd := range allCommands(root) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { completeChoice(cmd, f) })
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeChoice(root, f) })
}

func completeChoice(cmd *cobra.Command, f *pflag.Flag) {
	if c, ok := f.Value.(*choice); ok {
		// It fails only when a completion is registered already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completeStored completes stored paths, one level at a time. It is a courtesy and stays silent about what
// does not work.
func completeStored(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ar, err := store.Open(ctx, args[0], store.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer ar.Close()
	var dir pathsafe.Path
	if i := strings.LastIndexByte(toComplete, '/'); i > 0 {
		if dir, err = pathsafe.Parse(storedName(toComplete[:i])); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	const most = 1000
	var names []string
	last := ""
	for e, err := range ar.List(dir) {
		if err != nil || len(names) == most {
			break
		}
		rest := e.Path.String()
		if !dir.IsZero() {
			rest = strings.TrimPrefix(rest[len(dir.String()):], "/")
		}
		child, _, below := strings.Cut(rest, "/")
		if child == "" {
			continue
		}
		if below || e.Kind == index.Dir {
			child += "/"
		}
		full := child
		if !dir.IsZero() {
			full = dir.String() + "/" + child
		}
		if full == last || !strings.HasPrefix(full, toComplete) {
			continue
		}
		last = full
		names = append(names, full)
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
