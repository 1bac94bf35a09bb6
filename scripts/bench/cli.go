package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sourceTree is the Go source in the working directory, with an archive of it by every program.
type sourceTree struct{ dir, lbx, zip, tar, squash, seven, wim string }

func (b *bench) sourceTree() (*sourceTree, error) {
	t := &sourceTree{dir: filepath.Join(b.tmp, "src")}
	for name, field := range map[string]*string{"go.lbx": &t.lbx, "go.zip": &t.zip, "go.tar.zst": &t.tar, "go.squashfs": &t.squash, "go.7z": &t.seven, "go.wim": &t.wim} {
		*field = filepath.Join(b.tmp, name)
	}
	if _, err := os.Stat(t.dir); err == nil {
		return t, nil
	}
	src, err := filepath.EvalSymlinks(filepath.Join(b.goroot, "src"))
	if err != nil {
		return nil, err
	}
	return t, copyTree(src, t.dir)
}

// processes measures whole commands.
func (b *bench) processes() error {
	t, err := b.sourceTree()
	if err != nil {
		return err
	}
	if err := b.wholeTree(t); err != nil {
		return err
	}
	if b.wanted(3, "version") {
		if err := b.startUp(); err != nil {
			return err
		}
	}
	if err := b.many(); err != nil {
		return err
	}
	if !b.quick && b.wanted(3, "add one to 1 GiB") {
		if err := b.large(); err != nil {
			return err
		}
	}
	if b.wanted(3, "repeated changes") {
		if err := b.changes(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) wholeTree(t *sourceTree) error {
	out := filepath.Join(b.tmp, "out")
	create := []command{
		{name: "lockbox", args: []string{b.bin, "add", t.lbx, "-C", t.dir, ".", "--quiet"}, clear: []string{t.lbx}},
		{name: "zip", need: "zip", dir: t.dir, args: []string{"zip", "-q", "-r", t.zip, "."}, clear: []string{t.zip}, goal: 0.16},
		{name: "tar + zstd -3 -T2", need: "zstd", args: []string{"tar", "-C", t.dir, "-I", "zstd -q -3 -T2", "-cf", t.tar, "."}, clear: []string{t.tar}, goal: 1.1},
		{name: "mksquashfs zstd -3", need: "mksquashfs", args: []string{"mksquashfs", t.dir, t.squash, "-comp", "zstd", "-Xcompression-level", "3", "-quiet", "-no-progress", "-noappend"}, clear: []string{t.squash}, goal: 1.0},
		{name: "7z -mx1", need: "7z", dir: t.dir, args: []string{"7z", "a", "-bso0", "-bsp0", "-mx1", t.seven, "."}, clear: []string{t.seven}},
		{name: "wimlib capture", need: "wimlib-imagex", args: []string{"wimlib-imagex", "capture", t.dir, t.wim}, clear: []string{t.wim}},
	}
	if b.wanted(3, "add") {
		if err := b.commands(3, "add the Go source", b.samples, create...); err != nil {
			return err
		}
		for _, peer := range []struct {
			name, file string
			goal       float64
		}{{"zip", t.zip, 0.90}, {"tar + zstd", t.tar, 0}, {"mksquashfs", t.squash, 0}, {"7z", t.seven, 0}} {
			mine, err := os.Stat(t.lbx)
			if err != nil {
				return err
			}
			theirs, err := os.Stat(peer.file)
			if err != nil {
				continue // its row says that it is not installed
			}
			b.report.add(row{section: 3, workload: "size of the Go source, against " + peer.name, ours: megabytes(mine.Size()),
				against: megabytes(theirs.Size()), value: float64(mine.Size()) / float64(theirs.Size()), goal: peer.goal})
		}
	}
	for _, c := range create { // for whoever skipped the first part
		if _, err := os.Stat(c.clear[0]); err != nil && (c.need == "" || installed(c.need)) {
			if _, err := b.exec(c.dir, c.args...); err != nil {
				return err
			}
		}
	}
	if b.wanted(3, "extract") {
		if err := b.commands(3, "extract the Go source", b.samples,
			command{name: "lockbox", args: []string{b.bin, "extract", t.lbx, "-d", out, "--quiet"}, clear: []string{out}},
			command{name: "unzip", need: "unzip", args: []string{"unzip", "-q", t.zip, "-d", out}, clear: []string{out}, goal: 0.4},
			command{name: "tar + zstd", need: "zstd", args: []string{"tar", "-I", "zstd -q", "-xf", t.tar, "-C", out}, clear: []string{out}, make: []string{out}, goal: 1.0},
			command{name: "unsquashfs", need: "unsquashfs", args: []string{"unsquashfs", "-q", "-n", "-d", out, t.squash}, clear: []string{out}, goal: 1.0},
			command{name: "wimlib apply", need: "wimlib-imagex", args: []string{"wimlib-imagex", "apply", t.wim, out}, clear: []string{out}},
			command{name: "7z x", need: "7z", args: []string{"7z", "x", "-bso0", "-bsp0", "-o" + out, t.seven}, clear: []string{out}}); err != nil {
			return err
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	if b.wanted(3, "verify") {
		return b.commands(3, "verify the Go source, every byte", b.samples,
			command{name: "lockbox", args: []string{b.bin, "verify", t.lbx, "--full", "--quiet"}},
			command{name: "unzip -t", need: "unzip", args: []string{"unzip", "-tqq", t.zip}, goal: 0.2},
			command{name: "zstd -t", need: "zstd", args: []string{"zstd", "-tq", t.tar}, goal: 1.2},
			command{name: "wimlib verify", need: "wimlib-imagex", args: []string{"wimlib-imagex", "verify", t.wim}},
			command{name: "7z t", need: "7z", args: []string{"7z", "t", "-bso0", "-bsp0", t.seven}})
	}
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// startUp compares `lockbox version` with a program that prints a line.
func (b *bench) startUp() error {
	hello := filepath.Join(b.tmp, "hello")
	if err := os.WriteFile(hello+".go", []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", hello, hello+".go")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return b.commands(3, "version", 3*b.samples,
		command{name: "lockbox", args: []string{b.bin, "version"}},
		command{name: "a program that prints a line", args: []string{hello}, goal: 2})
}

// many measures commands on an archive of 200,000 small files.
func (b *bench) many() (err error) {
	const count = 200_000
	if b.quick || !b.wanted(3, "200,000 entries") {
		return nil
	}
	name := func(i int) string { return fmt.Sprintf("d%03d/f%06d", i/1000, i) }
	files := func(yield func(file) bool) {
		for i := range count {
			if !yield(file{name(i), fmt.Appendf(nil, "file %d has little in it\n", i)}) {
				return
			}
		}
	}
	lbx, zipped, sqlar, dir := filepath.Join(b.tmp, "many.lbx"), filepath.Join(b.tmp, "many.zip"), filepath.Join(b.tmp, "many.sqlar"), filepath.Join(b.tmp, "many")
	defer func() {
		for _, n := range []string{lbx, zipped, sqlar, dir} {
			err = errors.Join(err, os.RemoveAll(n))
		}
	}()
	if err := writeLockbox(b.ctx, lbx, files); err != nil {
		return err
	}
	var all []file
	for f := range files {
		all = append(all, f)
	}
	if err := writeZip(zipped, all, true); err != nil {
		return err
	}
	sqlite := command{name: "sqlar (sqlite3)", need: "sqlite3", args: []string{"sqlite3", sqlar, "SELECT sqlar_uncompress(data, sz) FROM sqlar WHERE name = '" + name(123456) + "'"}, goal: 2.0}
	if installed("sqlite3") {
		for _, f := range all {
			host := filepath.Join(dir, filepath.FromSlash(f.name))
			if err := os.MkdirAll(filepath.Dir(host), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(host, f.data, 0o644); err != nil {
				return err
			}
		}
		tops, err := filepath.Glob(filepath.Join(dir, "d*"))
		if err != nil {
			return err
		}
		args := []string{"sqlite3", sqlar, "-Ac"}
		for _, d := range tops {
			args = append(args, filepath.Base(d))
		}
		if _, err := b.exec(dir, args...); err != nil {
			return err
		}
	}
	if err := b.commands(3, "list 200,000 entries", b.samples,
		command{name: "lockbox", args: []string{b.bin, "list", lbx}},
		command{name: "unzip -l", need: "unzip", args: []string{"unzip", "-l", zipped}, goal: 0.3}); err != nil {
		return err
	}
	if err := b.commands(3, "cat one of 200,000", 3*b.samples,
		command{name: "lockbox", args: []string{b.bin, "cat", lbx, name(123456)}}, sqlite,
		command{name: "unzip -p", need: "unzip", args: []string{"unzip", "-p", zipped, name(123456)}, goal: 0.3}); err != nil {
		return err
	}
	return b.addOne("200,000 entries", lbx, zipped)
}

// large measures adding to an archive of 1 GiB that does not compress.
func (b *bench) large() (err error) {
	files, err := b.files(16, 64*mib, false)
	if err != nil {
		return err
	}
	lbx, zipped := filepath.Join(b.tmp, "large.lbx"), filepath.Join(b.tmp, "large.zip")
	defer func() { err = errors.Join(err, os.Remove(lbx), os.Remove(zipped)) }()
	if err := writeLockbox(b.ctx, lbx, func(yield func(file) bool) {
		for _, f := range files {
			if !yield(f) {
				return
			}
		}
	}); err != nil {
		return err
	}
	if err := writeZip(zipped, files, false); err != nil {
		return err
	}
	return b.addOne("1 GiB", lbx, zipped)
}
