package bench

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	kzip "github.com/klauspost/compress/zip"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// zipLib is one ZIP library, as far as finding one file needs it.
type zipLib[Z any] struct {
	name  string
	open  func(string) (Z, error)
	read  func(Z, string, *bytes.Buffer) error
	close func(Z) error
}

func std() zipLib[*zip.ReadCloser] {
	return zipLib[*zip.ReadCloser]{stdZip, zip.OpenReader, func(z *zip.ReadCloser, name string, p *bytes.Buffer) error {
		for _, f := range z.File {
			if f.Name == name {
				return readEntry(f, p)
			}
		}
		return fmt.Errorf("there is no %s", name)
	}, (*zip.ReadCloser).Close}
}

func klauspost() zipLib[*kzip.ReadCloser] {
	return zipLib[*kzip.ReadCloser]{kZip, kzip.OpenReader, func(z *kzip.ReadCloser, name string, p *bytes.Buffer) error {
		for _, f := range z.File {
			if f.Name == name {
				return readEntry(f, p)
			}
		}
		return fmt.Errorf("there is no %s", name)
	}, (*kzip.ReadCloser).Close}
}

func readEntry(f zipped, p *bytes.Buffer) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	p.Reset()
	_, err = p.ReadFrom(r)
	return errors.Join(err, r.Close())
}

func findLockbox(a *store.Archive, name string, p []byte) error {
	f, err := openOne(a, name)
	if err != nil {
		return err
	}
	return readFull(f, p[:f.Size()], 0)
}

// finding are the four ways of reading one file out of many that are timed: opening alone, with a file, a file
// alone, and the same file again.
func finding[Z any](batch int, name string, l zipLib[Z], pick func(int) string) []Contender {
	buf := new(bytes.Buffer)
	open := func(int) (Z, error) { return l.open(name) }
	warm := func(i int) (Z, error) {
		z, err := l.open(name)
		if err == nil {
			err = l.read(z, pick(i), buf)
		}
		return z, err
	}
	read := func(z Z, i int) error { return l.read(z, pick(i), buf) }
	return []Contender{
		{Name: l.name + ": open and close", Run: whole(batch, func(i int) error {
			z, err := l.open(name)
			if err != nil {
				return err
			}
			return l.close(z)
		})},
		{Name: l.name + ": open and read one", Run: whole(batch, func(i int) error {
			z, err := l.open(name)
			if err != nil {
				return err
			}
			return errors.Join(l.read(z, pick(i), buf), l.close(z))
		})},
		{Name: l.name + ": read one, open excluded", Run: repeated(batch, open, read, l.close)},
		{Name: l.name + ": read the same one again", Run: repeated(batch, warm, read, l.close)},
	}
}

func (e *env) findLockbox(batch int, contender, name string, p *protection, pick func(int) string) []Contender {
	buf := make([]byte, kib)
	open := func(name string) (*store.Archive, error) { return e.openProtected(name, p) }
	return finding(batch, name, zipLib[*store.Archive]{contender, open,
		func(a *store.Archive, name string, _ *bytes.Buffer) error { return findLockbox(a, name, buf) }, (*store.Archive).Close}, pick)
}

// against compares lockbox's sets with the faster of the two libraries, way by way.
func against(sets []Set, ways int, goals []float64) {
	for i := range ways {
		best := &sets[ways+i]
		if len(sets) >= 3*ways && Median(sets[2*ways+i].Samples) < Median(best.Samples) {
			best = &sets[2*ways+i]
		}
		sets[i].Compared(best, true)
		sets[i].WithGoal(goals[i])
		sets[i].Open = i == 0
	}
}

// small opens an archive of 2,000 files of 1 KiB and reads one of them.
func (e *env) small() (err error) {
	defer oneCPU()()
	const count = 2000
	files, err := e.files(count, kib, true)
	if err != nil {
		return err
	}
	a, err := e.build("small", files, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	pick := func(i int) string { return files[(i*811+77)%count].Name }
	batch := e.batch(20)
	cs := append(e.findLockbox(batch, "lockbox", a.lbx, nil, pick), finding(batch, a.zip, std(), pick)...)
	cs = append(cs, finding(batch, a.zip, klauspost(), pick)...)
	sets, err := e.take(2*e.samples, []string{a.lbx, a.zip}, cs...)
	if err != nil {
		return err
	}
	against(sets, 4, []float64{0.05, 0.2, 2.5, 0})
	for i := range sets {
		if i%4 != 0 {
			sets[i].Bytes = kib
		}
	}
	sets[0].Archive, sets[0].SizeRatio, sets[4].Archive = a.lbxSize, float64(a.lbxSize)/float64(a.zipSize), a.zipSize
	e.add(sets...)
	return nil
}

// million compares an archive of a million entries with one of 2,000 entries of the same kind, and with ZIP.
func (e *env) million() (err error) {
	defer oneCPU()()
	const count, few = 1_000_000, 2000
	big, small, zipName := filepath.Join(e.dir, "million.lbx"), filepath.Join(e.dir, "few.lbx"), filepath.Join(e.dir, "million.zip")
	defer func() { err = errors.Join(err, os.RemoveAll(big), os.RemoveAll(small), os.RemoveAll(zipName)) }()
	begin := time.Now()
	if err := WriteLockbox(e.ctx, big, 1, tiny(count)); err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	made := e.figure("make the archive, one worker", fmt.Sprintf("%.2f s", took), took, "s")
	made.WithGoal(30)
	made.Archive, err = fileSize(big)
	if err != nil {
		return err
	}
	e.add(made)
	if err := WriteLockbox(e.ctx, small, 1, tiny(few)); err != nil {
		return err
	}
	if err := WriteZip(e.ctx, zipName, tiny(count), false); err != nil {
		return err
	}
	if err := e.settle(big, small, zipName); err != nil {
		return err
	}
	if err := e.countLookup(big, count); err != nil {
		return err
	}
	if err := e.compareTiny(big, zipName, count); err != nil {
		return err
	}
	pick := func(i int) string { return tinyName((i*48611 + 5) % count) }
	batch := e.batch(20)
	inMany := e.findLockbox(batch, "lockbox", big, nil, pick)
	inFew := e.findLockbox(batch, "lockbox", small, nil, func(i int) string { return tinyName((i*811 + 77) % few) })
	for i := range inFew {
		inFew[i].Name = "2,000 entries" + inFew[i].Name[len("lockbox"):]
	}
	sets, err := e.take(2*e.samples, []string{big, small}, inMany[0], inMany[1], inFew[0], inFew[1])
	if err != nil {
		return err
	}
	for i := range 2 {
		sets[i].Compared(&sets[2+i], false)
		sets[i].WithGoal(3)
		sets[i].Open = i == 0
		sets[i].Contender += ", by 2,000 entries"
	}
	e.add(sets...)
	cs := append(inMany, finding(1, zipName, std(), pick)...)
	cs = append(cs, finding(1, zipName, klauspost(), pick)...)
	// Reading one file without opening is the same for ZIP as in the small archive, but for the search.
	if sets, err = e.take(e.samples, []string{big, zipName}, cs[0], cs[1], cs[4], cs[5], cs[8], cs[9]); err != nil {
		return err
	}
	against(sets, 2, []float64{0, 0})
	e.add(sets...)
	return nil
}

// countLookup counts the nodes that opening and finding an entry decode.
func (e *env) countLookup(name string, count int) (err error) {
	a, err := e.open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	info, err := a.Info()
	if err != nil {
		return err
	}
	if info.Entries != uint64(count) {
		return fmt.Errorf("%d entries instead of %d", info.Entries, count)
	}
	atOpen := a.Counters().NodesDecoded
	p, err := pathsafe.Parse(tinyName(count / 2))
	if err != nil {
		return err
	}
	if _, err := a.Get(p); err != nil {
		return err
	}
	lookup := a.Counters().NodesDecoded - atOpen
	opening := e.figure("nodes decoded by opening", fmt.Sprint(atOpen), float64(atOpen), "")
	opening.MustBeZero()
	nodes := e.figure("nodes decoded by a lookup; the tree's height is the goal", fmt.Sprint(lookup), float64(lookup), "nodes")
	nodes.WithGoal(float64(info.Heights[index.Entries-1]))
	e.add(opening, nodes)
	return nil
}

// compareTiny compares all that both archives of tiny files hold. The names ascend, so the order is that of the fixture.
func (e *env) compareTiny(lbx, zipName string, count int) (err error) {
	a, err := e.open(lbx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	z, err := zip.OpenReader(zipName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	p, buf := make([]byte, kib), new(bytes.Buffer)
	n := 0
	for entry, err := range a.List(pathsafe.Path{}) {
		if err == nil {
			err = e.ctx.Err()
		}
		if err != nil {
			return err
		}
		want := tinyFile(n)
		f, err := a.Open(&entry)
		if err == nil && f.Size() == want.Size {
			err = readFull(f, p[:want.Size], 0)
		}
		if err != nil {
			return err
		}
		if n >= len(z.File) || z.File[n].Name != want.Name || entry.Path.String() != want.Name {
			return fmt.Errorf("%s is not where it belongs", want.Name)
		}
		if err := readEntry(z.File[n], buf); err != nil {
			return err
		}
		if f.Size() != want.Size || !bytes.Equal(p[:want.Size], want.base) || !bytes.Equal(buf.Bytes(), want.base) {
			return fmt.Errorf("%s: other bytes than the fixture's", want.Name)
		}
		n++
	}
	if n != count || len(z.File) != count {
		return fmt.Errorf("%d and %d entries instead of %d", n, len(z.File), count)
	}
	return nil
}
