package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// A signal that reaches both a process and its group comes twice at once; only one that comes later
	// is a second request.
	secondRequest = time.Second
)

// The first thread belongs to main, which does nothing but wait. A signal to the process goes to that thread first, also
// while it waits in the kernel for a file system that does not answer: then the signal wakes nobody else, and
// the program never learns of it.
func init() { runtime.LockOSThread() }

// offFirstThread runs fn on another thread; main calls it.
func offFirstThread(fn func() int) int {
	done := make(chan int)
	go func() { done <- fn() }()
	return <-done
}

// interruptible returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, so that the command
// can tidy up and leave. A second one ends the process on the spot, as a kill would: the archive
// stands that by its design. A closed pipe gives write errors instead of a signal. A SIGHUP that is ignored,
// as nohup has it, stays so.
//
// awaitSignals waits until the signals are taken over. A signal that comes before ends the process, as it would have a
// moment earlier.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signal.Ignore(syscall.SIGPIPE)
	taken := make(chan struct{})
	signalsTaken = taken
	go func() {
		ch := make(chan os.Signal, 4)
		signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(ch, syscall.SIGHUP)
		}
		close(taken)
		var first time.Time
		for range ch {
			cancel()
			if first.IsZero() {
				first = time.Now()
			} else if time.Since(first) > secondRequest {
				os.Exit(int(exitInterrupted))
			}
		}
	}()
	return ctx
}

// signalsTaken is closed when signals end the context instead of the process; nil where nobody has asked for that.
var signalsTaken <-chan struct{}

// awaitSignals returns when a signal no longer ends the process on the spot. Whoever would leave something behind then
// waits for it: a temporary file, a terminal that does not show what is typed.
func awaitSignals() {
	if signalsTaken != nil {
		<-signalsTaken
	}
}

// brief are the commands that leave nothing behind when a signal ends them, and that are over so soon that the wait
// would be a tenth of their time.
var brief = map[string]bool{"cat": true, "list": true, "info": true, "version": true, "help": true, "completion": true}

// leaveWhenStuck is for commands that change nothing, and for the time in which others have not begun to: when they do
// not end soon after an interrupt, because they wait for a pipe that nobody reads or a file system that does not
// answer, the process ends all the same. It says nothing, as that might be what it waits for. stop may be
// called again.
func leaveWhenStuck(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(2 * time.Second):
			os.Exit(int(exitInterrupted))
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
