package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/vfs"
)

// turns lets processes, which are goroutines here, do one operation on names at a time, in an order that r decides.
type turns struct {
	arrived chan *process // wants its next turn, or is done
	r       *rand.Rand
}

type process struct {
	vfs.FS
	t    *turns
	turn chan struct{}
	done bool
	err  error
}

func (p *process) wait() {
	p.t.arrived <- p
	<-p.turn
}

func (p *process) Open(name string, writable bool) (vfs.File, error) {
	p.wait()
	return p.FS.Open(name, writable)
}

func (p *process) CreateTemp(name string, perm fs.FileMode) (vfs.Temp, error) {
	t, err := p.FS.CreateTemp(name, perm)
	return &waitingTemp{t, p}, err
}

func (p *process) Remove(name string) error {
	p.wait()
	return p.FS.Remove(name)
}

func (p *process) Link(from, to string) error {
	p.wait()
	return p.FS.Link(from, to)
}

func (p *process) Rename(from, to string) error {
	p.wait()
	return p.FS.Rename(from, to)
}

func (p *process) SetRights(from, to string) error {
	p.wait()
	return p.FS.SetRights(from, to)
}

func (p *process) SyncDir(dir string) error {
	p.wait()
	return p.FS.SyncDir(dir)
}

type waitingTemp struct {
	vfs.Temp
	p *process
}

func (t *waitingTemp) Publish() error {
	t.p.wait()
	return t.Temp.Publish()
}

// run runs n processes to their ends. check is called between any two operations.
func (t *turns) run(fsys vfs.FS, n int, f func(vfs.FS) error, check func()) (errs []error) {
	t.arrived = make(chan *process)
	var waiting []*process
	for range n {
		p := &process{FS: fsys, t: t, turn: make(chan struct{})}
		go func() {
			p.wait()
			p.err = f(p)
			p.done = true
			t.arrived <- p
		}()
		waiting = append(waiting, <-t.arrived)
	}
	for len(waiting) > 0 {
		i := t.r.IntN(len(waiting))
		waiting[i].turn <- struct{}{}
		if p := <-t.arrived; p.done {
			errs = append(errs, p.err)
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
		check()
	}
	return errs
}

// Several that replace one archive at once: in whatever order their operations happen, the old archive is there at every
// moment, the name stands for it or for a whole new one, one of them succeeds, and the others say why not.
func TestReplaceAtOnce(t *testing.T) {
	old := tarOf(t)
	outcomes := map[string]int{}
	for seed := range uint64(400) {
		s := vfs.NewSim(512)
		s.NoLinks = seed%2 == 1
		put(t, s, oldName, old)
		where := fmt.Sprintf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		errs := (&turns{r: r}).run(s, 2+int(seed%4/2), func(fsys vfs.FS) error {
			_, err := replaceOn(fsys)
			return err
		}, func() { intact(t, s, old, where) })
		good := 0
		for _, err := range errs {
			switch {
			case err == nil:
				good++
				outcomes["replaced"]++
			case errors.Is(err, format.ErrBusy):
				outcomes["busy"]++
			case errors.Is(err, fs.ErrExist):
				outcomes["another was first"]++
			case errors.Is(err, ErrChanged), errors.Is(err, ErrNotOurs):
				outcomes["replaced meanwhile"]++
			case errors.Is(err, ErrUnknown):
				outcomes["is no old archive any more"]++
			case errors.Is(err, fs.ErrNotExist):
				outcomes["gone"]++
			default:
				t.Errorf("%s: %v", where, err)
			}
		}
		if good == 0 {
			t.Errorf("%s: nobody replaced it: %v", where, errs)
		}
		finishes(t, s, old, where)
	}
	t.Log(outcomes)
	if len(outcomes) < 4 {
		t.Errorf("they hardly met: %v", outcomes)
	}
}
