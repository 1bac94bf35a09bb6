package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// system is what the command gets from the world beside the file system.
type system struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	files          vfs.FS // where archives are opened; nil: the operating system's
}

// app is one run of the program.
type app struct {
	sys   system
	out   *output
	say   *voice
	g     globals
	bar   *progress
	now   func() time.Time
	meter meter
	keys  keyring

	guesses int // at what was meant by operands that name nothing

	mu    sync.Mutex
	worst exitCode // of what was reported while the command went on
}

func newApp(s system) *app {
	a := &app{sys: s, now: time.Now}
	a.out = newOutput(s.stdout)
	if isTerminal(s.stdout) {
		a.out.around = func(write func()) { a.say.aside(write) }
	}
	a.say = &voice{w: s.stderr, colour: func() bool { return coloured(s.stderr, s.getenv) }}
	return a
}

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			a.endProgress()
			a.say.Errorf("internal error: %v%s", r, panicSite())
			a.say.Hintf("this is a bug in lockbox; the archive is in its last committed state")
			code = int(exitFailed)
		}
	}()
	defer a.keys.wipe()
	root := newRoot(a, args)
	root.SetArgs(args)
	start, cpu := a.now(), cpuTime()
	cmd, err := root.ExecuteContextC(ctx)
	withUsage(cmd, err)
	a.endProgress()
	if flushErr := a.out.finish(); err == nil {
		err = flushErr
	}
	if a.g.timings || a.sys.getenv("LOCKBOX_TIMINGS") == "1" {
		a.meter.print(a.say, a.now().Sub(start), cpuTime()-cpu)
	}
	return int(a.conclude(ctx, err))
}

// conclude prints the error that ended the command and decides the exit code.
func (a *app) conclude(ctx context.Context, err error) exitCode {
	switch {
	case err == nil, errors.Is(err, errReaderGone):
		return a.worst
	case ctx.Err() != nil:
		a.say.Errorf("interrupted")
		return exitInterrupted
	}
	a.fail(err)
	return a.worst
}

// fail reports an error and counts its exit code; the command may go on.
func (a *app) fail(err error) {
	a.note(codeOf(err))
	a.say.Error(err)
}

// note counts an exit code.
func (a *app) note(code exitCode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worst = worse(a.worst, code)
}

// panicSite names the place where a panic that is being recovered came from.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "lockbox/") || strings.HasPrefix(f.Function, "main.") {
			return fmt.Sprintf(" (in %s, line %d)", f.Function, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// storeOptions are the engine's options as the global flags have them.
func (a *app) storeOptions() store.Options {
	o := store.Options{FS: a.sys.files, LockTimeout: a.g.lockTimeout, Jobs: a.g.jobs.n, ExpectRoot: a.g.expectRoot.digest, Signers: a.keys.pins}
	if o.LockTimeout == 0 {
		o.LockTimeout = -1 // the engine's way to say: do not wait
	}
	return o
}

// openRead opens an archive for reading. Its error says what is wrong with the file.
func (a *app) openRead(ctx context.Context, name string) (*store.Archive, error) {
	ar, err := store.Open(ctx, name, a.readOptions(name))
	if err != nil {
		return nil, a.openFailure(name, err)
	}
	if err := a.lockedAsAsked(ar, name); err != nil {
		_ = ar.Close() // nothing was written
		return nil, err
	}
	a.meter.watch(ar)
	return ar, nil
}

// closeRead ends reading. It returns err when there is one, else what stands against relying on what was read.
func (a *app) closeRead(ar *store.Archive, name string, err error) error {
	if err == nil {
		if err = ar.Recheck(); err != nil {
			err = fmt.Errorf("reading %s: %w", quoted(name), err)
		}
	}
	a.meter.take(ar)
	if cerr := ar.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("closing %s: %w", quoted(name), cerr)
	}
	return err
}

// openFailure puts into words why an archive could not be opened.
func (a *app) openFailure(name string, err error) error {
	if auth := a.authFailure(name, err); auth != nil && !hasWords(err) {
		return auth
	}
	switch {
	case errors.Is(err, context.Canceled), hasWords(err):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		f := &failure{code: exitMissing, err: fmt.Errorf("there is no archive %s", quoted(name))}
		if near := nearestFile(name); near != "" {
			f.hint = "did you mean " + quoted(near) + "?"
		}
		return f
	case errors.Is(err, format.ErrNotLockbox):
		return foreignFailure(name, overwrittenHint(name))
	case errors.Is(err, vfs.ErrNotRegular):
		if fi, serr := os.Stat(name); serr == nil && fi.IsDir() {
			return &failure{
				code: exitForeign, err: fmt.Errorf("%s is not a lockbox archive: it is a directory", quoted(name)),
				hint: "the archive, a file, comes first: lockbox COMMAND ARCHIVE [ARGUMENT...]",
			}
		}
		return &failure{code: exitForeign, err: fmt.Errorf("%s is not a lockbox archive: it is not a regular file", quoted(name))}
	case errors.Is(err, format.ErrVersion):
		return &failure{
			code: exitForeign, err: fmt.Errorf("cannot open %s: %w", quoted(name), err),
			hint: fmt.Sprintf("it was written by a later lockbox; this one knows format %d", format.Version),
		}
	case errors.Is(err, format.ErrCorrupt):
		return &failure{
			code: exitDamaged, err: fmt.Errorf("cannot open %s: %w", quoted(name), err),
			hint: fmt.Sprintf("lockbox verify %s says how far the damage goes", pathsafe.Quote(name)),
		}
	case errors.Is(err, format.ErrBusy):
		return &failure{
			code: exitBusy, err: fmt.Errorf("cannot open %s: %w", quoted(name), a.waited(err)),
			hint: "--lock-timeout sets how long to wait",
		}
	}
	return fmt.Errorf("cannot open %s: %w", quoted(name), withoutPath(err))
}

// waited puts the time right in the error of one who did not wait: the engine was given a negative one.
func (a *app) waited(err error) error {
	if a.g.lockTimeout == 0 {
		return fmt.Errorf("%w: waited 0s", format.ErrBusy)
	}
	return err
}

// unexpectedRoot is the error for an archive in another state than --expect-root names.
func unexpectedRoot(name string, is, expected format.Digest) error {
	return &failure{
		code: exitAuth, err: fmt.Errorf("%s is not in the expected state: the archive's root is %v, expected was %v", quoted(name), is, expected),
		hint: unexpectedRootHint,
	}
}

const unexpectedRootHint = "it was changed since that root was taken down, or it is an older state or another archive: lockbox info shows generation and id"

// throughLinks returns the name that a new archive called name gets: that of a symbolic link is its target's,
// because a link is written through and never replaced.
func throughLinks(name string) (string, error) {
	for range maxHops {
		if fi, err := os.Lstat(name); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
			return name, nil // what is wrong with it shows when it is made
		}
		target, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			// Not cleaned: what ".." means depends on the links before it.
			dir, _ := filepath.Split(name)
			target = dir + target
		}
		name = target
	}
	return "", errors.New("too many symbolic links lead on from it")
}

// withoutPath takes the path off an error about a file that the message names already.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// withUsage has an error in a command's line say how the line should look, when it says nothing better itself.
func withUsage(cmd *cobra.Command, err error) {
	if f := (*failure)(nil); errors.As(err, &f) && f.code == exitUsage && f.hint == "" && cmd.HasParent() {
		f.hint = cmd.UseLine() + " (" + moreHelp(cmd) + " says more)"
	}
}

// moreHelp is the command that prints the help on cmd.
func moreHelp(cmd *cobra.Command) string {
	return "lockbox help" + strings.TrimPrefix(cmd.CommandPath(), "lockbox")
}

// archiveOperand takes the archive's name off the operands.
func archiveOperand(args []string) (string, []string, error) {
	if len(args) == 0 {
		return "", nil, usagef("the archive is missing")
	}
	return args[0], args[1:], checkArchiveName(args[0])
}

// onlyArchive is archiveOperand for a command that takes nothing else.
func onlyArchive(command string, args []string) (string, error) {
	archive, rest, err := archiveOperand(args)
	if err == nil && len(rest) > 0 {
		err = usagef("%s takes one archive; %s was given as well", command, quoted(rest[0]))
	}
	return archive, err
}

func checkArchiveName(name string) error {
	switch name {
	case "":
		return usagef("the archive's name is empty")
	case "-":
		return &failure{
			code: exitUsage, err: errors.New(`the archive cannot be "-": it is read and changed in place, not as a stream`),
			hint: "name a file; ./- is a file called -",
		}
	}
	return nil
}

// noJSON refuses --json for a command whose output is not made of objects.
func (a *app) noJSON(cmd *cobra.Command) error {
	if a.g.json {
		return usagef("%s has no machine output: --json cannot be used with it", cmd.Name())
	}
	return nil
}

// jobs is the number of workers.
func (a *app) jobs() int {
	if a.g.jobs.n > 0 {
		return a.g.jobs.n
	}
	return store.AutoJobs()
}
