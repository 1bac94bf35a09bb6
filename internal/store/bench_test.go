package store

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// goRoot is where the toolchain's own source is.
var goRoot = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

// goText is Go source, sorted by path, as one long text.
var goText = sync.OnceValue(func() []byte {
	var names []string
	filepath.WalkDir(filepath.Join(goRoot(), "src"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(p, ".go") {
			names = append(names, p)
		}
		return nil
	})
	slices.Sort(names)
	var b bytes.Buffer
	for _, n := range names {
		d, _ := os.ReadFile(n)
		b.Write(d)
		if b.Len() > 80<<20 {
			break
		}
	}
	return b.Bytes()
})

func benchArchive(b *testing.B, n, size int, text bool) (string, map[string][]byte) {
	dir, err := os.MkdirTemp("/dev/shm", "lbx")
	if err != nil {
		dir = b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "a.lbx")
	r := rand.New(rand.NewPCG(1, 2))
	src := goText()
	all := map[string][]byte{}
	a, err := Create(ctx, file, Options{}, CreateOptions{Level: frames.LevelDefault})
	if err != nil {
		b.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var list []Source
	at := 0
	for i := range n {
		p := fmt.Sprintf("dir%03d/file%06d.go", i/100, i)
		var d []byte
		if text {
			if at+size > len(src) {
				at = 0
			}
			d = src[at : at+size]
			at += size
		} else {
			d = make([]byte, size)
			for k := 0; k+8 <= size; k += 8 {
				v := r.Uint64()
				for j := range 8 {
					d[k+j] = byte(v >> (8 * j))
				}
			}
		}
		all[p] = d
		list = append(list, fileSource(p, d))
	}
	if err := tx.Add(ctx, slices.Values(list), nil); err != nil {
		b.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		b.Fatal(err)
	}
	if err := a.Close(); err != nil {
		b.Fatal(err)
	}
	return file, all
}

func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		n, size int
		text    bool
	}{{512, 4096, false}, {512, 4096, true}, {4, 1 << 20, true}, {4, 8 << 20, false}, {4, 8 << 20, true}, {4, 64 << 20, false}} {
		b.Run(fmt.Sprintf("%dx%d/text=%v", c.n, c.size, c.text), func(b *testing.B) {
			file, all := benchArchive(b, c.n, c.size, c.text)
			b.Run("lockbox", func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				for b.Loop() {
					a, err := Open(ctx, file, Options{Jobs: 1})
					if err != nil {
						b.Fatal(err)
					}
					if err := a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error { return p.Err }); err != nil {
						b.Fatal(err)
					}
					a.Close()
				}
			})
			zf := filepath.Join(filepath.Dir(file), "a.zip")
			o, _ := os.Create(zf)
			zw := zip.NewWriter(o)
			for _, p := range slices.Sorted(mapKeys(all)) {
				m := zip.Deflate
				if !c.text {
					m = zip.Store
				}
				w, _ := zw.CreateHeader(&zip.FileHeader{Name: p, Method: m})
				w.Write(all[p])
			}
			zw.Close()
			o.Close()
			b.Run("zip", func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				buf := make([]byte, 1<<20)
				for b.Loop() {
					z, _ := zip.OpenReader(zf)
					for _, f := range z.File {
						r, _ := f.Open()
						io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, buf)
						r.Close()
					}
					z.Close()
				}
			})
		})
	}
}

// BenchmarkZipRandom is what archive/zip does on the shapes of BenchmarkRandom.
func BenchmarkZipRandom(b *testing.B) {
	dir := b.TempDir()
	zf := filepath.Join(dir, "a.zip")
	o, _ := os.Create(zf)
	zw := zip.NewWriter(o)
	src := goText()
	for i := range 2000 {
		w, _ := zw.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("dir%03d/file%06d.go", i/100, i), Method: zip.Deflate})
		w.Write(src[i*1024 : i*1024+1024])
	}
	zw.Close()
	o.Close()
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			z, _ := zip.OpenReader(zf)
			z.Close()
		}
	})
	b.Run("read one", func(b *testing.B) {
		z, _ := zip.OpenReader(zf)
		i := 0
		for b.Loop() {
			r, _ := z.File[i*7%2000].Open()
			io.Copy(io.Discard, r)
			r.Close()
			i++
		}
	})
	o, _ = os.Create(zf)
	zw = zip.NewWriter(o)
	for i := range 4 {
		w, _ := zw.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("f%d", i), Method: zip.Store})
		w.Write(src[:8<<20])
	}
	zw.Close()
	o.Close()
	b.Run("ranges raw", func(b *testing.B) {
		z, _ := zip.OpenReader(zf)
		f, _ := os.Open(zf)
		buf := make([]byte, 8192)
		for b.Loop() {
			for _, e := range z.File {
				off, _ := e.DataOffset()
				for k := range 3 {
					f.ReadAt(buf, off+int64(k)*2500000+12345)
				}
			}
		}
	})
}

func BenchmarkRandom(b *testing.B) {
	file, all := benchArchive(b, 2000, 1024, true)
	keys := slices.Sorted(mapKeys(all))
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			a, _ := Open(ctx, file, Options{Jobs: 1})
			a.Close()
		}
	})
	b.Run("open+read one", func(b *testing.B) {
		buf := make([]byte, 1024)
		i := 0
		for b.Loop() {
			a, _ := Open(ctx, file, Options{Jobs: 1})
			e, err := a.Get(mustPath(keys[i*7%2000]))
			if err != nil {
				b.Fatal(err)
			}
			f, _ := a.Open(&e)
			if _, err := f.ReadAt(buf, 0); err != nil {
				b.Fatal(err)
			}
			a.Close()
			i++
		}
	})
	b.Run("read one", func(b *testing.B) {
		buf := make([]byte, 1024)
		i := 0
		for b.Loop() {
			b.StopTimer()
			a, _ := Open(ctx, file, Options{Jobs: 1})
			b.StartTimer()
			e, err := a.Get(mustPath(keys[i*7%2000]))
			if err != nil {
				b.Fatal(err)
			}
			f, _ := a.Open(&e)
			if _, err := f.ReadAt(buf, 0); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			a.Close()
			b.StartTimer()
			i++
		}
	})
	file, _ = benchArchive(b, 4, 8<<20, false)
	b.Run("ranges raw warm", func(b *testing.B) {
		buf := make([]byte, 8192)
		a, _ := Open(ctx, file, Options{Jobs: 1})
		defer a.Close()
		var fs []*File
		for e := range a.List(pathsafe.Path{}) {
			f, _ := a.Open(&e)
			fs = append(fs, f)
		}
		for b.Loop() {
			for _, f := range fs {
				for k := range 3 {
					if _, err := f.ReadAt(buf, int64(k)*2500000+12345); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
	b.Run("ranges raw", func(b *testing.B) {
		buf := make([]byte, 8192)
		for b.Loop() {
			b.StopTimer()
			a, _ := Open(ctx, file, Options{Jobs: 1})
			var es []index.Entry
			for e := range a.List(pathsafe.Path{}) {
				es = append(es, e)
			}
			b.StartTimer()
			for i := range es {
				f, _ := a.Open(&es[i])
				for k := range 3 {
					if _, err := f.ReadAt(buf, int64(k)*2500000+12345); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			a.Close()
			b.StartTimer()
		}
	})
}

// BenchmarkTree adds the Go source tree, held in memory, and reports the archive's size.
func BenchmarkTree(b *testing.B) {
	var list []Source
	root := filepath.Join(goRoot(), "src")
	total := 0
	filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(p)
			rel, _ := filepath.Rel(root, p)
			list = append(list, fileSource(rel, data))
			total += len(data)
		}
		return nil
	})
	for _, jobs := range []int{1, 2} {
		b.Run(fmt.Sprint("jobs=", jobs), func(b *testing.B) {
			file := filepath.Join("/dev/shm", "tree.lbx")
			b.SetBytes(int64(total))
			for b.Loop() {
				os.Remove(file)
				a, err := Create(ctx, file, Options{Jobs: jobs}, CreateOptions{Level: frames.LevelDefault})
				if err != nil {
					b.Fatal(err)
				}
				tx, _ := a.Begin(ctx)
				if err := tx.Add(ctx, slices.Values(list), nil); err != nil {
					b.Fatal(err)
				}
				if _, err := tx.Commit(ctx); err != nil {
					b.Fatal(err)
				}
				a.Close()
			}
			st, _ := os.Stat(file)
			b.ReportMetric(float64(st.Size())/1e6, "MB")
			os.Remove(file)
		})
	}
}
