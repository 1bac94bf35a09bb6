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

// moveOptions is a command line of move.
type moveOptions struct {
	archive, stored, dest string
	literal, overwrite    bool
}

func (o *moveOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.literal, "literal", false, "take the name as it is, not as a pattern")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace a file that has the new name")
}

func newMoveCommand(a *app) *cobra.Command {
	var opt moveOptions
	cmd := &cobra.Command{
		Use:     "move ARCHIVE STORED DEST [FLAG...]",
		Aliases: []string{"mv"},
		Short:   "rename a file or a directory",
		Long: `Give an entry another name, in one transaction; a directory goes with everything
below it. No content is written again. When DEST is a directory, or ends in "/", the entry
goes into it under its own name. A file that has the new name already is replaced
with --overwrite only; a directory never is. What is missing above the new name needs no
making. The old name is overwritten in the file, as remove does it.

STORED that no entry has is a pattern when it holds *, ? or [, and everything that it
matches goes into the directory DEST; --literal turns that off.`,
		Example: `  lockbox move backup.lbx docs/drfat.md docs/draft.md
  lockbox mv backup.lbx photos archive/2024/
  lockbox mv backup.lbx '*.jpg' photos/`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			if len(rest) != 2 {
				return usagef("move takes an archive, what to move and where to: %s given after the archive", plural(uint64(len(rest)), "operand was", "operands were"))
			}
			opt.archive, opt.stored, opt.dest = archive, rest[0], rest[1]
			return a.move(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	return cmd
}

// mover is one run of move.
type mover struct {
	a             *app
	opt           moveOptions
	ar            *store.Archive
	line          object
	files, others uint64
	bytes         int64
	lines, told   int                             // as a remover's
	taken         map[pathsafe.Path]pathsafe.Path // by new name
}

func (a *app) move(ctx context.Context, opt moveOptions) error {
	r := &mover{}
	sum, err := a.change(ctx, opt.archive, func(ar *store.Archive) (store.Summary, error) {
		*r = mover{a: a, opt: opt, ar: ar, told: r.lines, taken: make(map[pathsafe.Path]pathsafe.Path)}
		return r.transact(ctx)
	})
	if err != nil {
		if errors.Is(err, store.ErrConflict) {
			err = &failure{code: exitFailed, err: fmt.Errorf("nothing was changed: %w", err)}
		}
		return changeFailure(err, "moving in", opt.archive)
	}
	return r.report(sum)
}

func (r *mover) transact(ctx context.Context) (sum store.Summary, err error) {
	sel, err := r.a.selectAll(ctx, r.ar, r.opt.archive, []string{r.opt.stored}, r.opt.literal)
	if err != nil {
		return sum, err
	}
	if sel.all {
		return sum, usagef("the archive as a whole cannot be moved")
	}
	from, err := tops(sel)
	if err != nil {
		return sum, err
	}
	to, err := r.targets(from)
	if err != nil {
		return sum, err
	}
	return transaction(ctx, r.ar, func(tx *store.Tx) error {
		for i := range from {
			if err := r.one(ctx, tx, from[i], to[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// tops returns what a selection names itself, without what is selected because it lies below.
func tops(sel *selection) (list []pathsafe.Path, err error) {
	for e, err := range sel.entries() {
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && (e.Path == list[n-1] || e.Path.IsUnder(list[n-1])) {
			continue
		}
		list = append(list, sel.top(e.Path))
	}
	return list, nil
}

// top is the highest of p and the directories above it that an operand names.
func (s *selection) top(p pathsafe.Path) pathsafe.Path {
	best := p
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if s.wants(up) {
			best = up
		}
	}
	return best
}

// targets says under which name each entry comes to be.
func (r *mover) targets(from []pathsafe.Path) ([]pathsafe.Path, error) {
	into := strings.HasSuffix(r.opt.dest, "/")
	var dest pathsafe.Path
	if name := storedName(r.opt.dest); name == "" {
		into = true // the top
	} else {
		var err error
		if dest, err = pathsafe.Parse(name); err != nil {
			return nil, usagef("%s cannot be a stored path: %v", quoted(r.opt.dest), err)
		}
		kind, err := r.kind(dest)
		switch {
		case err != nil:
			return nil, err
		case kind == index.Dir:
			into = true
		case kind != 0 && into:
			return nil, r.refuse("%s is a %s, not a directory", quoted(dest.String()), kindWord(kind))
		}
	}
	if !into {
		if len(from) > 1 {
			return nil, r.refuse("%s names %s, which only a directory can take: %s is none", quoted(r.opt.stored), plural(uint64(len(from)), "entry", "entries"), quoted(dest.String()))
		}
		return []pathsafe.Path{dest}, nil
	}
	to := make([]pathsafe.Path, len(from))
	for i, p := range from {
		base, err := pathsafe.Parse(p.Base())
		if err == nil {
			to[i], err = dest.JoinPath(base)
		}
		if err != nil {
			return nil, r.refuse("%v", err)
		}
	}
	return to, nil
}

func (r *mover) refuse(msg string, args ...any) error {
	return &failure{code: exitFailed, err: fmt.Errorf("nothing was changed: "+msg, args...)}
}

// kind is what is stored at p: a directory also when only paths below say so, 0 when there is nothing.
func (r *mover) kind(p pathsafe.Path) (index.Kind, error) {
	e, err := r.ar.Get(p)
	switch {
	case err == nil:
		return e.Kind, nil
	case !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	ok, err := exists(r.ar, p)
	if ok {
		return index.Dir, err
	}
	return 0, err
}

// one moves an entry and everything below it.
func (r *mover) one(ctx context.Context, tx *store.Tx, from, to pathsafe.Path) error {
	if other, ok := r.taken[to]; ok {
		return r.refuse("both %s and %s would become %s", quoted(other.String()), quoted(from.String()), quoted(to.String()))
	}
	r.taken[to] = from
	switch {
	case from == to:
		return r.refuse("%s has that name already", quoted(from.String()))
	case to.IsUnder(from):
		return r.refuse("%s cannot go into itself", quoted(from.String()))
	}
	for up := to.Parent(); !up.IsZero(); up = up.Parent() {
		if kind, err := r.kind(up); err != nil {
			return err
		} else if kind != 0 && kind != index.Dir && up != from {
			return r.refuse("%s is a %s, so nothing can be below it", quoted(up.String()), kindWord(kind))
		}
	}
	kind, err := r.kind(to)
	switch {
	case err != nil:
		return err
	case kind == index.Dir:
		return r.refuse("a directory %s is there already", quoted(to.String()))
	case kind != 0 && !r.opt.overwrite:
		return &failure{
			code: exitFailed, err: fmt.Errorf("nothing was changed: %s is there already", quoted(to.String())),
			hint: "--overwrite replaces it",
		}
	case kind != 0:
		// It has to go by itself when what comes is a directory without an entry of its own.
		if err := tx.Remove(to); err != nil {
			return err
		}
		if err := r.tell(to, "replaced", nil); err != nil {
			return err
		}
	}
	depth := from.Depth()
	for e, err := range during(ctx, r.ar.List(from)) {
		if err != nil {
			return err
		}
		target := to
		if rest, ok := e.Path.Strip(depth); ok {
			if target, err = to.JoinPath(rest); err != nil {
				return r.refuse("%v", err)
			}
		}
		if err := tx.Move(e.Path, target); err != nil {
			return err
		}
		if e.Kind == index.File {
			r.files++
		} else {
			r.others++
		}
		r.bytes += e.Size
		if err := r.tell(e.Path, "moved", &target); err != nil {
			return err
		}
	}
	return nil
}

// tell writes the line of an entry.
func (r *mover) tell(p pathsafe.Path, action string, to *pathsafe.Path) error {
	if r.lines++; !r.a.g.json || r.lines <= r.told {
		return nil
	}
	o := r.line.begin().bytes("path", p.String())
	if to != nil {
		o.bytes("to", to.String())
	}
	_, err := r.a.out.Write(o.str("action", action).line())
	return err
}

func (r *mover) report(sum store.Summary) error {
	a := r.a
	if a.g.json {
		o := r.line.begin().open("summary").uint("entries", r.files+r.others).int("bytes", r.bytes).int("stored", sum.StoredBytes)
		o.uint("skipped", 0).uint("generation", sum.Generation).str("root", sum.Root.String())
		_, err := a.out.Write(o.close().line())
		return err
	}
	if a.g.quiet {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "moved %s, generation %d\n", countEntries(r.files, r.others), sum.Generation)
	return err
}
