package rar

import (
	"encoding/binary"
	"math/bits"
)

// BLAKE2sp: eight leaves of BLAKE2s (RFC 7693) take blocks in turn, and a root hashes what they come to. The libraries at
// hand have BLAKE2s without the parameters of a tree.
const (
	blakeBlock = 64
	blakeSize  = 32
	leaves     = 8
)

var blakeIV = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

var blakeSigma = [10][16]uint8{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}

// node is BLAKE2s at one place of the tree. Its last block stays in buf until it is known to be the last.
type node struct {
	h    [8]uint32
	n    uint64 // bytes compressed
	buf  [blakeBlock]byte
	used int
	last bool // of its level
}

func newNode(offset, depth uint32, last bool) *node {
	d := &node{h: blakeIV, last: last}
	d.h[0] ^= blakeSize | leaves<<16 | 2<<24
	d.h[2] ^= offset
	d.h[3] ^= depth<<16 | blakeSize<<24
	return d
}

func (d *node) write(p []byte) {
	for len(p) > 0 {
		if d.used == blakeBlock {
			d.n += blakeBlock
			d.compress(0, 0)
			d.used = 0
		}
		k := copy(d.buf[d.used:], p)
		d.used += k
		p = p[k:]
	}
}

func (d *node) sum() (out [blakeSize]byte) {
	clear(d.buf[d.used:])
	d.n += uint64(d.used)
	end := uint32(0)
	if d.last {
		end = ^end
	}
	d.compress(^uint32(0), end)
	for i, w := range d.h {
		binary.LittleEndian.PutUint32(out[4*i:], w)
	}
	return out
}

func (d *node) compress(f0, f1 uint32) {
	var m, v [16]uint32
	for i := range m {
		m[i] = binary.LittleEndian.Uint32(d.buf[4*i:])
	}
	copy(v[:8], d.h[:])
	copy(v[8:], blakeIV[:])
	v[12] ^= uint32(d.n)
	v[13] ^= uint32(d.n >> 32)
	v[14] ^= f0
	v[15] ^= f1
	mix := func(a, b, c, d int, x, y uint32) {
		v[a] += v[b] + x
		v[d] = bits.RotateLeft32(v[d]^v[a], -16)
		v[c] += v[d]
		v[b] = bits.RotateLeft32(v[b]^v[c], -12)
		v[a] += v[b] + y
		v[d] = bits.RotateLeft32(v[d]^v[a], -8)
		v[c] += v[d]
		v[b] = bits.RotateLeft32(v[b]^v[c], -7)
	}
	for _, s := range blakeSigma {
		for i := range 4 {
			mix(i, i+4, i+8, i+12, m[s[2*i]], m[s[2*i+1]])
		}
		for i := range 4 {
			mix(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4, m[s[8+2*i]], m[s[9+2*i]])
		}
	}
	for i := range d.h {
		d.h[i] ^= v[i] ^ v[i+8]
	}
}

// blake2sp hashes a stream.
type blake2sp struct {
	leaf [leaves]*node
	at   int // bytes, in the round of all leaves
}

func newBlake2sp() *blake2sp {
	b := &blake2sp{}
	for i := range b.leaf {
		b.leaf[i] = newNode(uint32(i), 0, i == leaves-1)
	}
	return b
}

func (b *blake2sp) write(p []byte) {
	for len(p) > 0 {
		k := min(len(p), blakeBlock-b.at%blakeBlock)
		b.leaf[b.at/blakeBlock].write(p[:k])
		b.at = (b.at + k) % (leaves * blakeBlock)
		p = p[k:]
	}
}

func (b *blake2sp) sum() [blakeSize]byte {
	root := newNode(0, 1, true)
	for _, l := range b.leaf {
		s := l.sum()
		root.write(s[:])
	}
	return root.sum()
}
