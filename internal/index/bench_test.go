package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// nodes is a Source over a finished tree, as quick as a cache can be.
type nodes struct{ list []*Node }

func (s *nodes) Node(t Tree, ref Ref, level int) (*Node, error) { return s.list[ref.Seq], nil }

func benchTree(b testing.TB, n int) (*nodes, Root) {
	m := newMemory(b, 8192)
	root := bulkTree(b, m, n)
	s := &nodes{list: make([]*Node, m.seq)}
	for off, n := range m.live {
		s.list[m.refs[off].Seq] = n
	}
	return s, root
}

func TestGetDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("its pools forget buffers at random")
	}
	s, root := benchTree(t, 20_000)
	key := bulkKey(nil, 12_345)
	if n := testing.AllocsPerRun(200, func() {
		if _, ok, err := Get(s, Entries, root, key); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n >= 1 {
		t.Errorf("a lookup allocates %v times", n)
	}
}

func BenchmarkGet(b *testing.B) {
	s, root := benchTree(b, 1_000_000)
	rnd := rand.New(rand.NewPCG(1, 1))
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = bulkKey(nil, rnd.IntN(1_000_000))
	}
	b.ReportAllocs()
	b.ReportMetric(float64(root.Height), "levels")
	i := 0
	for b.Loop() {
		if _, ok, err := Get(s, Entries, root, keys[i%len(keys)]); !ok || err != nil {
			b.Fatal(ok, err)
		}
		i++
	}
}

func BenchmarkIter(b *testing.B) {
	s, root := benchTree(b, 1_000_000)
	it := NewIter(s, Entries, root)
	for b.Loop() {
		if !it.Next() {
			if it.Err() != nil {
				b.Fatal(it.Err())
			}
			it = NewIter(s, Entries, root)
		}
	}
}

func BenchmarkBulkApply(b *testing.B) {
	const n = 200_000
	for b.Loop() {
		if _, err := Apply(nil, discard{}, Entries, Root{}, testTag, 8192, bulkOps(n)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/item")
}

func BenchmarkApplyOne(b *testing.B) {
	s, root := benchTree(b, 200_000)
	ops := []Op{{Key: append(bulkKey(nil, 77_777), '+'), Value: make([]byte, 24)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Apply(s, discard{}, Entries, root, testTag, 8192, slices.Values(ops)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	e := vectorEntries()[0]
	key, value := e.Path.Key(), AppendEntry(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEntry(key, value); err != nil {
			b.Fatal(err)
		}
	}
}
