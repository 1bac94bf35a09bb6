//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

var metaCommands map[string]func(*testscript.TestScript, bool, []string)

func takesXattrs() bool { return false }
