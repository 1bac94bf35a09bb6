package index

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An iterator that has been anywhere finds what a new one finds, and goes on from there as a new one does.
func TestSeekFromAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t, rapid.SampledFrom([]int{minNodeSize, 256, 8192}).Draw(t, "target"))
		n := rapid.SampledFrom([]int{0, 1, 20, 400}).Draw(t, "items")
		var ops []Op
		for i := range n {
			ops = append(ops, Op{Key: AppendNumKey(nil, uint64(3*i+3)), Value: bytes.Repeat([]byte{byte(i)}, i%30)})
		}
		root := m.apply(Contents, Root{}, ops)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		it := NewIter(m, Contents, root)
		at := uint64(0)
		for range 60 {
			switch r.IntN(6) {
			case 0:
				at = uint64(r.IntN(3*n + 5))
			default: // mostly near by
				at = uint64(max(0, int(at)+r.IntN(30)-12))
			}
			key := AppendNumKey(nil, at)
			fresh := NewIter(m, Contents, root)
			var got, want bool
			if r.IntN(5) == 0 {
				got, want = it.SeekLE(key), fresh.SeekLE(key)
			} else {
				got, want = it.Seek(key), fresh.Seek(key)
			}
			for steps := r.IntN(8); ; steps-- {
				if got != want || got && (!bytes.Equal(it.Key(), fresh.Key()) || !bytes.Equal(it.Value(), fresh.Value())) {
					t.Fatalf("at %d: %v, a new iterator says %v", at, got, want)
				}
				if !got || steps == 0 {
					break
				}
				got, want = it.Next(), fresh.Next()
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	})
}

// Looking up what stands in the leaf at hand loads no node.
func TestSeekInTheLeafLoadsNothing(t *testing.T) {
	m := newMemory(t, 4096)
	var ops []Op
	for i := range 2000 {
		ops = append(ops, Op{Key: AppendNumKey(nil, uint64(i+1)), Value: make([]byte, 40)})
	}
	root := m.apply(Contents, Root{}, ops)
	loads := 0
	it := NewIter(sourceFunc(func(t Tree, ref Ref, level int) (*Node, error) {
		loads++
		return m.Node(t, ref, level)
	}), Contents, root)
	if !it.Seek(AppendNumKey(nil, 1000)) || loads != int(root.Height) {
		t.Fatalf("%d loads in a tree of height %d", loads, root.Height)
	}
	before := loads
	last := 1000
	for it.Next() && loads == before {
		last++
	}
	if last == 1000 {
		t.Fatal("the leaf ends at the item")
	}
	it.Seek(AppendNumKey(nil, 1000))
	before = loads
	for i := last; i >= 1000; i-- {
		if !it.Seek(AppendNumKey(nil, uint64(i))) || loads != before {
			t.Fatalf("%d loads more for number %d of the same leaf", loads-before, i)
		}
	}
}

// Decoding into a content gives what decoding into a new one gives, whatever was in it; a failure leaves nothing.
func TestContentDecodeReuses(t *testing.T) {
	one := Content{Size: 10, Refs: 1, Runs: []Run{{Frame: 3, Off: 4, Len: 10}}}
	many := Content{Size: 60, Refs: 2, Runs: []Run{{Frame: 3, Len: 10}, {Frame: 9, Len: 20, Unit: 8}, {Frame: 5, Off: 1, Len: 30}}}
	var c Content
	for _, want := range []Content{one, many, one, many, one} {
		value := AppendContent(nil, &want)
		if err := c.Decode(value); err != nil || c.Size != want.Size || c.Refs != want.Refs || !slices.Equal(c.Runs, want.Runs) {
			t.Fatalf("%+v, want %+v: %v", c, want, err)
		}
		if err := c.Decode(value[:len(value)-1]); err == nil || c.Size != 0 || c.Runs != nil {
			t.Fatalf("half a record: %+v, %v", c, err)
		}
	}
	value := AppendContent(nil, &many)
	if n := testing.AllocsPerRun(100, func() { _ = c.Decode(value) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	c.Runs = make([]Run, 0, 8)
	if n := testing.AllocsPerRun(100, func() { _ = c.Decode(value) }); n != 0 {
		t.Errorf("%v allocations with room for the runs", n)
	}
}
