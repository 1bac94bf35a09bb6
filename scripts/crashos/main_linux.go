package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// insideEnv tells the copy of this program that has a mount namespace of its own where to work.
const insideEnv = "CRASHOS_DIR"

func main() {
	if len(os.Args) > 2 && os.Args[1] == traceArg {
		os.Exit(traceMain(os.Args[2], os.Args[3:]))
	}
	bin := flag.String("lockbox", "bin/lockbox", "the binary to interrupt")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1e9, "seed of the random moments and contents")
	only := flag.String("run", "", "run only the parts whose names contain this")
	rounds := flag.Int("rounds", 25, "random kills of each command; power cuts of each file system")
	limit := flag.Duration("limit", 4*time.Minute, "give up, and fail, after this time")
	flag.Parse()
	if dir := os.Getenv(insideEnv); dir != "" {
		os.Exit(inside(dir, *bin, *only, *seed, *rounds, *limit))
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintf(os.Stderr, "crash-os: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// outside runs this program again, in a mount namespace of its own where that is allowed, and removes the
// directory it worked in. By then its mounts are gone; this process never saw them.
func outside() (code int, err error) {
	dir, err := os.MkdirTemp("", "lockbox-crashos-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	exe, err := os.Executable()
	if err != nil {
		return 1, err
	}
	// The other process gets the terminal's signals too, and ends in order; this one waits for it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	start := func(flags uintptr) (*exec.Cmd, error) {
		cmd := exec.Command(exe, os.Args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), insideEnv+"="+dir)
		if flags == 0 {
			cmd.Env = append(cmd.Env, noMountsEnv+"=1")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
		return cmd, cmd.Start()
	}
	cmd, err := start(syscall.CLONE_NEWNS)
	if err != nil {
		if cmd, err = start(0); err != nil {
			return 1, err
		}
	}
	var ee *exec.ExitError
	if err = cmd.Wait(); errors.As(err, &ee) {
		return max(ee.ExitCode(), 1), nil
	}
	return 0, err
}

// run is one run of all parts.
type run struct {
	ctx      context.Context
	bin, dir string
	seed     uint64
	rounds   int
	has      map[string]bool // commands that the binary knows

	passed, failed, skipped int
}

func inside(dir, bin, only string, seed uint64, rounds int, limit time.Duration) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bin, err := filepath.Abs(bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash-os:", err)
		return 1
	}
	r := &run{ctx: ctx, bin: bin, dir: dir, seed: seed, rounds: rounds, has: map[string]bool{}}
	help := r.lockbox("help")
	if help.code != 0 {
		fmt.Fprintf(os.Stderr, "crash-os: %s help: %s\n", bin, help.why())
		return 1
	}
	for line := range strings.Lines(help.out) {
		if f := strings.Fields(line); strings.HasPrefix(line, "  ") && len(f) > 1 {
			r.has[f[0]] = true
		}
	}
	fmt.Printf("crash-os: seed %d\n", seed)
	fx, err := newFixture(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash-os: making the archives to work on:", err)
		return 1
	}
	for _, p := range []struct {
		name string
		run  func(*run, *fixture, *part)
	}{
		{"kill", killPart}, {"inject", injectPart}, {"full", fullPart}, {"power", powerPart}, {"processes", processPart},
	} {
		if !strings.Contains(p.name, only) || ctx.Err() != nil {
			continue
		}
		pt := &part{r: r, name: p.name, start: time.Now()}
		fmt.Printf("== %s\n", p.name)
		p.run(r, fx, pt)
	}
	if err := ctx.Err(); err != nil {
		r.failed++
		fmt.Printf("crash-os: ended early: %v\n", context.Cause(ctx))
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 {
		fmt.Printf("again with: -seed %d\n", seed)
		return 1
	}
	return 0
}

// part is one kind of blow, and reports the scenarios it consists of.
type part struct {
	r     *run
	name  string
	start time.Time
}

// skip says why a scenario cannot run here.
func (p *part) skip(name, why string) {
	p.r.skipped++
	fmt.Printf("   skip  %-22s %s\n", name, why)
}

// scenario runs one scenario. fn returns what it counted; its error is the failure.
func (p *part) scenario(name string, fn func(rng *rand.Rand) (string, error)) {
	if p.r.ctx.Err() != nil {
		return
	}
	var h uint64
	for _, c := range p.name + name {
		h = h*31 + uint64(c)
	}
	start := time.Now()
	counts, err := fn(rand.New(rand.NewPCG(p.r.seed, h)))
	took := time.Since(start).Seconds()
	var s skipError
	switch {
	case errors.As(err, &s):
		p.skip(name, s.why)
	case err != nil && p.r.ctx.Err() != nil:
		// Interrupted or out of time: said once, at the end.
	case err != nil:
		p.r.failed++
		fmt.Printf("   FAIL  %-22s %s\n%s\n", name, counts, indent(err.Error()))
	default:
		p.r.passed++
		fmt.Printf("   ok    %-22s %s (%.1f s)\n", name, counts, took)
	}
}

// skipError says that the system does not offer what a scenario needs.
type skipError struct{ why string }

func (s skipError) Error() string { return s.why }

func indent(s string) string {
	return "         " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n         ")
}

// result is how a command ended.
type result struct {
	args     []string
	code     int // -1 when a signal ended it
	out, err string
	took     time.Duration
}

func (r *result) why() string {
	cmd := strings.Join(r.args, " ")
	s := fmt.Sprintf("lockbox %s: exit %d: %s", cmd, r.code, strings.TrimSpace(r.err))
	if len(s) > 1500 {
		s = s[:1500] + " …"
	}
	return s
}

// command makes a command that dies with this process and at the latest after a minute.
func (r *run) command(name string, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cancel
}

// lockbox runs the binary to its end.
func (r *run) lockbox(args ...string) *result { return r.exec(r.bin, args, args) }

func (r *run) exec(name string, argv, args []string) *result {
	cmd, cancel := r.command(name, argv...)
	defer cancel()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	res := &result{args: args, out: out.String(), err: errs.String(), took: time.Since(start)}
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		res.code = ee.ExitCode()
	} else if err != nil {
		res.code, res.err = -1, err.Error()
	}
	return res
}

// must runs the binary and wants success.
func (r *run) must(args ...string) error {
	if res := r.lockbox(args...); res.code != 0 {
		return errors.New(res.why())
	}
	return nil
}
