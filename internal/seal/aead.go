package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/cpu"

	"lockbox/internal/format"
)

// Why no (key, nonce) pair of the AEAD repeats:
//
// Key. Each transaction attempt has its own, derived from the content key, the archive id and the attempt
// id. The content key is 256 random bits, the attempt id 128 random bits drawn when the transaction
// begins; whatever is sealed is sealed in a transaction, with its id. A transaction that is retried, or
// repeated after a rollback or a crash, is another one and draws another id; so does one in a copy of the
// file. Two attempts of one archive have equal ids with a probability below n²/2^129.
//
// Nonce. Within an attempt it is (kind, number, block), each of which is counted up and never set back:
//
//   - a frame's number is given out when the frame is dispatched and belongs to that frame alone, also
//     when the frame is dropped; it is encoded once; each of its blocks is sealed once (KindBlock, the
//     block's number), and once its table (KindTable) and its members (KindHeader), which are no block;
//   - a node's number is its sequence number in the attempt (KindNode);
//   - the commit block is sealed once an attempt, when it is published; its number is the generation
//     (KindCommit); so are the labels of a key directory (KindKeys).
//
// What is moved or copied keeps its sealed bytes and is not sealed again. The three numbers are written
// side by side into the nonce, so different triples give different nonces: kinds are below 2^8, numbers
// below 2^64, and a frame has fewer than 2^24−1 blocks.

const maxBlocks = 1<<24 - 1

const _ = uint(maxBlocks - 1 - format.MaxFramePlain>>9) // what no block can reach is not a block

// nonceSize is the length of a nonce; XChaCha20 has zeros after it.
const nonceSize = 12

// Nonce is what is sealed under a key at most once.
type Nonce [nonceSize]byte

func nonceOf(number uint64, kind Kind, block uint32) (n Nonce) {
	binary.LittleEndian.PutUint64(n[:], number)
	// NoBlock becomes 2^24−1.
	binary.LittleEndian.PutUint32(n[8:], block<<8|uint32(kind))
	return n
}

// Slack is the spare capacity behind a block with which it is sealed and opened without a copy.
const Slack = 16

// encrypted is the suite of encrypted archives: an AEAD tag, for signed ones followed by the BLAKE3-256 of
// context and sealed bytes, which who has the key cannot forge either.
type encrypted struct {
	id       format.Suite
	alg      Algorithm
	archive  format.ID
	content  ContentKey
	prefixed *[KeySize]byte // the key of prefix
	prefix   sync.Pool      // of keyed *blake3.Hasher
	hider    *Hider
	observe  func(key [KeySize]byte, n Nonce)
	last     atomic.Pointer[attempt]
	mu       sync.RWMutex
	attempts map[format.ID]*attempt
}

// attempt is the cipher of a transaction attempt.
type attempt struct {
	id   format.ID
	aead cipher.AEAD
	key  *[KeySize]byte // kept for an observer only
}

// maxAttempts bounds how many attempts' ciphers are kept.
const maxAttempts = 1024

// Cipher is what a new encrypted archive uses: AES-256-GCM where the processor has instructions for it.
func Cipher() Algorithm {
	if runtime.GOARCH == "amd64" && cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || runtime.GOARCH == "arm64" && (cpu.ARM64.HasAES && cpu.ARM64.HasPMULL || runtime.GOOS == "darwin") {
		return AESGCM
	}
	return XChaCha20
}

// Config is what an encrypted archive's suite is made of.
type Config struct {
	Signed  bool
	Cipher  Algorithm // AESGCM or XChaCha20
	Archive format.ID
	Key     *ContentKey
	Observe func(key [KeySize]byte, n Nonce) // for tests: told of every pair that something is sealed with; may be nil
}

// NewEncrypted returns the suite of an encrypted archive. It keeps a copy of the key.
func NewEncrypted(c Config) Suite {
	s := &encrypted{id: format.SuiteEncrypted, alg: c.Cipher, archive: c.Archive, content: *c.Key, observe: c.Observe, attempts: map[format.ID]*attempt{}}
	if c.Signed {
		s.id = format.SuiteBoth
	}
	s.prefixed = s.content.derive(contextPrefix, c.Archive[:])
	s.prefix.New = func() any { return keyed(s.prefixed) }
	s.hider = newHider(&s.content, c.Archive)
	return s
}

func (s *encrypted) ID() format.Suite     { return s.id }
func (s *encrypted) Algorithm() Algorithm { return s.alg }
func (s *encrypted) Hider() *Hider        { return s.hider }

func (s *encrypted) TagSize() int {
	if s.id == format.SuiteBoth {
		return chacha20poly1305.Overhead + digestSize
	}
	return chacha20poly1305.Overhead
}

func (s *encrypted) Wipe() {
	clear(s.content[:])
	clear(s.prefixed[:])
	s.hider.wipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Store(nil)
	clear(s.attempts)
}

func (s *encrypted) Prefix(d *format.Digest) (p [8]byte) {
	h := s.prefix.Get().(*blake3.Hasher)
	h.Reset()
	h.Write(d[:])
	var sum format.Digest
	h.Sum(sum[:0])
	s.prefix.Put(h)
	return [8]byte(sum[:8])
}

// cipher returns the cipher of an attempt.
func (s *encrypted) cipher(id *format.ID) *attempt {
	if a := s.last.Load(); a != nil && a.id == *id {
		return a
	}
	s.mu.RLock()
	a := s.attempts[*id]
	s.mu.RUnlock()
	if a == nil {
		key := s.content.derive(contextAttempt, s.archive[:], []byte{byte(s.alg)}, id[:])
		a = &attempt{id: *id, aead: newAEAD(s.alg, key)}
		if s.observe != nil {
			a.key = key
		} else {
			clear(key[:])
		}
		s.mu.Lock()
		if len(s.attempts) >= maxAttempts {
			clear(s.attempts)
		}
		s.attempts[*id] = a
		s.mu.Unlock()
	}
	s.last.Store(a)
	return a
}

// newAEAD makes a cipher. A key of the right length is all that it can fail for.
func newAEAD(alg Algorithm, key *[KeySize]byte) cipher.AEAD {
	if alg == XChaCha20 {
		a, err := chacha20poly1305.NewX(key[:])
		if err != nil {
			panic(err)
		}
		return a
	}
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	a, err := cipher.NewGCM(b)
	if err != nil {
		panic(err)
	}
	return a
}

// scratch keeps what would otherwise be allocated for every block.
type scratch struct {
	nonce [chacha20poly1305.NonceSizeX]byte
	aad   [ContextSize]byte
	tail  [Slack]byte
	tag   [Slack]byte
	buf   []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *encrypted) prepare(c *Context, kind Kind, block uint32) (*scratch, *attempt, []byte) {
	x := scratches.Get().(*scratch)
	a := s.cipher(&c.Attempt)
	x.aad = c.bind(kind, block)
	n := nonceOf(c.Number, kind, block)
	copy(x.nonce[:], n[:])
	return x, a, x.nonce[:a.aead.NonceSize()]
}

// room returns a buffer of n bytes.
func (x *scratch) room(n int) []byte {
	if cap(x.buf) < n {
		x.buf = make([]byte, n)
	}
	return x.buf[:n]
}

func (s *encrypted) Seal(c *Context, kind Kind, block uint32, b, tag []byte) {
	x, a, nonce := s.prepare(c, kind, block)
	if s.observe != nil {
		s.observe(*a.key, Nonce(nonce[:nonceSize]))
	}
	n := len(b)
	if cap(b) >= n+Slack {
		tail := b[n : n+Slack]
		copy(x.tail[:], tail)
		a.aead.Seal(b[:0], nonce, b, x.aad[:])
		copy(x.tag[:], tail)
		copy(tail, x.tail[:])
		clear(x.tail[:])
	} else {
		out := a.aead.Seal(x.room(n + Slack)[:0], nonce, b, x.aad[:])
		copy(b, out)
		copy(x.tag[:], out[n:])
	}
	copy(tag, x.tag[:])
	scratches.Put(x)
	if s.id == format.SuiteBoth {
		d := digest(c, kind, block, b)
		copy(tag[Slack:], d[:])
	}
}

func (s *encrypted) Open(c *Context, kind Kind, block uint32, b, tag []byte) bool {
	if len(tag) < s.TagSize() {
		return false
	}
	// The digest first: afterwards the sealed bytes are gone.
	if s.id == format.SuiteBoth && format.Digest(tag[Slack:Slack+digestSize]) != digest(c, kind, block, b) {
		return false
	}
	x, a, nonce := s.prepare(c, kind, block)
	defer scratches.Put(x)
	n := len(b)
	copy(x.tag[:], tag) // it may stand in what follows b
	if cap(b) < n+Slack {
		in := x.room(n + Slack)
		copy(in, b)
		copy(in[n:], x.tag[:])
		_, err := a.aead.Open(b[:0], nonce, in, x.aad[:])
		return err == nil
	}
	tail := b[n : n+Slack]
	copy(x.tail[:], tail)
	copy(tail, x.tag[:])
	_, err := a.aead.Open(b[:0], nonce, b[:n+Slack], x.aad[:])
	copy(tail, x.tail[:])
	clear(x.tail[:])
	return err == nil
}
