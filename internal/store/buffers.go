package store

import (
	"math/bits"
	"sync"
)

// Buffers for stored bytes are reused, by powers of two from 4 KiB to 16 MiB, so that reading
// allocates nothing that grows with what is read.
var bufPools [13]sync.Pool

func getBuf(n int) *[]byte {
	k := bits.Len(uint(max(n-1, 0)) >> 12)
	if k >= len(bufPools) {
		b := make([]byte, n)
		return &b
	}
	if p, ok := bufPools[k].Get().(*[]byte); ok {
		*p = (*p)[:n]
		return p
	}
	b := make([]byte, n, 4096<<k)
	return &b
}

func putBuf(p *[]byte) {
	c := cap(*p)
	if k := bits.Len(uint(c-1) >> 12); k < len(bufPools) && c == 4096<<k {
		bufPools[k].Put(p)
	}
}
