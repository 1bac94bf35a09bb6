package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the version to stamp (default: as git describes the commit)")
	out := flag.String("o", "dist", "the directory to fill; what dist made in it before is replaced")
	systems := flag.String("systems", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64", "systems to build for")
	check := flag.Bool("check", false, "make it twice, in two directories, and compare; nothing is kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *version, *out, strings.Fields(*systems), *check); err != nil {
		fmt.Fprintf(os.Stderr, "dist: %v\n", err)
		os.Exit(1)
	}
}

// release is one making of everything.
type release struct {
	ctx     context.Context
	src     string   // the module
	out     string   // empty, or not there yet
	env     []string // of the go command
	version string
	time    time.Time
}

func run(ctx context.Context, version, out string, systems []string, check bool) error {
	if version == "" {
		v, err := output(ctx, ".", nil, "git", "describe", "--tags", "--always", "--dirty")
		if err != nil {
			return fmt.Errorf("no version was given, and there is none to be had: %w", err)
		}
		version = strings.TrimSpace(string(v))
	}
	if strings.ContainsAny(version, " /\\'\"") || version == "" {
		return fmt.Errorf("the version %q cannot be part of a file's name", version)
	}
	when, err := commitTime(ctx)
	if err != nil {
		return err
	}
	r := &release{ctx: ctx, src: ".", out: out, version: version, time: when}
	if check {
		return r.twice(systems)
	}
	if err := clean(out); err != nil {
		return err
	}
	return r.make(systems)
}

// commitTime is SOURCE_DATE_EPOCH, else the time of the commit.
func commitTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := output(ctx, ".", nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the commit (SOURCE_DATE_EPOCH gives another): %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	sec, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(sec, 0).UTC(), nil
}

// sums is the file that says that a directory was made here.
const sums = "SHA256SUMS"

// clean removes what an earlier run made, and nothing that it does not know.
func clean(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(list)) {
		_, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || name != filepath.Base(name) || !strings.HasPrefix(name, "lockbox-") {
			return fmt.Errorf("%s was not written by this program", filepath.Join(dir, sums))
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// twice makes everything from two copies of the source in directories of different names and compares.
func (r *release) twice(systems []string) (err error) {
	tmp, err := os.MkdirTemp("", "lockbox-dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	var made [2]map[string][sha256.Size]byte
	for i, name := range []string{"a", "another-directory"} {
		one := *r
		one.src, one.out = filepath.Join(tmp, name, "src"), filepath.Join(tmp, name, "out")
		// One comes from the cache of this machine, one from none.
		if i == 1 {
			one.env = []string{"GOCACHE=" + filepath.Join(tmp, name, "cache")}
		}
		if err := r.copySource(one.src); err != nil {
			return err
		}
		if err := one.make(systems); err != nil {
			return err
		}
		if made[i], err = digests(one.out); err != nil {
			return err
		}
	}
	for name, d := range made[0] {
		if made[1][name] != d {
			return fmt.Errorf("%s differs between two directories", name)
		}
	}
	if len(made[0]) != len(made[1]) {
		return errors.New("the two directories do not have the same files")
	}
	fmt.Printf("%d files, the same twice\n", len(made[0]))
	return nil
}

// copySource copies the files that git knows.
func (r *release) copySource(to string) error {
	list, err := output(r.ctx, r.src, nil, "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(r.src, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted and not committed: as the working tree has it
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func digests(dir string) (map[string][sha256.Size]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	m := make(map[string][sha256.Size]byte)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		m[e.Name()] = sha256.Sum256(b)
	}
	return m, nil
}

// make fills the directory.
func (r *release) make(systems []string) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "lockbox-host-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	host := filepath.Join(tmp, "lockbox")
	if err := r.build(runtime.GOOS+"/"+runtime.GOARCH, host); err != nil {
		return err
	}
	common, err := r.documents(host)
	if err != nil {
		return err
	}
	var names []string
	for _, system := range systems {
		made, err := r.system(system, common)
		if err != nil {
			return err
		}
		names = append(names, made...)
	}
	slices.Sort(names)
	var list bytes.Buffer
	all, err := digests(r.out)
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(&list, "%x  %s\n", all[name], name)
		fmt.Println(filepath.Join(r.out, name))
	}
	return os.WriteFile(filepath.Join(r.out, sums), list.Bytes(), 0o644)
}

// build makes a static binary.
func (r *release) build(system, to string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return fmt.Errorf("%q is no system: one is linux/amd64", system)
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	env := append(slices.Clone(r.env), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+goos, "GOARCH="+goarch)
	// The version says which commit it is; the rest of what go could stamp depends on where it is built.
	_, err = output(r.ctx, r.src, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", to, "./cmd/lockbox")
	if err != nil {
		return fmt.Errorf("building for %s: %w", system, err)
	}
	return nil
}

// system makes the binary and the archive of one system, and returns their names.
func (r *release) system(system string, common []file) ([]string, error) {
	name := "lockbox-" + r.version + "-" + strings.ReplaceAll(system, "/", "-")
	exe, ext, pack := "", ".tar.gz", packTar
	if strings.HasPrefix(system, "windows/") {
		exe, ext, pack = ".exe", ".zip", packZip
	}
	path := filepath.Join(r.out, name+exe)
	if err := r.build(system, path); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := append([]file{{name: "lockbox" + exe, data: binary, mode: 0o755}}, common...)
	b, err := pack(name, files, r.time)
	if err != nil {
		return nil, err
	}
	return []string{name + exe, name + ext}, os.WriteFile(filepath.Join(r.out, name+ext), b, 0o644)
}

// output runs a program in a directory and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return b, err
}
