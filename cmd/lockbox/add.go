package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/hostfs"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// addOptions is a command line of add.
type addOptions struct {
	archive       string
	paths         []string
	dir           string
	to            string
	filesFrom     string
	filesFrom0    string
	stdinName     string
	rules         []filterRule
	excludeCaches bool
	update        bool
	mirror        bool
	force         bool
	noReplace     bool
	noDedup       bool
	oneFileSystem bool
	dereference   bool
	dryRun        bool
	reproducible  bool
	overwrite     bool
	create        creation
}

func (o *addOptions) register(f *pflag.FlagSet) {
	f.StringVarP(&o.dir, "directory", "C", "", "resolve every PATH from this directory")
	f.StringVar(&o.to, "to", "", "store everything below this path")
	f.StringVar(&o.filesFrom, "files-from", "", `also take the paths in this file, one a line; "-" is standard input`)
	f.StringVar(&o.filesFrom0, "files-from0", "", "the same with paths that end in a zero byte")
	f.StringVar(&o.stdinName, "stdin-name", "", `the stored path of standard input, which is the PATH "-"`)
	f.Var(&ruleFlag{&o.rules, ruleExclude}, "exclude", "leave out what matches, as a line of .gitignore would (repeatable)")
	f.Var(&ruleFlag{&o.rules, ruleInclude}, "include", "take what matches although an earlier rule excludes it (repeatable)")
	f.Var(&ruleFlag{&o.rules, ruleFile}, "exclude-from", "take rules from this file, in the form of .gitignore (repeatable)")
	f.BoolVar(&o.excludeCaches, "exclude-caches", false, "of directories with a CACHEDIR.TAG store only that tag")
	f.BoolVar(&o.update, "update", false, "do not read files whose size and time are as stored")
	f.BoolVar(&o.mirror, "mirror", false, "also remove stored entries below the paths that are gone from the disk")
	f.BoolVar(&o.force, "force", false, "with --mirror: also when that is more than half of what is stored of a path")
	f.BoolVar(&o.noReplace, "no-replace", false, "refuse when an entry is stored already")
	f.BoolVar(&o.noDedup, "no-dedup", false, "store contents again that the archive has already")
	f.BoolVar(&o.oneFileSystem, "one-file-system", false, "do not enter other file systems")
	f.BoolVar(&o.dereference, "dereference", false, "store what symbolic links lead to")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "only say what would be done")
	f.BoolVar(&o.reproducible, "reproducible", false, "the same tree gives the same bytes, anywhere")
	f.BoolVar(&o.overwrite, "overwrite", false, "let a file replace a stored directory and a directory a stored file")
	o.create.register(f)
}

// validate checks what can be checked without looking at anything.
func (o *addOptions) validate() error {
	stdin := 0
	for _, p := range o.paths {
		if p == "-" {
			stdin++
		}
		if p == "" {
			return usagef("a path is empty")
		}
	}
	switch {
	case len(o.paths) == 0 && o.filesFrom == "" && o.filesFrom0 == "":
		return &failure{code: exitUsage, err: errors.New("there is nothing to add: no path was given"), hint: `"." is the current directory`}
	case stdin > 1:
		return usagef(`the path "-" was given %d times; standard input can be read once`, stdin)
	case stdin == 1 && o.stdinName == "":
		return &failure{code: exitUsage, err: errors.New(`the path "-" is standard input, and --stdin-name has to say how to store it`), hint: "./- is a file called -"}
	case stdin == 0 && o.stdinName != "":
		return &failure{
			code: exitUsage, err: errors.New(`--stdin-name is for the path "-", which was not given`),
			hint: "lockbox add " + pathsafe.Quote(o.archive) + " - --stdin-name " + pathsafe.Quote(o.stdinName) + " stores standard input",
		}
	}
	switch {
	case o.noReplace && (o.update || o.mirror):
		return usagef("--no-replace cannot be used with --update or --mirror, which are about what is stored already")
	case o.force && !o.mirror:
		return usagef("--force is for --mirror, which was not given")
	}
	if o.filesFrom == "-" {
		stdin++
	}
	if o.filesFrom0 == "-" {
		stdin++
	}
	if stdin > 1 {
		return usagef("standard input can be read for one purpose only")
	}
	return nil
}

func newAddCommand(a *app) *cobra.Command {
	var opt addOptions
	cmd := &cobra.Command{
		Use:   "add ARCHIVE PATH... [FLAG...]",
		Short: "store files, make the archive if it is missing",
		Long: `Store files, directories, symbolic links, FIFOs and devices, all in one transaction: whatever
happens, the archive holds all of the change or nothing of it. What is stored
under the same path is replaced. A missing archive is made.

A path is stored as given, cleaned, without a leading "/" or ".."; of "." the
contents are stored at the top. The archive itself is never added to it. A PATH
that is the archive (exit 3) or that a rule excludes is named and left out.
Sockets are named and left out (exit 3), as is a file that cannot be read; FIFOs and
devices are never opened. A file that changed while it was read is read a second time, and left out when it
does not hold still then; either way it is named (exit 3). A PATH that does not exist ends the command
before anything is changed (exit 12); a missing name in a --files-from list is
reported and the rest is stored (exit 3). When there is nothing to add, no
archive is made.

Rules are those of .gitignore, held against stored paths without --to; the last one that
matches decides, and what lies in an excluded directory cannot be brought back. A hint names
each --exclude and --include that matched nothing; rules from a file may go unused.

Stored are permissions, owners by number and name, times, the user's extended
attributes and POSIX ACLs. The names of one file (hard links) stay names of one
file, and it is read once. Holes of a sparse file are not read.

With --update a file whose size and modification time are as stored is not opened; a new
mode, owner or attribute is stored all the same. Whether the stored bytes are sound is for verify to say.

With --mirror the archive follows the disk: what is stored below a PATH and is no longer there
is removed in the same transaction, and overwritten as remove does it. What a rule excludes
and what lies below a directory that cannot be read stays. More than half of what is
stored of one PATH is removed only with --force; otherwise nothing is changed (exit 1). Each
PATH is judged by itself, as it may be a disk that is not mounted; one inside of another belongs to it.

Standard input is stored as it comes: when a command before it in a pipe fails,
add only sees that the input ends. In bash, "set -o pipefail" makes the pipe's
exit code tell.

A new archive is locked with --encrypt (a passphrase) or --recipient (public keys),
signed with --sign-key, padded with --padding; of an existing one these say what it
must be. "lockbox help protection" has more.

With --reproducible modes become 0755 or 0644, times at most SOURCE_DATE_EPOCH
(or 1970); owners, attributes, ACLs and hard links are left out, holes are stored as zeros, and
nothing depends on time, user, umask or the number of workers.`,
		Example: `  lockbox add backup.lbx docs photos
  lockbox add backup.lbx -C ~/www . --to site --exclude '*.tmp'
  find . -type f -newer stamp -print0 | lockbox add backup.lbx --files-from0 -
  lockbox add backup.lbx -C ~/work . --update --mirror
  pg_dump db | lockbox add backup.lbx - --stdin-name db.sql`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.paths, err = archiveOperand(args); err != nil {
				return err
			}
			if err := opt.validate(); err != nil {
				return err
			}
			return a.add(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), signKeyUsage+"; a new one is signed by it")
	return cmd
}

// adder is one run of add.
type adder struct {
	a      *app
	opt    addOptions
	walk   hostfs.WalkOptions
	walked hostfs.WalkTimes
	ops    []hostfs.Operand
	stdin  pathsafe.Path   // where standard input is stored, if it is
	repro  *reproducible   // nil unless asked for
	named  map[string]bool // the operands that the user wrote, not those of a list
	ar     *store.Archive
	made   bool // there was no archive
	filled bool // the archive has entries to meet

	stop    error           // why the sources ended early
	fatal   error           // why the engine was stopped
	cancel  func()          // stops the engine
	waiting chan pending    // what the sources under way are, in their order
	remove  []pathsafe.Path // what has to go because a file takes a directory's place, or the reverse
	mirror  *mirror         // finds what is gone from the disk; nil unless asked for
	links   linker          // finds the names of one file
	claimed map[uint64]bool // link groups that stored entries have kept
	line    object
	files   uint64
	others  uint64 // directories and links
	bytes   int64
	skipped uint64
	kept    uint64 // of a dry run: what is certain to be as it is stored
}

func (a *app) add(ctx context.Context, opt addOptions) error {
	r := &adder{a: a, opt: opt, named: make(map[string]bool)}
	looked := leaveWhenStuck(ctx)
	defer looked()
	existing, err := os.Stat(opt.archive)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return a.openFailure(opt.archive, err)
	}
	r.made = existing == nil
	if existing == nil && a.g.expectRoot.digest != nil {
		return &failure{code: exitMissing, err: fmt.Errorf("there is no archive %s whose root could be the expected one", quoted(opt.archive))}
	}
	if existing != nil {
		r.walk.SkipSame = []os.FileInfo{existing}
	}
	if opt.reproducible {
		if r.repro, err = newReproducible(a.sys.getenv); err != nil {
			return err
		}
	}
	if err := r.gather(ctx); err != nil {
		return err
	}
	if opt.dryRun {
		return r.dryRun(ctx)
	}
	so := a.storeOptions()
	if r.repro != nil {
		so.Reproducible = true
		if so.Entropy, err = r.seed(ctx, so, existing != nil); err != nil {
			return err
		}
	}
	looked()
	if existing == nil {
		r.ar, err = a.openNew(ctx, opt.archive, so, &opt.create, opt.reproducible)
		if _, serr := os.Stat(opt.archive); err != nil && serr == nil {
			return overtaken(opt.archive)
		}
	} else {
		r.ar, err = a.openWrite(ctx, opt.archive, so)
	}
	if err != nil {
		return err
	}
	sum, err := r.transact(ctx)
	r.ar.Walked(time.Duration(r.walked.List.Load()), time.Duration(r.walked.Stat.Load()))
	if err = a.closeWrite(r.ar, opt.archive, &sum, err); err != nil {
		return r.failure(err)
	}
	return r.report(sum)
}

// transact adds everything in one transaction. Unless it returns nil nothing was changed.
func (r *adder) transact(ctx context.Context) (sum store.Summary, err error) {
	in, err := r.ar.Info()
	if err != nil {
		return sum, err
	}
	if err := r.agree(ctx, in); err != nil {
		return sum, err
	}
	// A source can be on a file system that does not answer. What is staged by then nothing refers to.
	staged := leaveWhenStuck(ctx)
	defer staged()
	if r.opt.noReplace && r.filled {
		if err := r.rehearse(ctx); err != nil {
			return sum, err
		}
	}
	tx, err := r.ar.Begin(ctx)
	if err != nil {
		return sum, err
	}
	r.a.startProgress("adding", -1)
	stop := r.estimate(ctx)
	err = r.stage(ctx, tx)
	stop()
	staged()
	r.a.endProgress()
	if err == nil {
		err = ctx.Err() // looked at only now, so that no commit is cut off
	}
	if err == nil && r.files+r.others == 0 && r.mirror.count() == 0 {
		// A generation without a change would say nothing, and an archive without an entry less.
		return store.Summary{Generation: in.Generation, Root: in.Root}, tx.Rollback()
	}
	if err == nil {
		sum, err = tx.Commit(ctx)
	}
	if err != nil {
		return sum, errors.Join(err, tx.Rollback())
	}
	return sum, nil
}

// agree compares what was asked for with what the archive is.
func (r *adder) agree(ctx context.Context, in store.Info) error {
	r.filled = in.Entries > 0
	if r.made {
		return nil
	}
	if r.repro != nil && !in.Reproducible {
		r.a.say.Warnf("%s was made or changed without --reproducible: its id follows from nothing that is stored, and another archive of the same files has other bytes", quoted(r.opt.archive))
	}
	return r.a.agree(ctx, r.opt.archive, &r.opt.create, in)
}

// stage puts all sources into the transaction.
func (r *adder) stage(ctx context.Context, tx *store.Tx) error {
	ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	r.startMirror()
	defer r.mirror.close()
	err := r.feed(ctx, tx)
	switch {
	case r.fatal != nil:
		return r.fatal
	case r.stop != nil:
		return r.stop
	case err != nil:
		return err
	}
	for _, p := range r.remove {
		if err := tx.Remove(p); err != nil {
			return err
		}
	}
	return r.removeGone(ctx, tx)
}

func (r *adder) feed(ctx context.Context, tx *store.Tx) error {
	// It holds the answers for all sources that the engine can have under way at once; the sources wait when
	// it is full.
	r.waiting = make(chan pending, 4096)
	added := func(got store.Added) { r.added(ctx, got) }
	err := tx.Add(ctx, r.sources(ctx, tx), added)
	if err == nil && r.stop == nil && r.fatal == nil && !r.stdin.IsZero() {
		err = tx.Add(ctx, r.standardInput(ctx), added)
	}
	return err
}

// failure puts into words why nothing was added.
func (r *adder) failure(err error) error {
	var f *failure
	if errors.As(err, &f) || errors.Is(err, context.Canceled) {
		return err
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		return conflictFailure(err)
	case r.made && errors.Is(err, fs.ErrExist):
		return overtaken(r.opt.archive)
	}
	return changeFailure(err, "adding to", r.opt.archive)
}

func conflictFailure(err error) error {
	return &failure{code: exitFailed, err: fmt.Errorf("nothing was changed: %w", err), hint: "--overwrite lets the new entry replace what is stored"}
}
