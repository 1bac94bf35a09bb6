package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/vfs"
)

// replaceOn does what migrate --replace does.
func replaceOn(fsys vfs.FS) (done bool, err error) {
	if done, err = Resume(fsys, oldName); done || err != nil {
		return done, err
	}
	if _, err := migrateOn(fsys, oldName, NewName(oldName), Options{Jobs: 1}); err != nil {
		return false, err
	}
	in, err := OpenInput(fsys, oldName)
	if err != nil {
		return false, err
	}
	return false, errors.Join(Exchange(fsys, in), in.Close())
}

// put makes a durable file.
func put(t *testing.T, s *vfs.Sim, name string, b []byte) {
	f, err := s.CreateTemp(name, 0o600)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Publish()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// intact checks a disk at any moment: the old archive is there, whole, under its name or, when that stands for the new
// one or for nothing, under the other; and what bears the name is one of the two.
func intact(t *testing.T, s *vfs.Sim, old []byte, where string) {
	t.Helper()
	if !bytes.Equal(s.Bytes(oldName), old) && !bytes.Equal(s.Bytes(BackupName(oldName)), old) {
		t.Fatalf("%s: the old archive is gone; there are %q", where, s.Names())
	}
	switch b := s.Bytes(oldName); {
	case b == nil:
		if ok, err := isLockbox(s, NewName(oldName)); !ok || err != nil || !s.NoLinks {
			t.Fatalf("%s: nothing bears the name; there are %q", where, s.Names())
		}
	case !bytes.Equal(b, old):
		if got := contents(t, s, oldName); len(got) != 5 {
			t.Fatalf("%s: the name stands for %v", where, got)
		}
	}
}

// finishes runs the replacement again on a disk that a crash left, and looks at the end.
func finishes(t *testing.T, s *vfs.Sim, old []byte, where string) {
	t.Helper()
	s.Hook = nil
	if _, err := replaceOn(s); err != nil {
		t.Fatalf("%s: run again: %v; there are %q", where, err, s.Names())
	}
	if got := contents(t, s, oldName); len(got) != 5 || got["dir/3"] != "content 3" {
		t.Fatalf("%s: the new archive has %v", where, got)
	}
	if !bytes.Equal(s.Bytes(BackupName(oldName)), old) {
		t.Fatalf("%s: the backup is not the old archive", where)
	}
	names := s.Names()
	slices.Sort(names)
	if !slices.Equal(names, []string{oldName, BackupName(oldName)}) {
		t.Fatalf("%s: there are %q", where, names)
	}
	if done, err := replaceOn(s); !done || err != nil {
		t.Fatalf("%s: once more: %v, %v", where, done, err)
	}
}

var errKilled = errors.New("killed")

// Whatever operation is the last that happens: the old archive is there, the name stands for one of the two, and a
// second run ends as if nothing had been. The same for the disks that a power cut leaves.
func TestCrashReplace(t *testing.T) {
	old := tarOf(t)
	r := rand.New(rand.NewPCG(5, 6))
	for _, noLinks := range []bool{false, true} {
		for k := 0; ; k++ {
			s := vfs.NewSim(512)
			s.NoLinks = noLinks
			put(t, s, oldName, old)
			n, killed := 0, false
			s.Hook = func(op vfs.SimOp) *vfs.Fault {
				if n++; n <= k {
					return nil
				}
				killed = true
				return &vfs.Fault{Err: errKilled}
			}
			_, err := replaceOn(s)
			s.Hook = nil
			// Only tidying may fail without harm.
			if killed != (err != nil) && (err != nil || len(s.Names()) != 2) {
				t.Fatalf("operation %d: killed %v, %v", k, killed, err)
			}
			where := fmt.Sprintf("no links %v, operation %d", noLinks, k)
			powerCuts := s.Pending()
			intact(t, s, old, where)
			alive := s.Clone()
			alive.NoLinks = noLinks
			intact(t, alive, old, where+", killed")
			finishes(t, alive, old, where+", killed")
			powerCuts.Each(vfs.Spread{Exhaustive: 64, Steps: 3, Random: 2}, r, func(image *vfs.Sim, rule vfs.Rule) bool {
				image.NoLinks = noLinks
				at := fmt.Sprintf("%s, power cut %s %d", where, rule.Name, rule.N)
				intact(t, image, old, at)
				finishes(t, image, old, at)
				return true
			})
			if !killed {
				t.Logf("no links %v: %d operations", noLinks, n)
				break
			}
		}
	}
}

// What is not of a migration is never touched.
func TestReplaceInTheWay(t *testing.T) {
	old := tarOf(t)
	for _, name := range []string{BackupName(oldName), NewName(oldName)} {
		m := vfs.Mem()
		m.Put(oldName, old)
		m.Put(name, []byte("mine"))
		if _, err := replaceOn(m); !errors.Is(err, ErrNotOurs) || string(m.Bytes(name)) != "mine" || !bytes.Equal(m.Bytes(oldName), old) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := replaceOn(vfs.Mem()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}
