package hostfs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

var (
	errNotDir = errors.New("not a directory")
	errNoAnon = errors.New("no anonymous files here")
)

// A temporary name says who made it, so that what a killed process left can be told from what a
// live one is using: prefix, host, process, number.
const tempPrefix = ".lbxtmp-"

var tempNumber atomic.Uint64

var tempOwner = sync.OnceValue(func() string {
	host, _ := os.Hostname() // without a name all hosts look like this one, which is the usual case
	h := fnv.New32a()
	h.Write([]byte(host))
	return fmt.Sprintf("%s%08x-", tempPrefix, h.Sum32())
})

func tempName() string {
	return fmt.Sprintf("%s%d-%d", tempOwner(), os.Getpid(), tempNumber.Add(1))
}

// staleTemp reports whether name is a temporary of a process of this host that runs no more.
func staleTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempOwner())
	if !ok {
		return false
	}
	id, _, ok := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(id)
	return ok && err == nil && pid > 0 && pid != os.Getpid() && processGone(pid)
}

func processGone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer p.Release()
	return runtime.GOOS != "windows" && errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// removeStale removes what killed extractions left in d, and reports whether nothing else is in it. It is a courtesy: what it
// cannot remove stays.
func removeStale(d *dir) (empty bool) {
	names, err := d.names()
	if err != nil {
		return false
	}
	empty = true
	for _, name := range names {
		if !staleTemp(name) || d.remove(name) != nil {
			empty = false
		}
	}
	return empty
}

// moveByClaim moves from to the free name to where the system can neither rename without replacing nor
// link: the name is claimed with an empty file, and only that is replaced.
func moveByClaim(d *dir, from, to string) error {
	if err := d.claim(to); err != nil {
		return err
	}
	if err := d.move(from, to, true); err != nil {
		return errors.Join(err, d.remove(to))
	}
	return nil
}
