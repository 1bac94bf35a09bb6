package bench

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/zeebo/blake3"

	"lockbox/internal/seal"
)

// The primitives whose rate the suites are held against, and what part of it they have to reach. Signing and encrypting hash
// both, as an archive that is signed and encrypted does; it has no goal.
const (
	blake3Name  = "BLAKE3"
	gcmName     = "AES-256-GCM"
	blake3Share = 0.8
	gcmShare    = 0.7
)

// primitives run over as many bytes as are stored, always the same 64 KiB, which the processor has in its cache: what
// reading costs is no part of their rate.
func primitives(total int64) ([]Contender, error) {
	const most = 64 * kib
	data := make([]byte, most)
	f := Raw("", most, 5)
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(make([]byte, seal.KeySize))
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(b)
	if err != nil {
		return nil, err
	}
	nonce, h := make([]byte, gcm.NonceSize()), blake3.New()
	var sum [seal.KeySize]byte
	var cs []Contender
	for _, size := range []int{4 * kib, most} {
		blocks := int(total) / size
		cs = append(cs, Contender{Name: blake3Name + blocksOf(size), Run: timed(func() error {
			for i := range blocks {
				at := i * size % most
				h.Reset()
				_, _ = h.Write(data[at : at+size]) // it cannot fail
				h.Sum(sum[:0])
			}
			return nil
		})})
		sealed, out := gcm.Seal(nil, nonce, data[:size], nil), make([]byte, 0, size)
		cs = append(cs, Contender{Name: gcmName + blocksOf(size), Run: timed(func() error {
			for range blocks {
				if _, err := gcm.Open(out, nonce, sealed, nil); err != nil {
					return err
				}
			}
			return nil
		})})
	}
	return cs, nil
}

func blocksOf(size int) string {
	if size == 4*kib {
		return " in 4 KiB blocks"
	}
	return " in 64 KiB blocks"
}

// ratesOf relates archives of all suites to the primitives. The goal is for blocks of 64 KiB, where a primitive is at
// its best.
func ratesOf(suites, alone []Set) []Set {
	var rows []Set
	rate := func(of, against *Set, goal float64) {
		s := *of
		s.Contender += ": rate by that of " + against.Contender
		s.Counters, s.Speedup, s.AtLeast = nil, true, true
		s.Compared(against, false)
		s.WithGoal(goal)
		rows = append(rows, s)
	}
	for i := range alone {
		goal := 0.0
		if at := i / 2; i%2 == 0 {
			if at == 1 {
				goal = blake3Share
			}
			rate(&suites[1], &alone[i], goal)
		} else if seal.Cipher() == seal.AESGCM {
			if at == 1 {
				goal = gcmShare
			}
			rate(&suites[2], &alone[i], goal)
		}
	}
	if seal.Cipher() != seal.AESGCM {
		s := suites[2]
		s = Set{Section: s.Section, Workload: s.Workload, Contender: s.Contender + ": rate by that of " + gcmName,
			Note: "without instructions for AES, archives use " + seal.Cipher().String()}
		rows = append(rows, s)
	}
	return rows
}
