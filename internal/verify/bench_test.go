package verify

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// sourceTree archives the Go toolchain's own source: files up to 128 KiB in packs of 256 KiB, the rest in
// frames of 256 KiB.
func sourceTree(b *testing.B, level frames.Level) []byte {
	b.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("no Go toolchain here: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	m := newModel(b, 512, level)
	m.nodeSize = 8192
	var datas [][]byte
	var names []string
	size, number, content := 0, uint64(1), uint64(1)
	flush := func() {
		if len(datas) == 0 {
			return
		}
		var plain []byte
		var members []frames.Member
		for i, d := range datas {
			m.content(content, d, index.Run{Frame: number, Off: int64(len(plain)), Len: int64(len(d))})
			members = append(members, frames.Member{Content: content, Len: int64(len(d))})
			plain = append(plain, d...)
			m.entry(names[i], index.Entry{Kind: index.File, Size: int64(len(d)), Content: content})
			content++
		}
		m.frame(number, 0, plain, members...)
		number++
		datas, names, size = nil, nil, 0
	}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil || len(data) == 0 {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))
		if len(data) <= 128<<10 {
			datas, names, size = append(datas, data), append(names, name), size+len(data)
			if size >= 256<<10 {
				flush()
			}
			return nil
		}
		flush()
		var order []int
		for k := 0; k*(256<<10) < len(data); k++ {
			order = append(order, k)
		}
		run := m.split(number, content, data, 256<<10, order...)
		m.content(content, data, run)
		m.entry(name, index.Entry{Kind: index.File, Size: int64(len(data)), Content: content})
		number += uint64(len(order))
		content++
		return nil
	})
	if err != nil {
		b.Skip("no Go source here: ", err)
	}
	flush()
	return m.build()
}

func BenchmarkSourceTree(b *testing.B) {
	for name, level := range map[string]frames.Level{"fast": frames.LevelFast, "raw": frames.LevelNone} {
		file := sourceTree(b, level)
		for _, jobs := range []int{1, 2} {
			for _, full := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/jobs=%d/full=%v", name, jobs, full), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						s, err := Run(context.Background(), memFile(file), Options{Full: full, Jobs: jobs})
						if err != nil || s.Damaged > 0 {
							b.Fatal(s, err)
						}
						if full {
							b.SetBytes(int64(s.Bytes))
						}
					}
				})
			}
		}
	}
}

// BenchmarkLongContents is what bounds the digest of a content over many frames.
func BenchmarkLongContents(b *testing.B) {
	for name, data := range map[string][]byte{"raw": random(64<<20, 1), "text": bytes.Repeat(text(1<<20, 1), 64)} {
		m := newModel(b, 512, frames.LevelFast)
		var order []int
		for k := range 64 {
			order = append(order, k)
		}
		m.content(1, data, m.split(1, 1, data, 1<<20, order...))
		m.entry("x", index.Entry{Kind: index.File, Size: int64(len(data)), Content: 1})
		file := m.build()
		for _, jobs := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/jobs=%d", name, jobs), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					if s, err := Run(context.Background(), memFile(file), Options{Full: true, Jobs: jobs}); err != nil || s.Damaged > 0 {
						b.Fatal(s, err)
					}
				}
			})
		}
	}
}

// BenchmarkMillion checks a million small files and reports the heap that it needs.
func BenchmarkMillion(b *testing.B) {
	const n, per = 1 << 20, 1 << 10
	m := newModel(b, 512, frames.LevelFast)
	m.nodeSize = 8192
	for p := range uint64(n / per) {
		var datas [][]byte
		for k := range uint64(per) {
			datas = append(datas, fmt.Appendf(nil, "file %d", p*per+k))
		}
		m.pack(p+1, 0, fmt.Sprintf("d%04d", p), p*per+1, datas...)
	}
	file := slices.Clip(m.build())
	m = nil
	path := filepath.Join(b.TempDir(), "a")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		b.Fatal(err)
	}
	file = nil
	runtime.GC()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) {
			peak := uint64(0)
			for b.Loop() {
				calls := 0
				s, err := Run(context.Background(), osFile{f}, Options{Full: full, Jobs: 1, Progress: func(_, _ int64) {
					if calls++; calls%8 == 0 {
						var now runtime.MemStats
						runtime.ReadMemStats(&now)
						peak = max(peak, now.HeapInuse)
					}
				}})
				if err != nil || s.Damaged > 0 || s.Entries != n {
					b.Fatal(s, err)
				}
			}
			b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
			b.ReportMetric(float64(before.HeapInuse)/(1<<20), "MiB-heap-before")
		})
	}
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
