package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"lockbox/internal/hostfs"
	"lockbox/internal/pathsafe"
)

// filterRule is one of --exclude, --include and --exclude-from. Their order on the command line counts.
type filterRule struct {
	kind ruleKind
	text string
}

type ruleKind int

const (
	ruleExclude ruleKind = iota
	ruleInclude
	ruleFile
)

// ruleFlag appends to a list that several flags share.
type ruleFlag struct {
	rules *[]filterRule
	kind  ruleKind
}

func (f *ruleFlag) String() string { return "" }
func (f *ruleFlag) repeatable()    {}

func (f *ruleFlag) Type() string {
	if f.kind == ruleFile {
		return "FILE"
	}
	return "GLOB"
}

func (f *ruleFlag) Set(s string) error {
	*f.rules = append(*f.rules, filterRule{f.kind, s})
	return nil
}

// buildFilter makes the walk's filter; nil when there are no rules.
func buildFilter(ctx context.Context, rules []filterRule) (*hostfs.Filter, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	f := new(hostfs.Filter)
	for _, r := range rules {
		switch r.kind {
		case ruleExclude:
			if err := f.Exclude(r.text); err != nil {
				return nil, usagef("--exclude: %w", err)
			}
		case ruleInclude:
			if err := f.Include(r.text); err != nil {
				return nil, usagef("--include: %w", err)
			}
		case ruleFile:
			if err := readRules(ctx, f, r.text); err != nil {
				return nil, fmt.Errorf("cannot take rules from %s: %w", quoted(r.text), withoutPath(err))
			}
		}
	}
	return f, nil
}

func readRules(ctx context.Context, f *hostfs.Filter, name string) error {
	_, err := readNamed(ctx, name, func(file *os.File) (struct{}, error) { return struct{}{}, f.ReadRules(file) })
	return err
}

// gather turns the command line and the lists into operands for the walk.
func (r *adder) gather(ctx context.Context) error {
	if r.opt.dir != "" {
		fi, err := os.Stat(r.opt.dir)
		if err == nil && !fi.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return fmt.Errorf("cannot add from directory %s: %w", quoted(r.opt.dir), withoutPath(err))
		}
	}
	prefix, err := targetPrefix(r.opt.to)
	if err != nil {
		return err
	}
	filter, err := buildFilter(ctx, r.opt.rules)
	if err != nil {
		return err
	}
	r.walk.Dir, r.walk.Prefix, r.walk.Filter = r.opt.dir, prefix, filter
	r.walk.ExcludeCaches, r.walk.OneFileSystem, r.walk.Dereference = r.opt.excludeCaches, r.opt.oneFileSystem, r.opt.dereference
	r.walk.NoXattrs, r.walk.NoHoles, r.walk.FitSparse = r.opt.reproducible, r.opt.reproducible, fitSparse
	r.links = linker{off: r.opt.reproducible, loose: r.opt.dereference}
	r.walk.Jobs, r.walk.Times = r.a.jobs(), &r.walked
	missing := false
	for _, host := range r.opt.paths {
		if host == "-" {
			if r.stdin, err = stdinPath(r.opt.stdinName, prefix); err != nil {
				return err
			}
			continue
		}
		if lerr := r.lookup(host); lerr != nil {
			missing = true
			r.a.fail(&failure{code: exitMissing, err: fmt.Errorf("cannot add %s: %w", quoted(host), withoutPath(lerr))})
			continue
		}
		if err := r.operand(host, prefix); err != nil {
			return err
		}
		r.named[host] = true
	}
	if missing {
		f := &failure{code: exitMissing, err: errors.New("nothing was changed")}
		if r.opt.dir != "" {
			f.hint = "paths are looked up in the directory " + quoted(r.opt.dir) + " (-C)"
		}
		return f
	}
	for _, list := range []struct {
		name string
		nul  bool
	}{{r.opt.filesFrom, false}, {r.opt.filesFrom0, true}} {
		if list.name != "" {
			if err := r.readList(ctx, list.name, list.nul, prefix); err != nil {
				return err
			}
		}
	}
	return r.checkOperands()
}

// targetPrefix is the stored path that --to names.
func targetPrefix(to string) (pathsafe.Path, error) {
	name := storedName(to)
	if name == "" {
		return pathsafe.Path{}, nil
	}
	p, err := pathsafe.Parse(name)
	if err != nil {
		return p, usagef("--to %s: %w", quoted(to), err)
	}
	return p, nil
}

func stdinPath(name string, prefix pathsafe.Path) (pathsafe.Path, error) {
	p, err := pathsafe.Parse(storedName(name))
	if err == nil {
		p, err = prefix.JoinPath(p)
	}
	if err != nil {
		return p, usagef("--stdin-name %s: %w", quoted(name), err)
	}
	return p, nil
}

// lookup reports that a path the user named does not exist. Other faults are for the walk to report.
func (r *adder) lookup(host string) error {
	_, err := os.Lstat(hostfs.HostPath(r.opt.dir, host))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}

func (r *adder) operand(host string, prefix pathsafe.Path) error {
	stored, err := pathsafe.FromOperand(host)
	if err == nil {
		stored, err = prefix.JoinPath(stored)
	}
	if err != nil {
		return usagef("%s cannot be stored: %w", quoted(host), err)
	}
	r.ops = append(r.ops, hostfs.Operand{Host: host, Stored: stored})
	return nil
}

// readList takes the paths of a --files-from list. One that is missing is named and passed over, and so is
// one that comes twice.
func (r *adder) readList(ctx context.Context, name string, nul bool, prefix pathsafe.Path) error {
	var hosts []string
	var err error
	if name == "-" {
		hosts, err = listed(interruptibleReader(ctx, r.a.sys.stdin), nul)
	} else {
		hosts, err = readNamed(ctx, name, func(f *os.File) ([]string, error) { return listed(f, nul) })
	}
	if err != nil {
		return fmt.Errorf("cannot read the list %s: %w", quoted(name), withoutPath(err))
	}
	seen := make(map[string]bool)
	for _, op := range r.ops {
		seen[op.Host] = true
	}
	for _, host := range hosts {
		if seen[host] {
			continue
		}
		seen[host] = true
		if lerr := r.lookup(host); lerr != nil {
			r.skipped++
			r.a.fail(&failure{code: exitSkipped, err: fmt.Errorf("cannot add %s of the list %s: %w", quoted(host), quoted(name), withoutPath(lerr))})
			continue
		}
		if err := r.operand(host, prefix); err != nil {
			return err
		}
	}
	return nil
}

// listed is what a list names.
func listed(in io.Reader, nul bool) (hosts []string, _ error) {
	for host, err := range hostfs.ReadNames(in, nul) {
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// checkOperands puts the operands in order and refuses two that want one stored path.
func (r *adder) checkOperands() error {
	ops, err := hostfs.CheckOperands(r.ops, r.walk)
	if errors.Is(err, hostfs.ErrCollision) || errors.Is(err, hostfs.ErrOverlap) {
		return &failure{code: exitUsage, err: err}
	}
	if err != nil {
		return err
	}
	for _, op := range ops {
		if !r.stdin.IsZero() && op.Stored == r.stdin {
			return usagef("standard input and %s would both be stored as %s", quoted(op.Host), quoted(r.stdin.String()))
		}
	}
	r.ops = ops
	return nil
}

// interruptibleReader reads r in a goroutine of its own, so that a wait for input that does not
// come ends with ctx.
func interruptibleReader(ctx context.Context, r io.Reader) io.Reader {
	p := &pump{ctx: ctx, full: make(chan chunk), empty: make(chan []byte, 2)}
	p.empty <- make([]byte, 256<<10)
	p.empty <- make([]byte, 256<<10)
	go p.run(r)
	return p
}

type pump struct {
	ctx   context.Context
	full  chan chunk
	empty chan []byte
	cur   chunk
	rest  []byte
}

type chunk struct {
	buf []byte
	n   int
	err error
}

func (p *pump) run(r io.Reader) {
	for {
		var buf []byte
		select {
		case buf = <-p.empty:
		case <-p.ctx.Done():
			return
		}
		n, err := r.Read(buf)
		select {
		case p.full <- chunk{buf, n, err}:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.cur.err != nil {
			return 0, p.cur.err
		}
		if p.cur.buf != nil {
			p.empty <- p.cur.buf
			p.cur.buf = nil
		}
		select {
		case p.cur = <-p.full:
			p.rest = p.cur.buf[:p.cur.n]
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
