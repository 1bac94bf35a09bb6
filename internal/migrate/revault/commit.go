package revault

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"filippo.io/mldsa"

	"lockbox/internal/format"
)

// root is what a commit consists of, as far as a reader needs it.
type root struct {
	toc, variables, forms int64
	unfinished            bool // removed data may not have been overwritten yet
	sum                   format.Digest
}

const (
	rootSize     = 88
	rootSizeWipe = 120 // of a commit that removed something
)

func (ps *pages) readRoot(h *header) (root, error) {
	p, err := ps.read(h.root, maxOtherPage)
	if err != nil {
		return root{}, err
	}
	payload, err := p.first(kindRoot)
	if err != nil {
		return root{}, err
	}
	c := format.NewCursor(payload, "reVault commit root", h.root)
	kind := c.U8()
	c.Zero(7)
	sequence := c.U64()
	r := root{toc: c.I64(), variables: c.I64(), forms: c.I64(), sum: checksum(payload)}
	switch {
	case c.Err() != nil:
		return root{}, c.Err()
	case kind == 1 && len(payload) == rootSize:
	case kind == 2 && len(payload) == rootSizeWipe && h.version == 2:
		r.unfinished = h.cleaned < h.sequence
	default:
		return root{}, corrupt("commit root", h.root, "kind %d with %d bytes is unknown", kind, len(payload))
	}
	if sequence != h.sequence || r.toc == 0 {
		return root{}, corrupt("commit root", h.root, "it is that of commit %d, and the header names commit %d", sequence, h.sequence)
	}
	return r, nil
}

const (
	algEd25519 = 1
	algMLDSA65 = 2

	maxSigners  = 64
	maxKeyBytes = 16 << 10
	signedLabel = "lockbox-v1-commit-auth"
)

// signer is a public key and what it signed with.
type signer struct {
	algorithm      uint16
	key, signature []byte
}

// readSigner returns who signed the commit, "" when nobody did. What it returns was verified, for a commit that is h's.
func (ps *pages) readSigner(h *header, r root) (string, error) {
	if h.auth == 0 {
		return "", nil
	}
	p, err := ps.read(h.auth, maxOtherPage)
	if err != nil {
		return "", err
	}
	payload, err := p.first(kindAuth)
	if err != nil {
		return "", err
	}
	c := format.NewCursor(payload, "reVault signature record", h.auth)
	magic, version := c.Bytes(8), c.U8()
	c.Zero(7)
	id, sequence, at, sum := c.ID(), c.U64(), c.I64(), c.Digest()
	c.Bytes(8 + 32) // the signature record before this one
	c.Zero(8)
	signers := make([]signer, count(c, 2+4))
	for i := range signers {
		signers[i].algorithm, signers[i].key = c.U16(), bounded(c)
	}
	signed := payload[:len(payload)-c.Len()]
	if again := c.U32(); int64(again) != int64(len(signers)) {
		c.Fail("it has not as many signatures as keys")
	}
	for i := range signers {
		s := &signers[i]
		if alg, key := c.U16(), bounded(c); alg != s.algorithm || string(key) != string(s.key) {
			c.Fail("keys and signatures are not in one order")
		}
		s.signature = bounded(c)
	}
	if err := c.Done(); err != nil {
		return "", err
	}
	if string(magic) != "LBX1AUTH" || version != 1 || id != ps.id || sequence != h.sequence || at != h.root || sum != r.sum {
		return "", corrupt("signature record", h.auth, "it is not that of commit %d", h.sequence)
	}
	return verifySigners(signers, append([]byte(signedLabel), signed[16:]...))
}

func count(c *format.Cursor, least int) int {
	n := c.U32()
	if n > maxSigners || int(n) > c.Len()/least {
		c.Fail("too many keys")
		return 0
	}
	return int(n)
}

func bounded(c *format.Cursor) []byte {
	b := bytes32(c)
	if len(b) > maxKeyBytes {
		c.Fail("a key or a signature is too long")
	}
	return b
}

// verifySigners demands one signature of each kind.
func verifySigners(signers []signer, message []byte) (string, error) {
	names := map[uint16]string{}
	for _, s := range signers {
		var ok bool
		var name string
		switch s.algorithm {
		case algEd25519:
			name = "Ed25519 " + hex.EncodeToString(s.key)
			ok = len(s.key) == ed25519.PublicKeySize && ed25519.Verify(s.key, message, s.signature)
		case algMLDSA65:
			sum := sha256.Sum256(s.key)
			name = "ML-DSA-65 SHA-256:" + hex.EncodeToString(sum[:])
			if key, err := mldsa.NewPublicKey(mldsa.MLDSA65(), s.key); err == nil {
				ok = mldsa.Verify(key, message, s.signature, nil) == nil
			}
		default:
			return "", failure(format.ErrVersion, "signature record", "signature algorithm %d is unknown", s.algorithm)
		}
		if !ok {
			return "", failure(format.ErrAuth, "signature record", "the signature by %s is wrong", name)
		}
		if names[s.algorithm] != "" {
			return "", failure(format.ErrAuth, "signature record", "it has two signatures of one kind")
		}
		names[s.algorithm] = name
	}
	if len(names) != 2 {
		return "", failure(format.ErrAuth, "signature record", "it has not both an Ed25519 and an ML-DSA-65 signature")
	}
	return fmt.Sprintf("%s and %s", names[algEd25519], names[algMLDSA65]), nil
}
