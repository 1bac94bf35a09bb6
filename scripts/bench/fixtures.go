package main

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// file is a fixture's file.
type file struct {
	name string
	data []byte
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// rawBytes returns n bytes that do not compress; the same seed gives the same bytes.
func rawBytes(n int, seed uint64) []byte {
	g := rand.NewPCG(seed, 0x10c4b0)
	b := make([]byte, (n+7)&^7)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], g.Uint64())
	}
	return b[:n]
}

// goText returns n bytes of Go source from byte at on. Past the end it starts over, far beyond the reach of
// any of the compressors.
func (b *bench) goText(n, at int) ([]byte, error) {
	if b.text == nil {
		err := filepath.WalkDir(filepath.Join(b.goroot, "src"), func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(name, ".go") {
				return err
			}
			src, err := os.ReadFile(name)
			b.text = append(b.text, src...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(b.text) < 32*mib {
			return nil, fmt.Errorf("only %d bytes of Go source below %s", len(b.text), b.goroot)
		}
	}
	at %= len(b.text)
	if at+n <= len(b.text) {
		return b.text[at : at+n : at+n], nil
	}
	out := make([]byte, 0, n)
	for len(out) < n {
		k := min(n-len(out), len(b.text)-at)
		out = append(out, b.text[at:at+k]...)
		at = 0
	}
	return out, nil
}

// files returns count files of size bytes.
func (b *bench) files(count, size int, text bool) ([]file, error) {
	fsx := make([]file, count)
	for i := range fsx {
		fsx[i].name = fmt.Sprintf("dir%02d/file%05d", i/100, i)
		if !text {
			fsx[i].data = rawBytes(size, uint64(size)<<20+uint64(i))
			continue
		}
		var err error
		if fsx[i].data, err = b.goText(size, i*size); err != nil {
			return nil, err
		}
	}
	return fsx, nil
}

// repetitive is 16 MiB of text that says much the same over and over.
func repetitive() []file {
	var s strings.Builder
	for i := 0; s.Len() < 16*mib; i++ {
		fmt.Fprintf(&s, "2026-01-%02d 12:%02d:%02d INFO worker %d finished batch %d without errors\n", i%28+1, i/60%60, i%60, i%7, i)
	}
	return []file{{"repetitive.log", []byte(s.String()[:16*mib])}}
}

// mixed alternates text and raw files of many sizes.
func (b *bench) mixed() ([]file, error) {
	g := rand.New(rand.NewPCG(7, 7))
	var fsx []file
	for i := range 400 {
		size := 1 << (8 + g.IntN(13)) // 256 bytes to 1 MiB
		size += g.IntN(size)
		one, err := b.files(1, size, i%3 != 0)
		if err != nil {
			return nil, err
		}
		one[0].name = fmt.Sprintf("mixed/%04d", i)
		fsx = append(fsx, one[0])
	}
	return fsx, nil
}
