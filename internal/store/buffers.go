package store

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"lockbox/internal/frames"
)

// Buffers for stored and plain bytes are reused, by powers of two from 4 KiB to 16 MiB, so that reading
// allocates nothing that grows with what is read. Each has room for the decoder to overrun the end.
var bufPools [13]sync.Pool

// secrets is set when this process has opened an encrypted archive: from then on buffers are overwritten when
// they are given back, whatever was in them. What the decoder and the cache hold goes with the garbage.
var secrets atomic.Bool

// getBuf returns a buffer of n bytes, which hold anything, with frames.Slack more behind them.
func getBuf(n int) *[]byte {
	k := bits.Len(uint(max(n-1, 0)) >> 12)
	if k >= len(bufPools) {
		b := make([]byte, n, n+frames.Slack)
		return &b
	}
	if p, ok := bufPools[k].Get().(*[]byte); ok {
		*p = (*p)[:n]
		return p
	}
	b := make([]byte, n, 4096<<k+frames.Slack)
	return &b
}

func putBuf(p *[]byte) {
	if secrets.Load() {
		clear((*p)[:cap(*p)])
	}
	c := cap(*p) - frames.Slack
	if k := bits.Len(uint(max(c-1, 0)) >> 12); k < len(bufPools) && c == 4096<<k {
		bufPools[k].Put(p)
	}
}
