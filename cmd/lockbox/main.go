package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], system{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
	}))
}
