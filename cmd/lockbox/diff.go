package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// diffOptions is a command line of diff.
type diffOptions struct {
	archive string
	dir     string
	to      string
	content bool
	owners  bool
}

func (o *diffOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.content, "content", false, "read files of equal size, and compare their bytes")
	f.BoolVar(&o.owners, "owners", false, "compare owners and groups, too")
	f.StringVar(&o.to, "to", "", "compare what is stored below this path, as add --to stores it")
}

func newDiffCommand(a *app) *cobra.Command {
	var opt diffOptions
	cmd := &cobra.Command{
		Use:   "diff ARCHIVE [DIR] [FLAG...]",
		Short: "compare stored entries with a directory",
		Long: `Print what differs between all that is stored and a directory, the current one
without DIR, in order; exit 4 when something does. Compared are names, types, sizes, targets
of links, device numbers, modes, modification times, extended attributes and ACLs, and which
names are hard links of one file; with --content also the bytes of files of equal size. Links
in the directory are not followed, and nothing but regular files is opened.

Each line begins with what the directory is, seen from the archive: added (not stored), removed
(only stored), type (a file has become a directory, say), modified (other bytes, another
size or target), metadata (only what is named after the path differs; without
--content the bytes may do so, too). "links with A, not with B": in the directory it is
another name of A, stored it is one of B; a file is known by the first of its names. A directory that leads to an entry and is not stored itself is no
difference. Left out is what add leaves out: the archive, sockets, temporary files.

What cannot be read is named, and the rest is compared (exit 3, also when something
differs; 15 for what is damaged in the archive). --quiet prints no differences; the exit code tells.`,
		Example: `  lockbox add backup.lbx -C ~/work .
  lockbox diff backup.lbx ~/work
  lockbox diff backup.lbx docs --to docs --content
  lockbox diff backup.lbx ~/work --json | jq -r 'select(.change == "added").path'`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var rest []string
			if opt.archive, rest, err = archiveOperand(args); err != nil {
				return err
			}
			switch len(rest) {
			case 0:
				opt.dir = "."
			case 1:
				opt.dir = rest[0]
			default:
				return usagef("diff compares with one directory: %s is one too many", quoted(rest[1]))
			}
			if opt.dir == "" {
				return usagef("the directory is empty")
			}
			return a.diff(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

// differ is one run of diff.
type differ struct {
	a      *app
	opt    diffOptions
	ar     *store.Archive
	prefix pathsafe.Path
	walk   hostfs.WalkOptions
	links  sameLinks

	entries    uint64
	changes    [changeKinds]uint64
	unreadable uint64
	line       object
}

func (a *app) diff(ctx context.Context, opt diffOptions) error {
	defer leaveWhenStuck(ctx)()
	d := &differ{a: a, opt: opt}
	var err error
	if d.prefix, err = targetPrefix(opt.to); err != nil {
		return err
	}
	if err := checkDiffDir(opt.dir); err != nil {
		return err
	}
	if d.ar, err = a.openRead(ctx, opt.archive); err != nil {
		return err
	}
	err = d.run(ctx)
	if err == nil {
		err = d.report()
	}
	if err == nil {
		d.hintPrefix()
	}
	if err = a.closeRead(d.ar, opt.archive, err); err != nil {
		return readingFailure(opt.archive, err)
	}
	return nil
}

func checkDiffDir(dir string) error {
	fi, err := os.Stat(dir)
	if err == nil && !fi.IsDir() {
		return &failure{
			code: exitMissing, err: fmt.Errorf("cannot compare with %s: not a directory", quoted(dir)),
			hint: "diff compares with a directory; extract writes an archive to one",
		}
	}
	if err == nil {
		return nil
	}
	code := exitFailed
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		code = exitMissing
	}
	return diffDirFailure(code, dir, err)
}

// diffDirFailure is the error for a directory that cannot be read at all.
func diffDirFailure(code exitCode, dir string, err error) error {
	return &failure{code: code, err: fmt.Errorf("cannot compare with %s: %w", quoted(dir), withoutPath(err))}
}

func (d *differ) run(ctx context.Context) error {
	d.walk = hostfs.WalkOptions{Prefix: d.prefix, Jobs: d.a.jobs()}
	if fi, err := os.Stat(d.opt.archive); err == nil {
		d.walk.SkipSame = []os.FileInfo{fi}
	}
	if !d.prefix.IsZero() {
		found, err := exists(d.ar, d.prefix)
		if err != nil {
			return err
		}
		if !found {
			return d.a.missingEntry(d.ar, d.opt.archive, d.opt.to)
		}
	}
	if err := d.startProgress(ctx); err != nil {
		return err
	}
	defer d.a.endProgress()
	return d.compareAll(ctx)
}

// startProgress shows entries, or where files are read their bytes.
func (d *differ) startProgress(ctx context.Context) error {
	amount := countOf
	if d.opt.content {
		amount = humanBytes
	}
	d.a.startCounting("comparing", amount, -1)
	return d.a.bar.expectAll(ctx, d.ar.List(d.prefix), d.weight)
}

// weight is what an entry counts for in the bar.
func (d *differ) weight(e *index.Entry) int64 {
	if d.opt.content {
		return e.DataSize()
	}
	return 1
}
