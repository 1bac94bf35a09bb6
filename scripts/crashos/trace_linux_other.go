//go:build linux && !amd64

package main

import (
	"fmt"
	"os"
)

// traceUnavailable says why the tracer cannot be used, "" when it can.
func traceUnavailable() string { return "the tracer knows the registers of amd64 only" }

func traceMain(string, []string) int {
	fmt.Fprintln(os.Stderr, "crash-os:", traceUnavailable())
	return 1
}
