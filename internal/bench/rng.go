package bench

import "math/bits"

// rng is splitmix64. Fixtures must be the same bytes with every Go release, so they do not use math/rand.
type rng uint64

const golden = 0x9e3779b97f4a7c15

func (r *rng) next() uint64 {
	*r += golden
	return mix(uint64(*r))
}

// n returns a number from 0 to n-1.
func (r *rng) n(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// low returns a number from 0 to n-1, small ones far more often.
func (r *rng) low(n int) int { return min(r.n(n), r.n(n), r.n(n)) }

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// perm returns a permutation of 0 to n-1.
func (r *rng) perm(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := r.n(i + 1)
		p[i], p[j] = p[j], i
	}
	return p
}
