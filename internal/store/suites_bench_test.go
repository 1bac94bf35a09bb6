package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeebo/blake3"

	"lockbox/internal/frames"
)

// BenchmarkSuites reads and writes 64 MiB that do not compress, as each suite stores them, with one worker,
// beside what the primitives alone take.
func BenchmarkSuites(b *testing.B) {
	const size = 64 << 20
	data := randomBytes(rand.New(rand.NewPCG(1, 9)), size)
	b.Run("primitive=BLAKE3", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			blake3.Sum256(data)
		}
	})
	b.Run("primitive=AES-256-GCM", func(b *testing.B) {
		block, _ := aes.NewCipher(make([]byte, 32))
		gcm, _ := cipher.NewGCM(block)
		const n = 64 << 10
		sealed := gcm.Seal(nil, make([]byte, 12), data[:n], nil)
		out := make([]byte, 0, n)
		b.SetBytes(size)
		for b.Loop() {
			for range size / n {
				if _, err := gcm.Open(out, make([]byte, 12), sealed, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	dir, err := os.MkdirTemp("/dev/shm", "lbx")
	if err != nil {
		dir = b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	for _, suite := range suites {
		file := filepath.Join(dir, fmt.Sprint(suite))
		write := func(b *testing.B, level frames.Level) {
			o, c := Options{Jobs: 1}, CreateOptions{Level: level}
			Protect(&o, &c, suite)
			a, err := Create(ctx, file, o, c)
			if err != nil {
				b.Fatal(err)
			}
			tx, err := a.Begin(ctx)
			if err == nil {
				err = tx.Add(ctx, slices.Values([]Source{fileSource("f", data)}), nil)
			}
			if err == nil {
				_, err = tx.Commit(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
			a.Close()
		}
		b.Run(fmt.Sprintf("write/%v", suite), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				os.Remove(file)
				write(b, frames.LevelNone)
			}
		})
		os.Remove(file)
		write(b, frames.LevelNone)
		o := Options{Jobs: 1}
		Protect(&o, nil, suite)
		a, err := Open(ctx, file, o)
		if err != nil {
			b.Fatal(err)
		}
		e, _ := a.Get(mustPath("f"))
		f, err := a.Open(&e)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("stream/%v", suite), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := f.CopyRange(ctx, io.Discard, 0, size); err != nil {
					b.Fatal(err)
				}
			}
		})
		out := make([]byte, size)
		b.Run(fmt.Sprintf("readat/%v", suite), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := f.ReadAt(out, 0); err != nil && err != io.EOF {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("random8k/%v", suite), func(b *testing.B) {
			p := make([]byte, 8<<10)
			r := rand.New(rand.NewPCG(3, 3))
			b.SetBytes(8 << 10)
			for b.Loop() {
				if _, err := f.ReadAt(p, r.Int64N(size-16<<10)); err != nil {
					b.Fatal(err)
				}
			}
		})
		if !bytes.Equal(out[:1<<20], data[:1<<20]) {
			b.Fatal("other bytes")
		}
		a.Close()
	}
}
