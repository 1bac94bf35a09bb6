package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// listOptions is a command line of list.
type listOptions struct {
	archive string
	stored  []string
	long    bool
	nul     bool
	digest  bool
	literal bool
}

func (o *listOptions) register(f *pflag.FlagSet) {
	f.BoolVarP(&o.long, "long", "l", false, "also type, mode, size and time (local) of each entry")
	f.BoolVarP(&o.nul, "null", "0", false, "only the names, as they are, each ended by a zero byte")
	f.BoolVar(&o.digest, "digest", false, "files only, each with its BLAKE3 digest, as b3sum prints them")
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

func (o *listOptions) validate(json bool) error {
	switch {
	case o.nul && json:
		return usagef("-0 and --json are two forms of output: choose one")
	case o.nul && (o.long || o.digest):
		return usagef("-0 prints names only: it cannot be used with -l or --digest")
	case o.long && o.digest:
		return usagef("--digest prints what b3sum prints: it cannot be used with -l (--json has both)")
	case json && o.long:
		return usagef("--json prints everything already: -l cannot be used with it")
	}
	return nil
}

func newListCommand(a *app) *cobra.Command {
	var opt listOptions
	cmd := &cobra.Command{
		Use:     "list ARCHIVE [STORED...] [FLAG...]",
		Aliases: []string{"ls"},
		Short:   "print the names of entries",
		Long: `Print the names of all entries, or of those that are named, in order. A
directory brings everything below it. Names are escaped where they would harm a
terminal; -0 and --json give them exactly. ` + globHelp + `

With --digest only files are printed, each with its digest in the form of b3sum,
which can check the lines where no name had to be escaped. With --json every file has its digest anyway; owner,
group and extended attributes appear only where an entry has them, which none has
that this version stored.`,
		Example: `  lockbox list backup.lbx
  lockbox list backup.lbx docs -l
  lockbox ls backup.lbx '**/*.go' -0 | xargs -0 wc -l
  lockbox list backup.lbx --digest | (cd restored && b3sum --check)
  lockbox list backup.lbx --json | jq .size`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if err := opt.validate(a.g.json); err != nil {
				return err
			}
			return a.list(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

func (a *app) list(ctx context.Context, opt listOptions) error {
	defer leaveWhenStuck(ctx)()
	ar, err := a.openRead(ctx, opt.archive)
	if err != nil {
		return err
	}
	sel, err := newSelection(ar, opt.stored, opt.literal)
	if err == nil {
		err = a.listEntries(ctx, ar, sel, opt)
	}
	if err == nil {
		a.reportUnmatched(opt.archive, sel)
	}
	if err = a.closeRead(ar, opt.archive, err); err != nil {
		return readingFailure(opt.archive, err)
	}
	return nil
}

// readingFailure adds the archive's name to an error that came up while it was read.
func readingFailure(archive string, err error) error {
	if hasWords(err) {
		return err
	}
	return fmt.Errorf("reading %s: %w", quoted(archive), err)
}

func (a *app) listEntries(ctx context.Context, ar *store.Archive, sel *selection, opt listOptions) error {
	l := lister{ar: ar, opt: opt, json: a.g.json}
	if opt.long {
		var largest int64
		for e, err := range sel.entries() {
			if err != nil {
				return err
			}
			largest = max(largest, sizeOf(&e))
		}
		l.sizeWidth = len(strconv.FormatInt(largest, 10))
	}
	n := 0
	for e, err := range sel.entries() {
		if err == nil && n%4096 == 0 {
			err = ctx.Err()
		}
		if err == nil && opt.digest && !l.json && e.Kind != index.File {
			n++
			continue
		}
		if err == nil {
			err = l.format(&e)
		}
		if err == nil {
			_, err = a.out.Write(l.line)
		}
		if err != nil {
			return err
		}
		n++
	}
	return nil
}

// lister formats entries into a buffer that is used again.
type lister struct {
	ar        *store.Archive
	opt       listOptions
	json      bool
	sizeWidth int
	line      []byte
	object    object
}

func (l *lister) format(e *index.Entry) error {
	switch {
	case l.json:
		return l.formatJSON(e)
	case l.opt.nul:
		l.line = append(append(l.line[:0], e.Path.String()...), 0)
		return nil
	}
	b := l.line[:0]
	if l.opt.digest {
		d, err := l.digest(e)
		if err != nil {
			return err
		}
		b = append(appendHex(b, d), "  "...)
	}
	if l.opt.long {
		b = appendMode(b, e)
		size := strconv.FormatInt(sizeOf(e), 10)
		b = append(b, ' ')
		for range l.sizeWidth - len(size) {
			b = append(b, ' ')
		}
		b = append(append(b, size...), ' ')
		b = append(appendLocalTime(b, e), ' ')
	}
	b = append(b, pathsafe.Quote(e.Path.String())...)
	switch {
	case e.Kind == index.Dir:
		b = append(b, '/')
	case l.opt.long && e.Kind == index.Symlink:
		b = append(append(b, " -> "...), pathsafe.Quote(e.Target)...)
	}
	l.line = append(b, '\n')
	return nil
}

func (l *lister) digest(e *index.Entry) (format.Digest, error) {
	d, err := l.ar.Digest(e)
	if err != nil {
		err = fmt.Errorf("the digest of %s: %w", quoted(e.Path.String()), err)
	}
	return d, err
}

func appendHex(b []byte, d format.Digest) []byte {
	for _, x := range d {
		b = append(b, hexDigits[x>>4], hexDigits[x&15])
	}
	return b
}

// appendMode appends ten characters as ls has them.
func appendMode(b []byte, e *index.Entry) []byte {
	types := [...]byte{index.File: '-', index.Dir: 'd', index.Symlink: 'l', index.FIFO: 'p', index.CharDevice: 'c', index.BlockDevice: 'b', index.Socket: 's'}
	c := byte('?')
	if int(e.Kind) < len(types) && types[e.Kind] != 0 {
		c = types[e.Kind]
	}
	b = append(b, c)
	const letters = "rwxrwxrwx"
	start := len(b)
	for i := range letters {
		if e.Mode&(1<<(8-i)) != 0 {
			b = append(b, letters[i])
		} else {
			b = append(b, '-')
		}
	}
	for _, s := range []struct {
		bit   uint32
		at    int
		with  byte
		alone byte
	}{{0o4000, 2, 's', 'S'}, {0o2000, 5, 's', 'S'}, {0o1000, 8, 't', 'T'}} {
		if e.Mode&s.bit == 0 {
			continue
		}
		if b[start+s.at] == 'x' {
			b[start+s.at] = s.with
		} else {
			b[start+s.at] = s.alone
		}
	}
	return b
}

const timeLayout = "2006-01-02 15:04:05"

func appendLocalTime(b []byte, e *index.Entry) []byte {
	if !e.HasMtime {
		return append(append(b, '-'), strings.Repeat(" ", len(timeLayout)-1)...)
	}
	return time.Unix(e.MtimeSec, int64(e.MtimeNsec)).AppendFormat(b, timeLayout)
}

func (l *lister) formatJSON(e *index.Entry) error {
	o := l.object.begin().bytes("path", e.Path.String()).str("type", entryType(e)).int("size", sizeOf(e))
	o.key("mode")
	o.b = append(o.b, '"', '0'+byte(e.Mode>>9&7), '0'+byte(e.Mode>>6&7), '0'+byte(e.Mode>>3&7), '0'+byte(e.Mode&7), '"')
	if e.HasMtime {
		o.key("mtime")
		o.b = append(o.b, '"')
		o.b = time.Unix(e.MtimeSec, int64(e.MtimeNsec)).UTC().AppendFormat(o.b, "2006-01-02T15:04:05.000000000Z07:00")
		o.b = append(o.b, '"')
	}
	if e.HasOwner {
		o.uint("uid", e.UID).uint("gid", e.GID)
	}
	if e.User != "" {
		o.bytes("user", e.User)
	}
	if e.Group != "" {
		o.bytes("group", e.Group)
	}
	if e.Kind == index.Symlink {
		o.bytes("target", e.Target)
	}
	if e.Kind == index.File {
		d, err := l.digest(e)
		if err != nil {
			return err
		}
		o.key("digest")
		o.b = append(appendHex(append(o.b, '"'), d), '"')
		if len(e.Sparse) > 0 {
			o.bool("sparse", true)
		}
	}
	if len(e.Xattrs) > 0 {
		o.open("xattrs")
		for _, x := range e.Xattrs {
			o.bytes(x.Name, string(x.Value))
		}
		o.close()
	}
	l.line = o.line()
	return nil
}

// sizeOf is an entry's size as systems have it: of a link, the length of its target.
func sizeOf(e *index.Entry) int64 {
	if e.Kind == index.Symlink {
		return int64(len(e.Target))
	}
	return e.Size
}

// entryType is the word for an entry's type in machine output.
func entryType(e *index.Entry) string {
	if e.Kind == index.File && e.LinkGroup != 0 {
		return "hardlink"
	}
	return e.Kind.String()
}
