package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// traceArg makes this program a tracer: -trace SPEC COMMAND ARGUMENT...
const traceArg = "-trace"

// plan is what the tracer does to a command. Calls that change files are numbered from 1, over all threads.
type plan struct {
	N      int           // the call that is met, 0 for none
	Kill   bool          // the process dies before the call
	Errno  syscall.Errno // the call fails with this instead of being made
	Cut    string        // with Kill: before it, the power of the file system mounted here is cut
	Front  string        // and before that, the first pages of this file are written to the device
	Only   string        // number only calls of this name; "" numbers all
	NoAnon bool          // the file system has no files without names
	NoSwap bool          // and no renameat2
	Report string        // the file to write the report to
}

// report is what the tracer saw.
type report struct {
	Calls int      // how many calls were numbered
	Met   string   // the call that was met, "" when there was none of that number
	File  string   // what it was about
	After []string // writes, syncs and truncations of that file before its descriptor was closed
}

// traced runs the binary under the tracer.
func (r *run) traced(p plan, args ...string) (*result, *report, error) {
	f, err := os.CreateTemp(r.dir, "report-")
	if err != nil {
		return nil, nil, err
	}
	p.Report = f.Name()
	defer os.Remove(p.Report)
	if err := f.Close(); err != nil {
		return nil, nil, err
	}
	spec, err := json.Marshal(p)
	if err != nil {
		return nil, nil, err
	}
	res := r.exec("/proc/self/exe", append([]string{traceArg, string(spec), r.bin}, args...), args)
	b, err := os.ReadFile(p.Report)
	if err != nil {
		return nil, nil, err
	}
	var rep report
	if err := json.Unmarshal(b, &rep); err != nil {
		return nil, nil, fmt.Errorf("the tracer gave no report: %s", res.why())
	}
	return res, &rep, nil
}

// traceWorks tries the tracer once; containers may forbid it.
func (r *run) traceWorks() error {
	if why := traceUnavailable(); why != "" {
		return skipError{why}
	}
	dir, err := os.MkdirTemp(r.dir, "try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	res, rep, err := r.traced(plan{}, "create", filepath.Join(dir, "a.lbx"))
	switch {
	case err != nil:
		return skipError{"processes cannot be traced here: " + err.Error()}
	case res.code != 0 || rep.Calls == 0:
		return errors.New("a traced command does not behave as it should: " + res.why())
	}
	return nil
}
