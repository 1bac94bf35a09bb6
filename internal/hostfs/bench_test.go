package hostfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// goSource is the Go toolchain's own source, a tree that every machine that runs tests has.
func goSource(b *testing.B) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("no Go toolchain")
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

// BenchmarkWalkRead walks, stats, opens, reads and checks every file with as many readers as jobs.
func BenchmarkWalkRead(b *testing.B) {
	src := goSource(b)
	for _, jobs := range []int{1, 2} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			var files int
			for b.Loop() {
				files = 0
				work := make(chan []Item, 4*jobs)
				var wg sync.WaitGroup
				for range jobs {
					wg.Go(func() {
						buf := make([]byte, 1<<20)
						for items := range work {
							for i := range items {
								if err := readAll(&items[i], buf); err != nil {
									b.Error(err)
								}
							}
						}
					})
				}
				var some []Item
				for it := range Walk(context.Background(), []Operand{{Host: src}}, WalkOptions{Jobs: jobs}) {
					if it.Kind != KindFile {
						continue
					}
					files++
					if some = append(some, it); len(some) == 64 {
						work <- some
						some = nil
					}
				}
				work <- some
				close(work)
				wg.Wait()
			}
			b.ReportMetric(float64(files), "files")
		})
	}
}

func readAll(it *Item, buf []byte) error {
	src, err := it.Open()
	if err != nil {
		return err
	}
	defer src.Close()
	for left := src.Size; left > 0; {
		n, err := src.Read(buf)
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return src.Check()
}

// BenchmarkWalk only walks and stats.
func BenchmarkWalk(b *testing.B) {
	src := goSource(b)
	for _, jobs := range []int{1, 2} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range Walk(context.Background(), []Operand{{Host: src}}, WalkOptions{Jobs: jobs}) {
				}
			}
		})
	}
}

// BenchmarkExtract writes 11,500 small files into 1,300 directories in memory.
func BenchmarkExtract(b *testing.B) {
	const files, dirs, batch = 11_500, 1300, 64
	shm := "/dev/shm"
	if _, err := os.Stat(shm); err != nil {
		b.Skip("no file system in memory")
	}
	data := make([]byte, 10<<10)
	m := Meta{Kind: KindFile, Mode: 0o644, MtimeSec: 1_000_000_000, MtimeNsec: 1}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dst, err := os.MkdirTemp(shm, "hostfs")
				check(b, err)
				b.StartTimer()
				x, err := NewExtractor(dst, ExtractOptions{})
				check(b, err)
				work := make(chan int, 16)
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for from := range work {
							for i := from; i < min(from+batch, files); i++ {
								p := path(b, fmt.Sprintf("pkg%d/sub%d/file%d.go", i*dirs/files/10, i*dirs/files, i))
								if err := x.WriteFile(p, m, data); err != nil {
									b.Error(err)
								}
							}
						}
					})
				}
				for d := range dirs {
					if d%10 == 0 {
						check(b, x.Mkdir(path(b, fmt.Sprintf("pkg%d", d/10)), Meta{Kind: KindDir, Mode: 0o755}, nil))
					}
					check(b, x.Mkdir(path(b, fmt.Sprintf("pkg%d/sub%d", d/10, d)), Meta{Kind: KindDir, Mode: 0o755}, nil))
				}
				for from := 0; from < files; from += batch {
					work <- from
				}
				close(work)
				wg.Wait()
				check(b, x.Finish())
				b.StopTimer()
				check(b, os.RemoveAll(dst))
				b.StartTimer()
			}
		})
	}
}
