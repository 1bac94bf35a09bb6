//go:build !unix

package main

import "errors"

func mkfifo(string) error { return errors.New("this system has no FIFOs in its file systems") }
