package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// op is a command that is interrupted, with the states it leads from and to.
type op struct {
	name string
	from string // archive that is there before, "" for none
	args func(dir string) []string
	file string                  // what it changes or makes, in dir: target, made or outDir
	gone func(path string) error // what must hold once the change is complete; nil for nothing
	over bool                    // outDir holds other versions of everything before
	plan plan                    // what the file system is made not to have

	fx       *fixture
	old, new string
	took     time.Duration
}

// ops returns the commands of this binary, with their states before and after, learned from a run without a blow. Where
// the tracer works, files are made in all the ways that file systems ask for.
func (fx *fixture) ops(traced bool) ([]*op, []error) {
	gone2 := func(path string) error { return gone(path, fx.secret, secretName) }
	replaced := func(path string) error { return errors.Join(gone(path, fx.secret), gone(path, fx.big)) }
	in := func(args ...string) func(string) []string {
		return func(dir string) []string {
			a := slices.Clone(args)
			for i := range a {
				if a[i] == target || a[i] == made || a[i] == outDir {
					a[i] = filepath.Join(dir, a[i])
				}
			}
			return a
		}
	}
	all := []*op{
		{name: "create", file: made, args: in("create", made)},
		{name: "add new archive", file: made, args: in("add", made, "-C", fx.base, ".")},
		{name: "add", from: fx.archive, file: target, args: in("add", target, "-C", fx.more, ".")},
		{name: "add replacing", from: fx.archive, file: target, args: in("add", target, "-C", fx.change, "."), gone: replaced},
		{name: "add to unclean", from: fx.unclean, file: target, args: in("add", target, "-C", fx.change, "."), gone: replaced},
		{name: "add with wipe due", from: fx.pending, file: target, args: in("add", target, "-C", fx.more, "."), gone: replaced},
		{name: "remove", from: fx.archive, file: target, args: in("remove", target, secretName, "docs/b.txt"), gone: gone2},
		{name: "move", from: fx.archive, file: target, args: in("move", target, secretName, "docs/sub/moved.bin"),
			gone: func(path string) error { return gone(path, nil, secretName) }},
		{name: "compact", from: fx.holes, file: target, args: in("compact", target)},
		{name: "copy", from: fx.archive, file: made, args: in("copy", target, made)},
		{name: "recover", from: fx.archive, file: made, args: in("recover", target, "-o", made)},
		{name: "extract", from: fx.archive, file: outDir, args: in("extract", target, "-d", outDir)},
		{name: "extract over", from: fx.archive, file: outDir, over: true, args: in("extract", target, "-d", outDir, "--overwrite")},
	}
	if traced {
		for _, like := range []int{1, 11, 12} {
			named := *all[like]
			named.name, named.plan = named.name+", named", plan{NoAnon: true}
			linked := *all[like]
			linked.name, linked.plan = linked.name+", linked", plan{NoAnon: true, NoSwap: true}
			all = append(all, &named, &linked)
		}
	}
	var errs []error
	all = slices.DeleteFunc(all, func(o *op) bool {
		o.fx = fx
		if err := o.learn(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.name, err))
			return true
		}
		return false
	})
	return all, errs
}

// learn runs the command without a blow.
func (o *op) learn() error {
	cmd := o.args("")[0]
	if !o.fx.r.has[cmd] {
		return skipError{"this lockbox has no command " + cmd}
	}
	if o.from == "" && o.args("")[1] == target {
		return skipError{"the archive it starts from could not be made here"}
	}
	dir, err := o.fresh()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, o.file)
	if o.file != outDir {
		if o.old, err = o.fx.listing(path); err != nil {
			return err
		}
	}
	res := o.fx.r.lockbox(o.args(dir)...)
	if o.took = res.took; res.code != 0 {
		return errors.New(res.why())
	}
	if o.file == outDir {
		return sameTree(o.fx.base, path, false, false)
	}
	if o.new, err = o.fx.listing(path); err != nil {
		return err
	}
	if o.gone != nil {
		return o.gone(path)
	}
	return nil
}

// fresh makes a directory in which the command can run.
func (o *op) fresh() (string, error) {
	dir, err := os.MkdirTemp(o.fx.r.dir, "op-")
	if err == nil && o.from != "" {
		err = copyFile(o.from, filepath.Join(dir, target))
	}
	if err == nil && o.over {
		err = olderTree(o.fx.base, filepath.Join(dir, outDir))
	}
	return dir, err
}

// again runs a command as the first one ran: on a file system that has the same things.
func (o *op) again(args ...string) (*result, error) {
	if !o.plan.NoAnon && !o.plan.NoSwap {
		return o.fx.r.lockbox(args...), nil
	}
	res, _, err := o.fx.r.traced(o.plan, args...)
	return res, err
}

// olderText is what a file to be overwritten holds.
const olderText = "an older version\n"

// olderTree makes a tree in which every file and link of another one stands for something else.
func olderTree(like, tree string) error {
	return filepath.WalkDir(like, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(like, p)
		to := filepath.Join(tree, rel)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(to, 0o755)
		case d.Type() == fs.ModeSymlink:
			return os.Symlink("older", to)
		}
		return os.WriteFile(to, []byte(olderText), 0o600)
	})
}

// examine looks at what a blow left in dir, then lets the next writer at it and looks again. It returns which
// state it found.
func (o *op) examine(dir string) (state string, err error) {
	if o.file != target && o.from != "" { // what is only read
		if err := sameBytes(o.from, filepath.Join(dir, target)); err != nil {
			return "", fmt.Errorf("the archive that was only read has changed: %w", err)
		}
	}
	if o.file == outDir {
		return o.examineTree(dir)
	}
	path := filepath.Join(dir, o.file)
	now, err := o.sound(path)
	if err != nil {
		return "", fmt.Errorf("after it: %w", err)
	}
	switch now {
	case o.new:
		state = "new"
	case o.old:
		state = "old"
	default:
		return "", fmt.Errorf("neither the old nor the new state:\n%s", diffLines(o.old, o.new, now))
	}
	next := []string{"add", path, "-C", o.fx.last, "."}
	if now == "" {
		next = o.args(dir)
	}
	res, err := o.again(next...)
	if err != nil {
		return state, err
	}
	if res.code != 0 {
		return state, fmt.Errorf("state %s, but the next writer fails: %s", state, res.why())
	}
	then, err := o.sound(path)
	if err != nil {
		return state, fmt.Errorf("after the next writer: %w", err)
	}
	want := now
	if now == "" {
		want = o.new
	}
	if without(then, `"path":"last.txt"`) != want {
		return state, fmt.Errorf("the next writer changed more than it should:\n%s", diffLines(now, now, then))
	}
	if state == "new" && o.gone != nil {
		if err := o.gone(path); err != nil {
			return state, fmt.Errorf("after the next writer: %w", err)
		}
	}
	if o.plan.NoAnon {
		// Temporary files with names are removed by the next run that needs one itself.
		other := filepath.Join(dir, "other.lbx")
		res, err := o.again("create", other)
		if err != nil || res.code != 0 {
			return state, errors.Join(err, errors.New(res.why()))
		}
		if err := os.Remove(other); err != nil {
			return state, err
		}
	}
	return state, o.strays(dir)
}

// examineTree does the same for a directory that was being extracted to.
func (o *op) examineTree(dir string) (state string, err error) {
	out := filepath.Join(dir, outDir)
	if _, err := os.Stat(out); err == nil {
		if err := sameTree(o.fx.base, out, true, o.over); err != nil {
			return "", fmt.Errorf("after it: %w", err)
		}
	}
	state = "old"
	if sameTree(o.fx.base, out, false, false) == nil {
		state = "new"
	}
	args := o.args(dir)
	if !o.over {
		args = append(args, "--overwrite")
	}
	res, err := o.again(args...)
	if err != nil {
		return state, err
	}
	if res.code != 0 {
		return state, fmt.Errorf("it cannot be repeated: %s", res.why())
	}
	if err := sameTree(o.fx.base, out, false, false); err != nil {
		return state, fmt.Errorf("after it was repeated: %w", err)
	}
	return state, o.strays(dir)
}

// strays finds what no command should leave.
func (o *op) strays(dir string) error {
	es, err := os.ReadDir(dir)
	for _, e := range es {
		if n := e.Name(); n != target && n != made && n != outDir {
			err = errors.Join(err, fmt.Errorf("%s was left behind by a killed run and by the next one", n))
		}
	}
	return err
}

// sound returns an archive's state after a full verification.
func (o *op) sound(path string) (string, error) {
	now, err := o.fx.listing(path)
	if err != nil || now == "" {
		return now, err
	}
	return now, o.fx.r.must("verify", path, "--full")
}

func sameBytes(a, b string) error {
	x, err := os.ReadFile(a)
	if err != nil {
		return err
	}
	y, err := os.ReadFile(b)
	if err == nil && !bytes.Equal(x, y) {
		err = fmt.Errorf("%d bytes, %d before, or other ones", len(y), len(x))
	}
	return err
}

func without(listing, line string) string {
	var b strings.Builder
	for l := range strings.Lines(listing) {
		if !strings.Contains(l, line) {
			b.WriteString(l)
		}
	}
	return b.String()
}

// diffLines shows the lines of now that are in neither of two states, and those of the old one that it lacks.
func diffLines(old, new, now string) string {
	var b strings.Builder
	for l := range strings.Lines(now) {
		if !strings.Contains(old, l) && !strings.Contains(new, l) {
			b.WriteString("+ " + l)
		}
	}
	for l := range strings.Lines(old) {
		if !strings.Contains(now, l) {
			b.WriteString("- " + l)
		}
	}
	return b.String()
}

// info is what info --json says.
type info struct {
	Generation *uint64 `json:"generation"`
	Pending    *int64  `json:"pending_wipe"`
}

func (r *run) info(path string) (in info, err error) {
	res := r.lockbox("info", path, "--json")
	if res.code != 0 {
		return in, errors.New(res.why())
	}
	if err := json.Unmarshal([]byte(res.out), &in); err != nil {
		return in, err
	}
	if in.Generation == nil || in.Pending == nil {
		err = errors.New("info --json lacks generation or pending_wipe")
	}
	return in, err
}

// pendingWipe asks for the bytes that wait to be wiped.
func (fx *fixture) pendingWipe(path string) (int64, error) {
	in, err := fx.r.info(path)
	if err != nil {
		return 0, err
	}
	return *in.Pending, nil
}

func (r *run) generation(path string) (uint64, error) {
	in, err := r.info(path)
	if err != nil {
		return 0, err
	}
	return *in.Generation, nil
}

// forEach calls fn for 1, 2, … in two goroutines until one call returns false or an error.
func forEach(fn func(n int) (more bool, err error)) error {
	var mu sync.Mutex
	var first error
	next, stop := 0, false
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				mu.Lock()
				next++
				n, done := next, stop
				mu.Unlock()
				if done {
					return
				}
				more, err := fn(n)
				mu.Lock()
				stop = stop || !more || err != nil
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return first
}
