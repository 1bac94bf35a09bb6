package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// extractOptions is a command line of extract.
type extractOptions struct {
	archive       string
	stored        []string
	dest          string
	overwrite     bool
	skipExisting  bool
	resume        bool
	renameInvalid bool
	strip         countValue
	noPermissions bool
	noTimes       bool
	sameOwner     bool
	keepSetid     bool
	devices       bool
	maxSize       sizeValue
	maxEntries    countValue
	symlinks      choice
	literal       bool
}

func (o *extractOptions) register(f *pflag.FlagSet) {
	o.symlinks = newChoice("restore", "restore", "inside", "skip")
	f.StringVarP(&o.dest, "dest", "d", ".", "the directory to write to; made when it is missing")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace existing files and links")
	f.BoolVar(&o.skipExisting, "skip-existing", false, "leave existing files and links alone")
	f.BoolVar(&o.resume, "resume", false, "go on with an interrupted extraction: keep existing files that have the right bytes")
	f.BoolVar(&o.renameInvalid, "rename-invalid", false, "write names that the directory cannot hold under others")
	f.Var(&o.strip, "strip", "drop this many leading components of every path")
	f.BoolVar(&o.noPermissions, "no-permissions", false, "give files the modes that new files get")
	f.BoolVar(&o.noTimes, "no-times", false, "do not restore modification times")
	f.BoolVar(&o.sameOwner, "same-owner", false, "restore owners and groups, by name where this system knows it; mostly for root")
	f.BoolVar(&o.keepSetid, "keep-setid", false, "restore setuid and setgid bits, and capabilities of files")
	f.BoolVar(&o.devices, "devices", false, "make FIFOs and devices; devices mostly need root")
	f.Var(&o.maxSize, "max-size", "refuse to write more than this in all")
	f.Var(&o.maxEntries, "max-entries", "refuse to write more entries than this")
	f.Var(&o.symlinks, "symlinks", "restore: as they were; inside: refuse those that lead out of the directory; skip: none")
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

func (o *extractOptions) validate() error {
	switch {
	case o.overwrite && o.skipExisting:
		return usagef("--overwrite and --skip-existing exclude each other")
	case o.resume && o.skipExisting:
		return usagef("--resume compares existing files, --skip-existing does not look at them: choose one")
	case o.dest == "":
		return usagef("--dest is empty")
	case o.strip.n > math.MaxInt32:
		return usagef("--strip %d is too large", o.strip.n)
	}
	return nil
}

func newExtractCommand(a *app) *cobra.Command {
	var opt extractOptions
	cmd := &cobra.Command{
		Use:   "extract ARCHIVE [STORED...] [FLAG...]",
		Short: "write entries to a directory",
		Long: `Write all entries, or those that are named, to a directory. A file that exists
already ends the command before anything is written, unless --overwrite or
--skip-existing says what to do, or --resume, which keeps those that are what would be
written, after reading them, and refuses the others. A directory where a file is to be,
or the reverse, is refused whatever they say. A file appears under its name when it is complete and
verified, with its metadata. Nothing is ever written through a link or
outside of the directory. A damaged entry is named, the others are written
(exit 15). ` + globHelp + `

Restored are permissions, ACLs, times, the user's extended attributes, hard links and
the holes of sparse files. Owners, setuid and setgid bits, capabilities, FIFOs and
devices come back only on request, as they can do harm: --same-owner, --keep-setid,
--devices. Without --devices, FIFOs and devices are named and left out (exit 3). What
of an entry's metadata cannot be restored is named, for the first 20 such entries, then
their number, and the entries are written all the same (exit 3). What belongs to a
machine, such as SELinux labels and trusted.* attributes, is never restored; a hint says
how many entries have some (exit 0). An entry whose attributes are damaged is written
without them, for its owner alone (exit 15). What --resume keeps, and existing
directories with --overwrite or --resume, lose attributes and ACLs that were not stored;
what has other names, and other metadata than was stored, is replaced and leaves them alone.

Names that the directory's file system cannot hold, and names that it takes for one
(README and readme), are found before anything is written. --rename-invalid writes
them under other names and says so: %XX stands for a byte in hexadecimal, %~N tells names
apart, and what is too long is cut and gets %^ and a digest of the whole. Targets of links stay as they
are. "lockbox help names" has the rules.

--max-entries counts directories that have to be made to lead to an entry, too; --max-size counts what files have
once they are written, with their holes.`,
		Example: `  lockbox extract backup.lbx -d restored
  lockbox extract backup.lbx docs 'photos/**/*.jpg' -d some
  lockbox extract backup.lbx -d restored --resume
  sudo lockbox extract system.lbx -d restored --same-owner --keep-setid --devices
  lockbox extract untrusted.lbx -d out --max-size 10G --max-entries 100000 --symlinks inside`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if err := opt.validate(); err != nil {
				return err
			}
			return a.extract(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

// extractor is one run of extract.
type extractor struct {
	a   *app
	opt extractOptions
	ar  *store.Archive
	sel *selection
	x   *hostfs.Extractor

	// What the plan found.
	entries  uint64
	bytes    int64
	skipped  uint64                     // by --strip, by kind, by --symlinks skip
	stripped uint64                     // of these by --strip
	kept     uint64                     // what --resume found to be there
	links    map[string]string          // what --symlinks inside has to know: where a link is to be -> its target
	taken    map[pathsafe.Path]occupant // with --strip: what goes where
	odd      bool                       // some system refuses one of the names
	names    *hostfs.Names
	data     int64             // of bytes, what is no hole
	grouped  bool              // there are hard links
	leaders  map[uint64]leader // by link group
	w        written
}

// occupant is an entry that goes somewhere.
type occupant struct {
	path pathsafe.Path // as stored
	dir  bool
}

func (a *app) extract(ctx context.Context, opt extractOptions) error {
	ar, err := a.openRead(ctx, opt.archive)
	if err != nil {
		return err
	}
	r := &extractor{a: a, opt: opt, ar: ar}
	r.w.init()
	if err = a.closeRead(ar, opt.archive, r.run(ctx)); err != nil {
		if hasWords(err) {
			return err
		}
		err = fmt.Errorf("extracting from %s: %w", quoted(opt.archive), err)
		if diskFull(err) {
			return &failure{code: exitFailed, err: err, hint: "make room, and go on with --resume"}
		}
		return limited(atDamage(opt.archive, err))
	}
	return nil
}

func (r *extractor) run(ctx context.Context) error {
	var err error
	if r.sel, err = newSelection(r.ar, r.opt.stored, r.opt.literal); err != nil {
		return err
	}
	if err := r.plan(ctx); err != nil {
		return err
	}
	r.a.reportUnmatched(r.opt.archive, r.sel)
	if r.entries > 0 {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	return r.report()
}

// write makes the directories, then the files, FIFOs and devices, then the links, so that no file is ever looked up
// through a link that this run made.
func (r *extractor) write(ctx context.Context) (err error) {
	r.x, err = hostfs.NewExtractor(r.opt.dest, hostfs.ExtractOptions{
		Overwrite: r.opt.overwrite, SkipExisting: r.opt.skipExisting,
		NoPermissions: r.opt.noPermissions, NoTimes: r.opt.noTimes, Resume: r.opt.resume, Names: extractNames,
		SameOwner: r.opt.sameOwner, KeepSetid: r.opt.keepSetid, Lost: r.w.lose,
	})
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", quoted(r.opt.dest), withoutPath(err))
	}
	r.w.x = r.x
	defer r.w.flush(r.a, r.opt.archive)
	begun, ended := false, false
	defer func() {
		switch {
		case !begun:
			r.x.Withdraw()
		case !ended:
			r.w.abort()
			r.x.Abort()
		}
	}()
	if err := r.checkNames(); err != nil {
		return err
	}
	if err := r.preflight(); err != nil {
		return err
	}
	if r.opt.resume {
		if err := r.resume(ctx); err != nil {
			return err
		}
	}
	if err := r.findLeaders(ctx); err != nil {
		return err
	}
	begun = true
	r.reportRenames()
	r.a.startProgress("extracting", r.data)
	defer r.a.endProgress()
	r.w.bar = r.a.bar
	if err := r.each(ctx, index.Dir, func(e *index.Entry, p pathsafe.Path, m hostfs.Meta) error {
		return r.x.Mkdir(p, m, r.laterXattrs(ctx, e))
	}); err != nil {
		return err
	}
	if r.kept > 0 {
		if err := r.restoreKept(ctx); err != nil {
			return err
		}
	}
	if err := r.writeFiles(ctx); err != nil {
		return err
	}
	if n := r.w.unfinished(); n > 0 {
		return fmt.Errorf("%d files did not come whole", n)
	}
	for _, kind := range []index.Kind{index.FIFO, index.CharDevice, index.BlockDevice} {
		if !r.opt.devices {
			break
		}
		if err := r.each(ctx, kind, func(_ *index.Entry, p pathsafe.Path, m hostfs.Meta) error { return r.x.Special(p, m) }); err != nil {
			return err
		}
	}
	resolve := r.linkCheck()
	err = r.each(ctx, index.Symlink, func(_ *index.Entry, p pathsafe.Path, m hostfs.Meta) error {
		if err := resolve(p, m.Target); err != nil {
			return err
		}
		return r.x.Symlink(p, m)
	})
	if err != nil {
		return err
	}
	ended = true
	if err := r.x.Finish(); err != nil {
		r.a.fail(limited(fmt.Errorf("not every directory got its mode and time: %w", err)))
	}
	return nil
}

// preflight finds out what is in the way before anything is written.
func (r *extractor) preflight() error {
	var broken error
	err := r.x.Preflight(func(yield func(hostfs.PreflightItem) bool) {
		for e, err := range r.sel.entries() {
			if err != nil {
				broken = err
				return
			}
			if to, ok := r.target(&e); ok && !yield(hostfs.PreflightItem{Path: to, Kind: hostfs.Kind(e.Kind)}) {
				return
			}
		}
	})
	if broken != nil {
		return broken
	}
	return r.blocked(err)
}

// blocked says what to do about what is in the way.
func (r *extractor) blocked(err error) error {
	f := &failure{code: exitFailed}
	switch {
	case errors.Is(err, hostfs.ErrBlocked):
		f.err = fmt.Errorf("nothing was written to %s: %w", quoted(r.opt.dest), err)
		f.hint = "move away what is of another kind, or extract to another directory with --dest"
	case errors.Is(err, fs.ErrExist):
		f.err = fmt.Errorf("nothing was written to %s: %w", quoted(r.opt.dest), err)
		f.hint = "--overwrite replaces existing files, --skip-existing leaves them alone"
	case errors.Is(err, hostfs.ErrUnwritable):
		f.err = fmt.Errorf("nothing was written: %s cannot be written: %w", quoted(r.opt.dest), withoutPath(err))
	default:
		return err
	}
	return f
}

// wanted yields the entries of one kind that are to be written.
func (r *extractor) wanted(ctx context.Context, kind index.Kind) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		for e, err := range during(ctx, r.sel.entries()) {
			if err != nil {
				yield(index.Entry{}, err)
				return
			}
			if e.Kind != kind {
				continue
			}
			if to, ok := r.target(&e); ok && !r.x.Skipped(to) && !yield(e, nil) {
				return
			}
		}
	}
}

// each makes the entries of one kind. What fails for one entry is named, and the others go on.
func (r *extractor) each(ctx context.Context, kind index.Kind, fn func(*index.Entry, pathsafe.Path, hostfs.Meta) error) error {
	for e, err := range r.wanted(ctx, kind) {
		if err != nil {
			return err
		}
		to, _ := r.target(&e)
		m, err := r.wholeMeta(ctx, &e)
		if err == nil {
			err = fn(&e, to, m)
		}
		if err != nil {
			if err := r.w.failed(&e, err); err != nil {
				return err
			}
			continue
		}
		r.w.count(0)
	}
	return ctx.Err()
}

// piece writes a verified part of a file.
func (r *extractor) piece(ctx context.Context, p store.Piece) error {
	to, _ := r.target(p.Entry)
	return r.w.piece(to, func() (hostfs.Meta, error) { return r.wholeMeta(ctx, p.Entry) }, p)
}
