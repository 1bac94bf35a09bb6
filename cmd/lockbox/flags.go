package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// metavariables are what the help calls the values of flags whose type does not say it.
var metavariables = map[string]string{
	"compare":                "FILE",
	"compression":            "LEVEL",
	"dest":                   "DIR",
	"dir":                    "DIR",
	"directory":              "DIR",
	"files-from":             "FILE",
	"files-from0":            "FILE",
	"filter":                 "REGEXP",
	"identity":               "FILE",
	"into":                   "DIR",
	"metrics":                "FILE",
	"new-passphrase-file":    "FILE",
	"new-sign-key":           "FILE",
	"only":                   "STORED",
	"output":                 "NEW",
	"passphrase-file":        "FILE",
	"progress":               "WHEN",
	"raw-key-file":           "FILE",
	"recipient":              "KEY",
	"report":                 "FILE",
	"sign-key":               "FILE",
	"signer":                 "KEY",
	"source":                 "DIR",
	"source-identity":        "FILE",
	"source-passphrase-file": "FILE",
	"state":                  "FILE",
	"stdin-name":             "STORED",
	"symlinks":               "WORD",
	"to":                     "STORED",
	"variables-to":           "STORED",
}

// metavariable is the word for a flag's value.
func metavariable(f *pflag.Flag) string {
	if word, ok := metavariables[f.Name]; ok {
		return word
	}
	switch kind := f.Value.Type(); kind {
	case "string", "stringArray", "stringSlice":
		return "TEXT"
	case "int", "int64", "uint", "uint64", "float64", "count":
		return "N"
	case "duration":
		return "TIME"
	default:
		return kind
	}
}

// guardFlags puts a guard before the values of all flags, so that one that takes a single value is never
// given two of which the first would be forgotten.
func guardFlags(root *cobra.Command) {
	root.PersistentFlags().VisitAll(guardFlag)
	for _, cmd := range allCommands(root) {
		cmd.LocalNonPersistentFlags().VisitAll(guardFlag)
	}
}

func guardFlag(f *pflag.Flag) {
	switch v := f.Value.(type) {
	case *single, *several, interface{ repeatable() }:
	case pflag.SliceValue:
		f.Value = &several{f.Value, v, metavariable(f)}
		f.DefValue = "" // or the help shows an empty list
	default:
		f.Value = &single{Value: f.Value, name: "--" + f.Name, word: metavariable(f)}
	}
}

// several is a flag that may be given repeatedly.
type several struct {
	pflag.Value
	pflag.SliceValue
	word string
}

func (s *several) Type() string { return s.word }

// single is a flag that has one value. A switch may come twice when both say the same.
type single struct {
	pflag.Value
	name, word string
	given      bool
	first      string
}

func (s *single) Type() string { return s.word }

// repeatedError says that a flag was given more than once.
type repeatedError struct{ name, first, second string }

func (e *repeatedError) Error() string {
	return fmt.Sprintf("%s was given twice, as %s and as %s; it takes one value", e.name, quoted(e.first), quoted(e.second))
}

func (s *single) Set(v string) error {
	isSwitch := s.word == "bool"
	switch {
	case s.given && !(isSwitch && v == s.first):
		return &repeatedError{s.name, s.first, v}
	case v == "" && (s.word == "DIR" || s.word == "FILE" || s.word == "NEW"):
		return errors.New("the name is empty")
	}
	s.given, s.first = true, v
	err := s.Value.Set(v)
	if err != nil && isSwitch {
		return errors.New("it takes true or false, or no value")
	}
	return err
}

// flagError turns pflag's errors into usage errors with a suggestion.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); !cmd.HasParent() && len(args) > 0 {
		return unknownCommand(cmd, args) // its flags are unknown because it is
	}
	f := &failure{code: exitUsage, err: err, hint: moreHelp(cmd) + " lists the flags"}
	var invalid *pflag.InvalidValueError
	var repeated *repeatedError
	switch {
	case errors.As(err, &repeated):
		f.err, f.hint = repeated, ""
	case errors.As(err, &invalid):
		f.err = fmt.Errorf("--%s %s: %w", invalid.GetFlag().Name, quoted(invalid.GetValue()), invalid.Unwrap())
	}
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(fl *pflag.Flag) { names = append(names, fl.Name) })
		if near := nearest(name, names); near != "" {
			f.hint = "did you mean --" + near + "?"
		}
	}
	return f
}
