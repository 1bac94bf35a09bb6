package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	bin := flag.String("lockbox", "bin/lockbox", "the binary to show")
	src := flag.String("src", "", "the tree to archive (default: the Go toolchain's source)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bin, *src); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: failed: %v\n", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	ctx  context.Context
	bin  string
	src  string
	tmp  string
	arch string
	step int
}

func run(ctx context.Context, bin, src string) (err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if src == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("asking go for GOROOT: %w", err)
		}
		src = filepath.Join(strings.TrimSpace(string(out)), "src")
	}
	// Debian keeps GOROOT/src as a link; a link named as an operand would be stored as a link.
	if src, err = filepath.EvalSymlinks(src); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "lockbox-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(tmp)) }()
	d := &demo{ctx: ctx, bin: bin, src: src, tmp: tmp, arch: filepath.Join(tmp, "go.lbx")}
	return d.all()
}

func (d *demo) all() error {
	want, err := walk(d.ctx, d.src, true)
	if err != nil {
		return err
	}
	files, dirs, total := want.sum()
	fmt.Printf("Source: %s: %d files in %d directories, %s\n", d.src, files, dirs, size(total))
	fmt.Printf("Working in %s, which is removed at the end.\n\n", d.tmp)

	var lb, zp times

	// "." stores the directory's contents at the top of the archive.
	out, took, err := d.lockbox("archive the whole tree in one transaction", "add", d.arch, "-C", d.src, ".")
	if err != nil {
		return err
	}
	d.show(out, 3)
	lb.create = took
	if lb.size, err = fileSize(d.arch); err != nil {
		return err
	}

	if out, _, err = d.lockbox("list every name", "list", d.arch, "-0"); err != nil {
		return err
	}
	if err := want.sameNames(out); err != nil {
		return err
	}
	d.say("%d names, each one that the source has", strings.Count(string(out), "\x00"))

	if out, _, err = d.lockbox("show what the archive says of itself", "info", d.arch); err != nil {
		return err
	}
	d.show(out, 40)

	if out, took, err = d.lockbox("read and check every byte", "verify", d.arch, "--full"); err != nil {
		return err
	}
	d.show(out, 3)
	lb.verify = took

	one, err := want.sample()
	if err != nil {
		return err
	}
	if out, took, err = d.lockbox("read one file out of it", "cat", d.arch, one); err != nil {
		return err
	}
	plain, err := os.ReadFile(filepath.Join(d.src, filepath.FromSlash(one)))
	if err != nil {
		return err
	}
	if !bytes.Equal(out, plain) {
		return fmt.Errorf("%s: what cat printed is not what the source has", one)
	}
	d.say("%d bytes, equal to the source; %s for the whole process", len(out), brief(took))

	if err := d.replace(want); err != nil {
		return err
	}

	dest := filepath.Join(d.tmp, "extracted")
	if out, took, err = d.lockbox("extract everything", "extract", d.arch, "--dest", dest); err != nil {
		return err
	}
	d.show(out, 3)
	lb.extract = took
	d.head("compare what was extracted with the source", "(a walk of this program's own)")
	got, err := walk(d.ctx, dest, false)
	if err != nil {
		return err
	}
	if err := want.same(d.ctx, got); err != nil {
		return err
	}
	files, dirs, total = want.sum()
	links := len(want.entries) - files - dirs
	d.say("equal: %d files, %d directories, %s; symbolic links: %d", files, dirs, size(total), links)
	if runtime.GOOS == "windows" {
		d.say("compared: names, kinds, bytes, modification times to the nanosecond")
	} else {
		d.say("compared: names, kinds, bytes, modes, link targets, modification times to the nanosecond")
	}
	if err := removeAll(dest); err != nil {
		return err
	}

	if err := d.rearrange(want); err != nil {
		return err
	}

	d.head("do the same work with ZIP", "(archive/zip, deflate, in this process)")
	if zp, err = zipAll(d.ctx, d.src, d.tmp); err != nil {
		return err
	}
	d.table(&lb, &zp)
	return nil
}

// replace changes some files of copies of two directories, adds those over the stored ones and notes in want
// what the archive holds from then on.
func (d *demo) replace(want *tree) error {
	edit := filepath.Join(d.tmp, "edited")
	n, err := want.edit("fmt", edit)
	if err != nil {
		return err
	}
	out, took, err := d.lockbox(fmt.Sprintf("replace a directory: %d files changed, one new, one new link", n), "add", d.arch, "-C", edit, "fmt")
	if err != nil {
		return err
	}
	d.show(out, 3)
	d.say("%s for the whole process", brief(took))

	loose := filepath.Join(d.tmp, "loose")
	if err := want.loose("strings", loose, "builder.go", "added_by_demo.go"); err != nil {
		return err
	}
	if out, _, err = d.lockbox("put two loose files below a stored directory", "add", d.arch, "-C", loose, "--to", "strings", "builder.go", "added_by_demo.go"); err != nil {
		return err
	}
	d.show(out, 3)

	if out, _, err = d.lockbox("check every byte again", "verify", d.arch, "--full"); err != nil {
		return err
	}
	d.show(out, 3)
	return nil
}

// rearrange removes a directory, renames another, gives the freed space back and takes a copy, and notes in
// want what the archive holds from then on.
func (d *demo) rearrange(want *tree) error {
	before, err := fileSize(d.arch)
	if err != nil {
		return err
	}
	saved := filepath.Join(d.tmp, "copy.lbx")
	for _, step := range []struct {
		what string
		args []string
	}{
		{"remove a directory; its bytes are overwritten", []string{"remove", d.arch, "net"}},
		{"rename another; no data moves", []string{"move", d.arch, "sort", "sorted"}},
		{"give the freed space back", []string{"compact", d.arch}},
		{"copy one state of the archive", []string{"copy", d.arch, saved}},
		{"check every byte of the copy", []string{"verify", saved, "--full"}},
	} {
		out, _, err := d.lockbox(step.what, step.args...)
		if err != nil {
			return err
		}
		d.show(out, 3)
	}
	want.forget("net")
	want.rename("sort", "sorted")
	out, _, err := d.lockbox("list the copy", "list", saved, "-0")
	if err != nil {
		return err
	}
	if err := want.sameNames(out); err != nil {
		return err
	}
	after, err := fileSize(d.arch)
	if err != nil {
		return err
	}
	if after >= before {
		return fmt.Errorf("compacting left the archive at %d bytes, it had %d", after, before)
	}
	d.say("%d names, as expected; %s smaller", strings.Count(string(out), "\x00"), size(before-after))
	return nil
}

// lockbox runs one command and returns what it printed and how long the process took.
func (d *demo) lockbox(what string, args ...string) ([]byte, time.Duration, error) {
	shown := "lockbox"
	for _, a := range args {
		a = strings.ReplaceAll(a, d.arch, "go.lbx")
		a = strings.ReplaceAll(a, d.tmp+string(filepath.Separator), "")
		shown += " " + a
	}
	d.head(what, "$ "+shown)
	if err := d.ctx.Err(); err != nil {
		return nil, 0, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(d.ctx, d.bin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w\n%s", shown, err, errs.String())
	}
	if errs.Len() > 0 {
		return nil, 0, fmt.Errorf("%s succeeded but warned:\n%s", shown, errs.String())
	}
	return out.Bytes(), took, nil
}

func fileSize(name string) (int64, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// removeAll removes a tree whose directories may be read-only.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			return os.Chmod(name, 0o700)
		}
		return err
	})
	return errors.Join(walkErr, os.RemoveAll(dir))
}
