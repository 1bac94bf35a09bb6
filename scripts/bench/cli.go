package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"

	"lockbox/internal/bench"
)

// sourceTree is the Go source in the working directory, with an archive of it by every program.
type sourceTree struct{ dir, lbx, zip, tar, squash, seven, wim, sqlar, restic string }

func (b *run) sourceTree() (*sourceTree, error) {
	t := &sourceTree{dir: filepath.Join(b.tmp, "src")}
	for name, field := range map[string]*string{"go.lbx": &t.lbx, "go.zip": &t.zip, "go.tar.zst": &t.tar, "go.squashfs": &t.squash, "go.7z": &t.seven, "go.wim": &t.wim, "go.sqlar": &t.sqlar, "go.restic": &t.restic} {
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

// commandLine is the section of whole commands.
const commandLine = "commands"

// commandLine measures whole commands.
func (b *run) commandLine() error {
	t, err := b.sourceTree()
	if err != nil {
		return err
	}
	if err := b.wholeTree(t); err != nil {
		return err
	}
	if b.wanted(commandLine, "version") {
		if err := b.startUp(); err != nil {
			return err
		}
	}
	if err := b.many(); err != nil {
		return err
	}
	if !b.quick && b.wanted(commandLine, "add one 1 KiB file to 1 GiB") {
		return b.large()
	}
	return nil
}

func (b *run) wholeTree(t *sourceTree) error {
	out := filepath.Join(b.tmp, "out")
	create := []command{
		{name: "lockbox", args: []string{b.bin, "add", t.lbx, "-C", t.dir, ".", "--quiet"}, clear: []string{t.lbx}},
		{name: "zip", need: "zip", dir: t.dir, args: []string{"zip", "-q", "-r", t.zip, "."}, clear: []string{t.zip}, goal: 0.16},
		{name: "tar + zstd -3 -T2", need: "zstd", args: []string{"tar", "-C", t.dir, "-I", "zstd -q -3 -T2", "-cf", t.tar, "."}, clear: []string{t.tar}, goal: 1.1},
		{name: "mksquashfs zstd -3", need: "mksquashfs", args: []string{"mksquashfs", t.dir, t.squash, "-comp", "zstd", "-Xcompression-level", "3", "-quiet", "-no-progress", "-noappend"}, clear: []string{t.squash}, goal: 1.0},
		{name: "7z -mx1", need: "7z", dir: t.dir, args: []string{"7z", "a", "-bso0", "-bsp0", "-mx1", t.seven, "."}, clear: []string{t.seven}},
		{name: "wimlib capture", need: "wimlib-imagex", args: []string{"wimlib-imagex", "capture", t.dir, t.wim}, clear: []string{t.wim}},
	}
	tops, err := topNames(t.dir)
	if err != nil {
		return err
	}
	password := filepath.Join(b.tmp, "password") // restic cannot do without
	if err := os.WriteFile(password, []byte("lockbox\n"), 0o600); err != nil {
		return err
	}
	restic := []string{"restic", "-q", "-r", t.restic, "--no-cache", "-p", password}
	create = append(create,
		command{name: "sqlar (sqlite3)", need: "sqlite3", dir: t.dir, args: append([]string{"sqlite3", t.sqlar, "-Ac"}, tops...), clear: []string{t.sqlar}},
		command{name: "restic backup", need: "restic", dir: t.dir, args: append(restic, "backup", "."), clear: []string{t.restic}, first: [][]string{append(restic, "init")}})
	if b.wanted(commandLine, "add the Go source") {
		if err := b.commands("add the Go source", b.samples, create...); err != nil {
			return err
		}
		for _, peer := range []struct {
			name, file string
			goal       float64
		}{{"zip", t.zip, 0.90}, {"tar + zstd", t.tar, 0}, {"mksquashfs", t.squash, 0}, {"7z", t.seven, 0}, {"wimlib", t.wim, 0}, {"sqlar", t.sqlar, 0}, {"restic", t.restic, 0}} {
			theirs, err := diskUsage(peer.file)
			if errors.Is(err, fs.ErrNotExist) {
				continue // its row says that it is not installed
			}
			mine, merr := diskUsage(t.lbx)
			if err := errors.Join(err, merr); err != nil {
				return err
			}
			b.figure(commandLine, "size of the Go source, against "+peer.name, fmt.Sprintf("%s, %s %s", megabytes(mine), peer.name, megabytes(theirs)), float64(mine)/float64(theirs), "", peer.goal)
		}
	}
	for _, c := range create { // for whoever skipped the first part
		if _, err := os.Stat(c.clear[0]); err != nil && (c.need == "" || installed(c.need)) {
			for _, args := range append(c.first, c.args) {
				if _, err := b.exec(c.dir, args...); err != nil {
					return err
				}
			}
		}
	}
	if b.wanted(commandLine, "extract the Go source") {
		same := func() error { return sameFiles(t.dir, out) }
		if err := b.commands("extract the Go source", b.samples,
			command{name: "lockbox", args: []string{b.bin, "extract", t.lbx, "-d", out, "--quiet"}, clear: []string{out}, yields: same},
			command{name: "unzip", need: "unzip", args: []string{"unzip", "-q", t.zip, "-d", out}, clear: []string{out}, yields: same, goal: 0.4},
			command{name: "tar + zstd", need: "zstd", args: []string{"tar", "-I", "zstd -q", "-xf", t.tar, "-C", out}, clear: []string{out}, yields: same, make: []string{out}, goal: 1.0},
			command{name: "unsquashfs", need: "unsquashfs", args: []string{"unsquashfs", "-q", "-n", "-d", out, t.squash}, clear: []string{out}, yields: same, goal: 1.0},
			command{name: "wimlib apply", need: "wimlib-imagex", args: []string{"wimlib-imagex", "apply", t.wim, out}, clear: []string{out}, yields: same},
			command{name: "7z x", need: "7z", args: []string{"7z", "x", "-bso0", "-bsp0", "-o" + out, t.seven}, clear: []string{out}, yields: same},
			command{name: "sqlar (sqlite3)", need: "sqlite3", dir: b.tmp, args: []string{"sqlite3", t.sqlar, "-A", "--extract", "--directory", out}, clear: []string{out}, yields: same, make: []string{out}},
			command{name: "restic restore", need: "restic", args: append(restic, "restore", "latest", "--target", out), clear: []string{out}, yields: same}); err != nil {
			return err
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	if b.wanted(commandLine, "verify the Go source") {
		return b.commands("verify the Go source, every byte", b.samples,
			command{name: "lockbox", args: []string{b.bin, "verify", t.lbx, "--full", "--quiet"}},
			command{name: "unzip -t", need: "unzip", args: []string{"unzip", "-tqq", t.zip}, goal: 0.2},
			command{name: "zstd -t", need: "zstd", args: []string{"zstd", "-tq", t.tar}, goal: 1.2},
			command{name: "wimlib verify", need: "wimlib-imagex", args: []string{"wimlib-imagex", "verify", t.wim}},
			command{name: "7z t", need: "7z", args: []string{"7z", "t", "-bso0", "-bsp0", t.seven}},
			command{name: "restic check --read-data", need: "restic", args: append(restic, "check", "--read-data")})
	}
	return nil
}

// topNames are the names in a directory, sorted.
func topNames(dir string) ([]string, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names, nil
}

// diskUsage is the size of a file, or of all files below a directory.
func diskUsage(name string) (n int64, err error) {
	err = filepath.WalkDir(name, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	return n, err
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// startUp compares `lockbox version` with a program that prints a line.
func (b *run) startUp() error {
	hello := filepath.Join(b.tmp, "hello")
	if err := os.WriteFile(hello+".go", []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", hello, hello+".go")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return b.commands("version", 3*b.samples,
		command{name: "lockbox", args: []string{b.bin, "version"}},
		command{name: "a program that prints a line", args: []string{hello}, goal: 2})
}

// many measures commands on an archive of 200,000 small files.
func (b *run) many() (err error) {
	const count = 200_000
	if b.quick || !b.wanted(commandLine, "200,000 entries") {
		return nil
	}
	lbx, zipped, sqlar, dir := filepath.Join(b.tmp, "many.lbx"), filepath.Join(b.tmp, "many.zip"), filepath.Join(b.tmp, "many.sqlar"), filepath.Join(b.tmp, "many")
	defer func() {
		for _, n := range []string{lbx, zipped, sqlar, dir} {
			err = errors.Join(err, os.RemoveAll(n))
		}
	}()
	if err := bench.WriteLockbox(b.ctx, lbx, 0, tiny(count)); err != nil {
		return err
	}
	if err := bench.WriteZip(b.ctx, zipped, tiny(count), true); err != nil {
		return err
	}
	sqlite := command{name: "sqlar (sqlite3)", need: "sqlite3", args: []string{"sqlite3", sqlar, "SELECT sqlar_uncompress(data, sz) FROM sqlar WHERE name = '" + tinyName(123_456) + "'"}, goal: 2.0}
	if installed("sqlite3") {
		for f := range tiny(count) {
			host := filepath.Join(dir, filepath.FromSlash(f.Name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(host), 0o755), writeFile(host, &f)); err != nil {
				return err
			}
		}
		tops, err := topNames(dir)
		if err != nil {
			return err
		}
		if _, err := b.exec(dir, append([]string{"sqlite3", sqlar, "-Ac"}, tops...)...); err != nil {
			return err
		}
	}
	if err := b.commands("list 200,000 entries", b.samples,
		command{name: "lockbox", args: []string{b.bin, "list", lbx}},
		command{name: "unzip -l", need: "unzip", args: []string{"unzip", "-l", zipped}, goal: 0.3}); err != nil {
		return err
	}
	if err := b.commands("cat one of 200,000", 3*b.samples,
		command{name: "lockbox", args: []string{b.bin, "cat", lbx, tinyName(123_456)}}, sqlite,
		command{name: "unzip -p", need: "unzip", args: []string{"unzip", "-p", zipped, tinyName(123_456)}, goal: 0.3}); err != nil {
		return err
	}
	return b.addOne("200,000 entries", lbx, zipped)
}

// large measures adding to an archive of 1 GiB that does not compress.
func (b *run) large() (err error) {
	files := func(yield func(bench.File) bool) {
		for i := range 16 {
			if !yield(bench.Raw(fmt.Sprintf("file%02d", i), 64<<20, uint64(i))) {
				return
			}
		}
	}
	lbx, zipped := filepath.Join(b.tmp, "large.lbx"), filepath.Join(b.tmp, "large.zip")
	defer func() { err = errors.Join(err, os.RemoveAll(lbx), os.RemoveAll(zipped)) }()
	if err := errors.Join(bench.WriteLockbox(b.ctx, lbx, 0, files), bench.WriteZip(b.ctx, zipped, files, false)); err != nil {
		return err
	}
	return b.addOne("1 GiB", lbx, zipped)
}

// tiny are count files of a line each.
func tiny(count int) iter.Seq[bench.File] {
	return func(yield func(bench.File) bool) {
		for i := range count {
			if !yield(bench.Bytes(tinyName(i), fmt.Appendf(nil, "file %d has little in it\n", i))) {
				return
			}
		}
	}
}

func tinyName(i int) string { return fmt.Sprintf("d%03d/f%06d", i/1000, i) }
