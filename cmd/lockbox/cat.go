package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// catOptions is a command line of cat.
type catOptions struct {
	archive string
	stored  []string
	offset  sizeValue
	length  sizeValue
	literal bool
}

func (o *catOptions) register(f *pflag.FlagSet) {
	f.Var(&o.offset, "offset", "start at this byte of the one file")
	f.Var(&o.length, "length", "print this many bytes of the one file")
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

func (o *catOptions) validate() error {
	if len(o.stored) == 0 {
		return usagef("the stored path of a file is missing")
	}
	if o.ranged() && len(o.stored) > 1 {
		return usagef("--offset and --length are for one file; %d were named", len(o.stored))
	}
	return nil
}

func (o *catOptions) ranged() bool { return o.offset.set || o.length.set }

func newCatCommand(a *app) *cobra.Command {
	var opt catOptions
	cmd := &cobra.Command{
		Use:   "cat ARCHIVE STORED... [FLAG...]",
		Short: "print the contents of files",
		Long: `Print the contents of stored files one after the other. Every byte is verified
before it is printed. Where a file is damaged, what stands before the damage may
have been printed, never a wrong byte (exit 15). ` + globHelp,
		Example: `  lockbox cat backup.lbx docs/readme.md
  lockbox cat backup.lbx disk.img --offset 1M --length 4K | xxd`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := a.noJSON(cmd); err != nil {
				return err
			}
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if err := opt.validate(); err != nil {
				return err
			}
			return a.cat(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

func (a *app) cat(ctx context.Context, opt catOptions) error {
	defer leaveWhenStuck(ctx)()
	ar, err := a.openRead(ctx, opt.archive)
	if err != nil {
		return err
	}
	if err = a.closeRead(ar, opt.archive, a.catFiles(ctx, ar, opt)); err != nil {
		return readingFailure(opt.archive, err)
	}
	return nil
}

func (a *app) catFiles(ctx context.Context, ar *store.Archive, opt catOptions) error {
	var files []index.Entry
	var total int64
	for _, op := range opt.stored {
		found, err := catOperand(ar, op, opt.literal)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			a.fail(a.missingEntry(ar, opt.archive, op))
		}
		files = append(files, found...)
	}
	if opt.ranged() && len(files) > 1 {
		return usagef("--offset and --length are for one file; %s names %d", quoted(opt.stored[0]), len(files))
	}
	for i := range files {
		total += files[i].Size
	}
	if opt.length.set {
		total = min(total, opt.length.n)
	}
	if !isTerminal(a.sys.stdout) {
		a.startProgress("reading", total)
		defer a.endProgress()
	}
	for i := range files {
		if err := a.catFile(ctx, ar, &files[i], opt); err != nil {
			return err
		}
	}
	return nil
}

// catOperand returns the files that an operand names. A pattern names files, never what lies below
// a directory that it matches.
func catOperand(ar *store.Archive, op string, literal bool) ([]index.Entry, error) {
	name := storedName(op)
	if op == "" {
		return nil, errEmptyOperand
	}
	if name == "" {
		return nil, usagef("%s is the top of the archive; cat prints files", quoted(op))
	}
	if p, err := pathsafe.Parse(name); err == nil {
		e, err := ar.Get(p)
		if err == nil {
			return []index.Entry{e}, onlyFile(op, &e)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if ok, err := exists(ar, p); err != nil || ok {
			return nil, errors.Join(err, onlyFile(op, &index.Entry{Kind: index.Dir}))
		}
	}
	if literal || !isGlob(name) {
		return nil, nil
	}
	g, err := newGlob(op, name)
	if err != nil {
		return nil, err
	}
	var files []index.Entry
	other := index.Kind(0)
	for e, err := range ar.List(globBase(name)) {
		if err != nil {
			return nil, err
		}
		if g.match(e.Path.String()) {
			if e.Kind == index.File {
				files = append(files, e)
			} else {
				other = e.Kind
			}
		}
	}
	if len(files) == 0 && other != 0 {
		return nil, onlyFile(op, &index.Entry{Kind: other})
	}
	return files, nil
}

// onlyFile refuses what has no bytes to print.
func onlyFile(op string, e *index.Entry) error {
	switch e.Kind {
	case index.File:
		return nil
	case index.Symlink:
		return &failure{
			code: exitUsage, err: fmt.Errorf("%s is a symbolic link; cat prints files", quoted(op)),
			hint: "it leads to " + quoted(e.Target),
		}
	}
	return usagef("%s is a %s; cat prints files", quoted(op), kindWord(e.Kind))
}

func (a *app) catFile(ctx context.Context, ar *store.Archive, e *index.Entry, opt catOptions) error {
	name := quoted(e.Path.String())
	if opt.offset.n > e.Size {
		return fmt.Errorf("--offset %d lies beyond the end of %s, which has %d bytes", opt.offset.n, name, e.Size)
	}
	n := e.Size - opt.offset.n
	if opt.length.set {
		n = min(n, opt.length.n)
	}
	f, err := ar.Open(e)
	if err == nil {
		_, err = f.CopyRange(ctx, &countedOutput{a.out, a.bar}, opt.offset.n, n)
	}
	if err != nil && !errors.Is(err, errReaderGone) && a.out.err == nil {
		return fmt.Errorf("cannot print %s whole: %w", name, unnamed(err, e))
	}
	return err
}

// unnamed takes the entry's name off an error that begins with it, for a message that names it already.
func unnamed(err error, e *index.Entry) error {
	inner := errors.Unwrap(err)
	if inner != nil && strings.TrimSuffix(err.Error(), ": "+inner.Error()) == pathsafe.Quote(e.Path.String()) {
		return inner
	}
	return err
}

// countedOutput tells the progress bar what is printed.
type countedOutput struct {
	out *output
	bar *progress
}

func (c *countedOutput) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.bar.add(int64(n))
	return n, err
}
