package bench

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"
	"os"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// The primitives whose rate the suites are held against, and what part of it they have to reach.
const (
	blake3Name  = "BLAKE3"
	gcmName     = "AES-256-GCM"
	blake3Share = 0.8
	gcmShare    = 0.7
)

// primitive does one suite's work on b, without keeping anything.
type primitive struct {
	name  string
	suite format.Suite
	goal  float64
	block int // that of raw frames of the suite
	run   func(b []byte) error
}

func primitives() ([]primitive, error) {
	h := blake3.New()
	ps := []primitive{{blake3Name, format.SuiteSigned, blake3Share, 32 * kib, func(b []byte) error {
		var sum [32]byte
		h.Reset()
		_, err := h.Write(b)
		h.Sum(sum[:0])
		return err
	}}}
	if seal.Cipher() != seal.AESGCM {
		return ps, nil
	}
	b, err := aes.NewCipher(make([]byte, seal.KeySize))
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(b)
	if err != nil {
		return nil, err
	}
	nonce, out := make([]byte, gcm.NonceSize()), make([]byte, 0, 64*kib+gcm.Overhead())
	// Sealing takes what opening takes, and needs no bytes that were sealed before.
	return append(ps, primitive{gcmName, format.SuiteEncrypted, gcmShare, 8 * kib, func(b []byte) error {
		gcm.Seal(out, nonce, b, nil)
		return nil
	}}), nil
}

// rate is what an archive's rate is held against.
type rate struct {
	contender Contender
	suite     format.Suite
	goal      float64
}

// rates are the primitives alone, in two sizes of blocks, and after reading a file. The former run over as many bytes
// as the file has but always the same 64 KiB, which the processor has in its cache; the goal is for blocks of that size,
// where a primitive is at its best. The latter is all that an archive can reach on one CPU, because it reads its bytes
// before it looks at them.
func rates(file string, total int64) ([]rate, error) {
	ps, err := primitives()
	if err != nil {
		return nil, err
	}
	const most = 64 * kib
	data := make([]byte, most)
	f := Raw("", most, 5)
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	var rs []rate
	for _, p := range ps {
		alone := func(name string, block int, goal float64) {
			rs = append(rs, rate{Contender{Name: name, Run: timed(func() error {
				for i := range int(total) / block {
					at := i * block % most
					if err := p.run(data[at : at+block]); err != nil {
						return err
					}
				}
				return nil
			})}, p.suite, goal})
		}
		alone(p.name+" in blocks of 64 KiB", most, p.goal)
		alone(p.name+" in blocks of 4 KiB", 4*kib, 0)
		rs = append(rs, rate{Contender{Name: "reading and " + p.name, Run: timed(func() error { return p.file(file) })}, p.suite, 0})
	}
	return rs, nil
}

// file reads a file in pieces and does the work on each, block by block.
func (p *primitive) file(name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	piece := make([]byte, 128*kib)
	for off := int64(0); ; {
		n, err := f.ReadAt(piece, off)
		off += int64(n)
		for b := piece[:n]; len(b) > 0; {
			k := min(len(b), p.block)
			if err := p.run(b[:k]); err != nil {
				return err
			}
			b = b[k:]
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addRates relates the archives of the suites to what rates measured of the primitives.
func (e *env) addRates(vs []variant, sets []Set, rs []rate) {
	gcm := false
	for i, r := range rs {
		against := &sets[len(vs)+i]
		gcm = gcm || r.suite == format.SuiteEncrypted
		for k := range vs {
			if vs[k].p == nil || vs[k].p.suite != r.suite {
				continue
			}
			s := sets[k]
			s.Contender += ": rate by that of " + against.Contender
			s.Counters, s.Speedup, s.AtLeast = nil, true, true
			s.Compared(against, false)
			s.WithGoal(r.goal)
			e.add(s)
		}
	}
	if !gcm {
		e.add(Set{Section: e.section, Workload: e.name, Contender: "lockbox, encrypted: rate by that of " + gcmName,
			Note: "without instructions for AES, archives are encrypted with " + seal.Cipher().String()})
	}
}
