package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// usageTemplate is cobra's, cut down to what this program has.
const usageTemplate = `Usage:
  {{if not .HasParent}}lockbox COMMAND ARCHIVE [ARGUMENT...] [FLAG...]{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}{{if not .HasParent}}

"lockbox help COMMAND" says more about a command, "lockbox help TOPIC" about
{{topics}}{{end}}
`

// commandMakers makes every command, in the order of the help. The names, aliases among them, are those under
// which a command line finds it.
var commandMakers = []struct {
	names []string
	make  func(*app) *cobra.Command
}{
	{[]string{"add"}, newAddCommand},
	{[]string{"create"}, newCreateCommand},
	{[]string{"extract"}, newExtractCommand},
	{[]string{"cat"}, newCatCommand},
	{[]string{"list", "ls"}, newListCommand},
	{[]string{"verify"}, newVerifyCommand},
	{[]string{"diff"}, newDiffCommand},
	{[]string{"recover"}, newRecoverCommand},
	{[]string{"migrate"}, newMigrateCommand},
	{[]string{"export"}, newExportCommand},
	{[]string{"info"}, newInfoCommand},
	{[]string{"remove", "rm"}, newRemoveCommand},
	{[]string{"move", "mv"}, newMoveCommand},
	{[]string{"compact"}, newCompactCommand},
	{[]string{"copy"}, newCopyCommand},
	{[]string{"key"}, newKeyCommand},
	{[]string{"bench"}, newBenchCommand},
	{[]string{"debug"}, newDebugCommand},
	{[]string{"version"}, newVersionCommand},
	{[]string{"completion"}, newCompletionCommand},
}

// addCommands adds the command that the first argument names, or all of them when it names none: making
// all of them is a tenth of the time that a short command takes.
func addCommands(root *cobra.Command, a *app, args []string) {
	for _, c := range commandMakers {
		if len(args) > 0 && slices.Contains(c.names, args[0]) {
			root.AddCommand(c.make(a))
			return
		}
	}
	for _, c := range commandMakers {
		root.AddCommand(c.make(a))
	}
}

// newRoot makes the commands that args, a command line without the program's name, can lead to.
func newRoot(a *app, args []string) *cobra.Command {
	cobra.EnableCommandSorting = false
	cobra.AddTemplateFunc("topics", topicList)
	showVersion := false
	root := &cobra.Command{
		Use:   "lockbox",
		Short: "keep files in an archive that is always consistent",
		Long: `lockbox keeps files in one archive file that is always consistent: a change
happens as a whole or not at all, and every byte is checked when it is read.`,
		Example: `  lockbox add first.lbx docs             # store the directory docs; first.lbx is made
  lockbox list first.lbx                 # see what is in it
  lockbox verify --full first.lbx        # read every byte and compare it with what was stored
  lockbox extract first.lbx -d restored  # write everything below the directory restored`,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args)
			case showVersion:
				return a.printVersion()
			default:
				return &failure{code: exitUsage, err: fmt.Errorf("the command is missing"), hint: "lockbox help lists the commands"}
			}
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.sys.stderr)
	root.SetIn(a.sys.stdin)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if !brief[cmd.Name()] {
			awaitSignals()
		}
		if err := withoutArchive(cmd); err != nil {
			return err
		}
		return a.loadPins(cmd.Context())
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagError)
	a.g.register(root.PersistentFlags())
	root.PersistentFlags().BoolP("help", "h", false, "show help")
	root.Flags().BoolVar(&showVersion, "version", false, "print the version, as the command of that name does")
	addCommands(root, a, args)
	help := newHelpCommand(a)
	root.SetHelpCommand(help)
	root.AddCommand(help)
	for _, cmd := range allCommands(root) {
		cmd.DisableFlagsInUseLine = true
		cmd.Flags().SortFlags = false
	}
	root.PersistentFlags().SortFlags = false
	completeFlags(root)
	guardFlags(root)
	for _, cmd := range allCommands(root) {
		if strings.Contains(cmd.Use, " ARCHIVE") && !cmd.HasSubCommands() && cmd.Name() != "create" {
			cmd.Long += "\n\n" + signedHelp
		}
		cmd.Long = fill(cmd.Long)
	}
	return root
}

// withoutArchive refuses pins where no archive is opened: one that nothing is held against would seem to hold.
func withoutArchive(cmd *cobra.Command) error {
	if strings.Contains(cmd.Use, "ARCHIVE") || strings.Contains(cmd.Use, "OLD") {
		return nil
	}
	for _, name := range []string{"expect-root", "signer"} {
		if cmd.Flags().Changed(name) {
			return usagef("%s opens no archive, so --%s has no meaning here", strings.TrimPrefix(cmd.CommandPath(), "lockbox "), name)
		}
	}
	return nil
}

// allCommands returns the commands below root, at every depth, and root.
func allCommands(root *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range root.Commands() {
		all = append(all, allCommands(cmd)...)
	}
	return append(all, root)
}

// elsewhere is what other programs call what lockbox can do, and the command that does it.
var elsewhere = map[string]string{
	"unzip": "extract", "unpack": "extract", "decompress": "extract", "restore": "extract", "decrypt": "extract", "x": "extract",
	"backup": "add", "store": "add", "pack": "add", "update": "add", "encrypt": "add", "new": "create", "init": "create",
	"test": "verify", "check": "verify", "fsck": "verify", "scrub": "verify", "repair": "recover", "salvage": "recover", "fix": "recover",
	"rename": "move", "delete": "remove", "shrink": "compact", "vacuum": "compact", "prune": "compact", "compare": "diff", "status": "diff",
	"convert": "migrate", "import": "migrate", "tar": "export", "zip": "export", "clone": "copy", "stat": "info",
	"keygen": "key generate", "benchmark": "bench",
}

// unknownCommand says that args[0] is no command, and what may have been meant.
func unknownCommand(root *cobra.Command, args []string) error {
	f := &failure{code: exitUsage, err: fmt.Errorf("there is no command %s", quoted(args[0])), hint: "lockbox help lists the commands"}
	if same := elsewhere[strings.ToLower(args[0])]; same != "" {
		f.hint = "that is lockbox " + same
	} else if near := nearest(args[0], commandNames(root)); near != "" {
		f.hint = "did you mean " + near + "?"
	} else if len(args) > 1 && slices.Contains(commandNames(root), args[1]) {
		f.hint = fmt.Sprintf("the command comes before the archive: lockbox %s %s", args[1], quoted(args[0]))
	}
	return f
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(append(names, cmd.Name()), cmd.Aliases...)
		}
	}
	return names
}

// nearest returns the candidate that is closest to word, or "" when none is close.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		d := editDistance(strings.ToLower(word), c)
		if len(word) >= 3 && strings.HasPrefix(c, strings.ToLower(word)) {
			d = 1
		}
		// A short word is within two edits of everything.
		if d < bestDistance && d < max(len(c), 2)-1 {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, remove, replace or swap to get from a to b.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var row [3][66]int
	for j := range len(b) + 1 {
		row[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		prev2, prev, cur := &row[(i+2)%3], &row[i%3], &row[(i+1)%3]
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
	}
	return row[(len(a)+1)%3][len(b)]
}
