package zip

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/subtle"
	"hash"
	"hash/crc32"
	"io"

	"lockbox/internal/format"
)

// methodAES stands for the method of an entry that WinZip's scheme encrypts; the real one is in a field.
const methodAES = 99

// aesField is the field 0x9901.
type aesField struct {
	version  uint16 // 2: the check sum is left out
	strength uint8
	method   uint16
}

func parseAES(extra string) (a aesField, err error) {
	f, ok := field(extra, 0x9901)
	if !ok || len(f) < 7 || f[2:4] != "AE" {
		return a, corrupt(-1, "the field that describes its encryption is missing")
	}
	a = aesField{le.Uint16([]byte(f[:2])), f[4], le.Uint16([]byte(f[5:7]))}
	if a.version < 1 || a.version > 2 || a.strength < 1 || a.strength > 3 {
		return a, corrupt(-1, "it is encrypted with AES of the unknown version %d, strength %d", a.version, a.strength)
	}
	return a, nil
}

func wrongPassphrase() error {
	return &format.Error{Kind: format.ErrAuth, Record: "ZIP archive", Offset: -1, Detail: "the passphrase does not open it"}
}

// macLen is the length of what authenticates an entry's ciphertext.
const macLen = 10

// aesReader decrypts an entry; at the end of the ciphertext it has been authenticated, or the end is an error.
type aesReader struct {
	r      io.Reader // ciphertext alone
	tail   io.Reader // what follows it
	stream aesCTR
	mac    hash.Hash
	err    error // how it ended
}

// newAES opens size bytes: salt, two bytes that tell a wrong passphrase, ciphertext, code.
func newAES(r io.Reader, size int64, a aesField, passphrase []byte) (io.Reader, error) {
	keyLen := 8 + 8*int(a.strength)
	saltLen := keyLen / 2
	if size < int64(saltLen)+2+macLen {
		return nil, corrupt(-1, "it is too short for what its encryption needs")
	}
	head := make([]byte, saltLen+2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, noEOF(err, -1)
	}
	keys, err := pbkdf2.Key(sha1.New, string(passphrase), head[:saltLen], 1000, 2*keyLen+2)
	if err != nil {
		return nil, err
	}
	defer clear(keys)
	if subtle.ConstantTimeCompare(keys[2*keyLen:], head[saltLen:]) != 1 {
		return nil, wrongPassphrase()
	}
	block, err := aes.NewCipher(keys[:keyLen])
	if err != nil {
		return nil, err
	}
	return &aesReader{
		r: io.LimitReader(r, size-int64(saltLen)-2-macLen), tail: r,
		stream: aesCTR{block: block, used: aes.BlockSize}, mac: hmac.New(sha1.New, keys[keyLen:2*keyLen]),
	}, nil
}

func (a *aesReader) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.r.Read(p)
	a.mac.Write(p[:n])
	a.stream.xor(p[:n])
	if err == io.EOF {
		var code [macLen]byte
		if _, err2 := io.ReadFull(a.tail, code[:]); err2 != nil {
			err = noEOF(err2, -1)
		} else if !hmac.Equal(code[:], a.mac.Sum(nil)[:macLen]) {
			err = corrupt(-1, "its authentication code does not match: it was changed, or is damaged")
		}
	}
	a.err = err
	return n, err
}

// aesCTR is counter mode with a counter that begins at 1 and has its lowest byte first.
type aesCTR struct {
	block   cipher.Block
	counter [aes.BlockSize]byte
	key     [aes.BlockSize]byte
	used    int
}

func (c *aesCTR) xor(p []byte) {
	for len(p) > 0 {
		if c.used == aes.BlockSize {
			for i := range c.counter {
				if c.counter[i]++; c.counter[i] != 0 {
					break
				}
			}
			c.block.Encrypt(c.key[:], c.counter[:])
			c.used = 0
		}
		n := subtle.XORBytes(p, p, c.key[c.used:])
		c.used += n
		p = p[n:]
	}
}

// weakReader is the encryption that ZIP had first. It keeps out nobody who tries, but people have such archives.
type weakReader struct {
	r    io.Reader
	keys [3]uint32
}

const weakHead = 12

// newWeak opens an entry whose head ends in the given check byte.
func newWeak(r io.Reader, check byte, passphrase []byte) (io.Reader, error) {
	w := &weakReader{r: r, keys: [3]uint32{0x12345678, 0x23456789, 0x34567890}}
	for _, c := range passphrase {
		w.update(c)
	}
	var head [weakHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, noEOF(err, -1)
	}
	w.decrypt(head[:])
	if head[weakHead-1] != check {
		return nil, wrongPassphrase()
	}
	return w, nil
}

func (w *weakReader) update(c byte) {
	w.keys[0] = crc32.IEEETable[byte(w.keys[0])^c] ^ w.keys[0]>>8
	w.keys[1] = (w.keys[1]+w.keys[0]&0xff)*134775813 + 1
	w.keys[2] = crc32.IEEETable[byte(w.keys[2])^byte(w.keys[1]>>24)] ^ w.keys[2]>>8
}

func (w *weakReader) decrypt(p []byte) {
	for i, c := range p {
		t := w.keys[2] | 2
		c ^= byte(t * (t ^ 1) >> 8)
		w.update(c)
		p[i] = c
	}
}

func (w *weakReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.decrypt(p[:n])
	return n, err
}

// decrypted is the entry's compressed bytes.
func (a *archive) decrypted(h *header, l local, r *io.SectionReader) (io.Reader, uint16, error) {
	b := bufio.NewReaderSize(r, int(min(r.Size(), 64<<10)))
	if h.flags&flagEncrypted == 0 {
		return b, h.method, nil
	}
	if h.method == methodAES {
		f, err := parseAES(h.extra)
		if err != nil {
			return nil, 0, err
		}
		d, err := newAES(b, r.Size(), f, a.passphrase)
		return d, f.method, err
	}
	check := byte(h.crc >> 24)
	if h.flags&flagDescriptor != 0 {
		check = byte(h.dosTime >> 8)
	}
	if r.Size() < weakHead {
		return nil, 0, corrupt(l.data, "it is too short for what its encryption needs")
	}
	d, err := newWeak(b, check, a.passphrase)
	return d, h.method, err
}
