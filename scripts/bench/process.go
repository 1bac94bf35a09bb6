package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lockbox/internal/bench"
)

// usage is what a process took.
type usage struct {
	Wall   time.Duration
	MaxRSS int64 // bytes; 0 where the system does not say
	Exit   int
}

// launcher runs a command and writes its usage to a file. It stands between this program and the measured
// process because Linux counts the memory of the process that starts another as the other's, until that is larger.
func launcher(result string, args []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "bench: launching %v: %v\n", args, err)
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	begin := time.Now()
	err := cmd.Run()
	u := usage{Wall: time.Since(begin)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fail(err)
	}
	u.MaxRSS, u.Exit = maxRSS(cmd.ProcessState), cmd.ProcessState.ExitCode()
	b, err := json.Marshal(u)
	if err == nil {
		err = os.WriteFile(result, b, 0o600)
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// exec runs a command in a directory and fails when the command does. Its output is dropped, but shown when it fails.
func (b *run) exec(dir string, args ...string) (usage, error) {
	var u usage
	result := filepath.Join(b.tmp, "usage.json")
	log, err := os.Create(filepath.Join(b.tmp, "output"))
	if err != nil {
		return u, err
	}
	defer log.Close()
	cmd := exec.CommandContext(b.ctx, b.self, append([]string{"-launch", result, "--"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Run(); err != nil {
		return u, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	raw, err := os.ReadFile(result)
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return u, err
	}
	if u.Exit != 0 {
		out, _ := os.ReadFile(log.Name())
		return u, fmt.Errorf("%s: exit status %d: %s", strings.Join(args, " "), u.Exit, out[:min(len(out), 2000)])
	}
	return u, nil
}

// command is a contender that is a process. need is the program that must be installed; goal bounds lockbox's
// time over its own.
type command struct {
	name  string
	need  string
	dir   string
	args  []string
	clear []string // removed before each sample
	make  []string // directories made before each sample
	goal  float64
	first [][]string // commands to run before each sample

	yields func() error // compares what the first run made, outside the timing
}

func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// commands measures processes against each other; the first is lockbox. Programs that are not installed get a row
// that says so.
func (b *run) commands(workload string, samples int, cs ...command) error {
	var contenders []bench.Contender
	var goals []float64
	for _, c := range cs {
		if c.need != "" && !installed(c.need) {
			b.missing(commandLine, workload+", against "+c.name, c.need+" is not installed")
			continue
		}
		prepare := func() error {
			for _, name := range c.clear {
				if err := os.RemoveAll(name); err != nil {
					return err
				}
			}
			for _, name := range c.make {
				if err := os.MkdirAll(name, 0o755); err != nil {
					return err
				}
			}
			for _, args := range c.first {
				if _, err := b.exec(c.dir, args...); err != nil {
					return err
				}
			}
			return nil
		}
		compared := c.yields == nil
		contenders = append(contenders, bench.Contender{Name: c.name, Prepare: prepare, Run: func() (time.Duration, error) {
			u, err := b.exec(c.dir, c.args...)
			if err == nil && !compared {
				compared = true
				err = c.yields()
			}
			return u.Wall, err
		}})
		goals = append(goals, c.goal)
	}
	sets, err := b.take(commandLine, workload, samples, contenders...)
	if err != nil {
		return err
	}
	b.against(sets, goals)
	return nil
}

// writeFile writes a fixture's file to the host.
func writeFile(name string, f *bench.File) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f.Reader())
	return errors.Join(err, out.Close())
}

// sameFiles tells what differs between the files below two directories: names and bytes.
func sameFiles(want, got string) error {
	n := 0
	if err := filepath.WalkDir(want, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		n++
		rel, err := filepath.Rel(want, name)
		if err != nil {
			return err
		}
		mine, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		theirs, err := os.ReadFile(filepath.Join(got, rel))
		if err == nil && !bytes.Equal(mine, theirs) {
			err = fmt.Errorf("%s: other bytes", rel)
		}
		return err
	}); err != nil {
		return err
	}
	return filepath.WalkDir(got, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if n--; n < 0 {
				err = fmt.Errorf("%s: more files than in %s", got, want)
			}
		}
		return err
	})
}

// copyTree copies files and directories, with modes and times.
func copyTree(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.Type()&os.ModeSymlink != 0 {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		return os.Chtimes(filepath.Join(to, rel), time.Time{}, fi.ModTime())
	})
}
