package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// sweepJobs are the numbers of workers to try: each one up to 8, then twice as many each time, and all.
func sweepJobs(cpus int) []int {
	var jobs []int
	for n := 1; n < cpus; {
		jobs = append(jobs, n)
		if n < 8 {
			n++
		} else {
			n *= 2
		}
	}
	return append(jobs, cpus)
}

// addRun is what one run of "lockbox add" took.
type addRun struct {
	wall, cpu time.Duration
	resident  int64
	stages    map[string]time.Duration
	sum       string
	size      int64
}

// sweep stores a tree with different numbers of workers, in processes of their own so that processor time and memory
// are those of the command, and holds their outputs against each other: they must be the same bytes.
func (e *env) sweep(files iter.Seq[File], hasGoal bool) (err error) {
	tree, out := filepath.Join(e.dir, "tree"), filepath.Join(e.dir, "sweep.lbx")
	defer func() { err = errors.Join(err, os.RemoveAll(tree), os.RemoveAll(out)) }()
	// Linux counts the most memory that this process ever had as the child's, until that has more.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	total, err := e.writeTree(tree, files)
	if err != nil {
		return err
	}
	jobs := sweepJobs(e.Jobs)
	runs := make([][]addRun, len(jobs))
	cs := make([]Contender, len(jobs))
	for i, n := range jobs {
		cs[i] = Contender{Name: workers(n), Prepare: func() error { return os.RemoveAll(out) }, Run: func() (time.Duration, error) {
			r, err := e.addTree(tree, out, n)
			runs[i] = append(runs[i], r)
			return r.wall, err
		}}
	}
	sets, err := e.take(e.samples, nil, cs...)
	if err != nil {
		return err
	}
	if err := e.verifyTree(out); err != nil {
		return err
	}
	for i := range sets {
		s := &sets[i]
		s.Bytes, s.Archive, s.SHA256 = total, runs[i][0].size, runs[0][0].sum
		for _, r := range runs[i] {
			if r.sum != runs[0][0].sum {
				return fmt.Errorf("%s: the output differs from the first run's with one worker: %s, %s", s.Contender, r.sum, runs[0][0].sum)
			}
			s.Resident = max(s.Resident, r.resident)
		}
		for _, r := range runs[i][1:] { // the first one does not count
			s.CPU = append(s.CPU, r.cpu)
		}
		s.Stages = medianStages(runs[i][1:])
		if i > 0 {
			s.Speedup, s.AtLeast = true, true
			s.Compared(&sets[0], false)
		}
		if hasGoal && jobs[i] == 2 {
			s.WithGoal(1.7)
		}
	}
	e.add(sets...)
	return nil
}

func workers(n int) string {
	if n == 1 {
		return "lockbox, 1 worker"
	}
	return fmt.Sprintf("lockbox, %d workers", n)
}

// addTree runs the program and measures it.
func (e *env) addTree(tree, out string, jobs int) (r addRun, err error) {
	cmd := exec.CommandContext(e.ctx, e.Program, "add", out, "-C", tree, ".", "--reproducible", "--quiet", "--timings", "--progress", "never", "--jobs", strconv.Itoa(jobs))
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = 5 * time.Second
	begin := time.Now()
	err = cmd.Run()
	r.wall = time.Since(begin)
	if err != nil {
		return r, fmt.Errorf("lockbox add: %w: %s", err, strings.TrimSpace(said.String()))
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.resident = maxResident(cmd.ProcessState)
	r.stages = parseStages(said.String())
	if r.size, err = fileSize(out); err != nil {
		return r, err
	}
	r.sum, err = sumFile(out)
	return r, err
}

// verifyTree has the program check every byte of what it wrote last.
func (e *env) verifyTree(out string) error {
	if b, err := exec.CommandContext(e.ctx, e.Program, "verify", out, "--full", "--quiet").CombinedOutput(); err != nil {
		return fmt.Errorf("lockbox verify: %w: %s", err, bytes.TrimSpace(b))
	}
	return nil
}

// parseStages reads what --timings prints.
func parseStages(text string) map[string]time.Duration {
	stages := map[string]time.Duration{}
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) < 5 || f[0] != "lockbox:" || f[1] != "timing:" || f[len(f)-1] != "ms" {
			continue
		}
		ms, err := strconv.ParseFloat(f[len(f)-2], 64)
		if name := strings.Join(f[2:len(f)-2], " "); err == nil && name != "whole" {
			stages[name] = time.Duration(ms * float64(time.Millisecond))
		}
	}
	return stages
}

// medianStages takes the median of each stage.
func medianStages(runs []addRun) map[string]time.Duration {
	of := map[string][]time.Duration{}
	for _, r := range runs {
		for name, d := range r.stages {
			of[name] = append(of[name], d)
		}
	}
	out := make(map[string]time.Duration, len(of))
	for name, ds := range of {
		out[name] = Median(ds)
	}
	return out
}

func sumFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
