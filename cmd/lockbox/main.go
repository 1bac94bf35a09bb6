package main

import "os"

func main() {
	a := newApp(system{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: withoutSecrets(),
	})
	os.Exit(offFirstThread(func() int { return a.run(interruptible(), os.Args[1:]) }))
}
