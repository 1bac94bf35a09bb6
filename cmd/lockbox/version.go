package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lockbox/internal/format"
)

// version is set by the linker in release builds.
var version string

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version of the program and of its format",
		Long:    "Print the version of the program, that of the format it reads and writes, and what it was built with and for.",
		Example: "  lockbox version\n  lockbox version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion()
		},
	}
}

func (a *app) printVersion() error {
	v := programVersion()
	if a.g.json {
		var o object
		o.begin().str("version", v).int("format", format.Version).str("go", runtime.Version())
		o.str("os", runtime.GOOS).str("arch", runtime.GOARCH)
		_, err := a.out.Write(o.line())
		return err
	}
	_, err := fmt.Fprintf(a.out, "lockbox %s\nformat %d\n%s %s/%s\n", v, format.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// programVersion is what the linker was told, else what the build recorded.
func programVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision[:min(12, len(revision))] + modified
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument; %s was given", cmd.Name(), quoted(args[0]))
	}
	return nil
}
