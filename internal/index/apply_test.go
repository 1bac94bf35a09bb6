package index

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/format"
)

// genKey makes keys that share prefixes, nest, and now and then are long.
func genKey() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{"a", "b", "\x00", "lib", "\xff", "aa", "longer-name-", strings.Repeat("x", 90)})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "parts"), "")
	})
}

func TestApplyAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.SampledFrom([]int{minNodeSize, 256, 256, 700, 8192}).Draw(t, "target")
		m := newMemory(t, target)
		model := map[string]string{}
		root := Root{}
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			batch := map[string]Op{}
			sorted := slices.Sorted(maps.Keys(model))
			if len(sorted) > 0 && rapid.Bool().Draw(t, "deletes") {
				switch rapid.IntRange(0, 3).Draw(t, "which") {
				case 0: // a range
					i := rapid.IntRange(0, len(sorted)-1).Draw(t, "from")
					j := rapid.IntRange(i, len(sorted)-1).Draw(t, "to")
					for _, k := range sorted[i : j+1] {
						batch[k] = Op{Key: []byte(k), Delete: true}
					}
				case 1: // all but a few
					keep := rapid.IntRange(0, 3).Draw(t, "keep")
					for i, k := range sorted {
						if (i*7+1)%len(sorted) >= keep {
							batch[k] = Op{Key: []byte(k), Delete: true}
						}
					}
				default:
					for _, k := range rapid.SliceOfN(rapid.SampledFrom(sorted), 1, 40).Draw(t, "keys") {
						batch[k] = Op{Key: []byte(k), Delete: true}
					}
				}
			}
			n := rapid.SampledFrom([]int{0, 1, 3, 60, 300}).Draw(t, "puts")
			seed := rapid.Uint64().Draw(t, "seed")
			rnd := rand.New(rand.NewPCG(seed, 1))
			for i := range n {
				var k string
				if i < 4 {
					k = genKey().Draw(t, "key")
				} else {
					k = fmt.Sprintf("%s\x00%x", []string{"a", "b", "dir/long/prefix", "z"}[rnd.IntN(4)], rnd.IntN(4000))
				}
				size := rnd.IntN(20)
				if rnd.IntN(40) == 0 {
					size = rnd.IntN(2 * target)
				}
				batch[k] = Op{Key: []byte(k), Value: bytes.Repeat([]byte{byte(rnd.Uint32())}, size)}
			}
			ops := make([]Op, 0, len(batch))
			for k, op := range batch {
				ops = append(ops, op)
				if op.Delete {
					delete(model, k)
				} else {
					model[k] = string(op.Value)
				}
			}
			root = m.apply(Entries, root, sortOps(ops))
			m.verify(Entries, root, model)
		}
		probe(t, m, root, model, genKey().Draw(t, "probe"))
		for k := range model {
			probe(t, m, root, model, k)
			probe(t, m, root, model, k+"\x00")
			probe(t, m, root, model, k[:len(k)-1])
		}
		probe(t, m, root, model, "")
	})
}

// probe holds Get, Seek and SeekLE for one key against the model.
func probe(t *rapid.T, m *memory, root Root, model map[string]string, key string) {
	m.decoded = 0
	v, ok, err := Get(m, Entries, root, []byte(key))
	want, there := model[key]
	if err != nil || ok != there || string(v) != want {
		t.Fatalf("get %q: %q, %v, %v", key, v, ok, err)
	}
	if m.decoded > int(root.Height) {
		t.Fatalf("get decoded %d nodes of %d levels", m.decoded, root.Height)
	}
	sorted := slices.Sorted(maps.Keys(model))
	i, _ := slices.BinarySearch(sorted, key)
	it := NewIter(m, Entries, root)
	if it.Seek([]byte(key)) != (i < len(sorted)) || it.Err() != nil {
		t.Fatalf("seek %q: %v", key, it.Err())
	}
	if i < len(sorted) && string(it.Key()) != sorted[i] {
		t.Fatalf("seek %q found %q instead of %q", key, it.Key(), sorted[i])
	}
	if it.Next() != (i+1 < len(sorted)) || i+1 < len(sorted) && string(it.Key()) != sorted[i+1] {
		t.Fatalf("next after %q", key)
	}
	if !there {
		i--
	}
	if it.SeekLE([]byte(key)) != (i >= 0) || it.Err() != nil {
		t.Fatalf("seekLE %q: %v", key, it.Err())
	}
	if i >= 0 && (string(it.Key()) != sorted[i] || string(it.Value()) != model[sorted[i]]) {
		t.Fatalf("seekLE %q found %q instead of %q", key, it.Key(), sorted[i])
	}
	if it.Next() != (i >= 0 && i+1 < len(sorted)) || i >= 0 && i+1 < len(sorted) && string(it.Key()) != sorted[i+1] {
		t.Fatalf("next after the item at or before %q", key)
	}
	if it.SeekLE(nil) != (len(sorted) > 0) || len(sorted) > 0 && (string(it.Key()) != sorted[len(sorted)-1] || it.Next()) {
		t.Fatalf("seekLE nil")
	}
}

// TestDeletedNameLeavesNoTrace looks for a deleted name's bytes in every node.
func TestDeletedNameLeavesNoTrace(t *testing.T) {
	m := newMemory(t, 256)
	root := Root{}
	var ops []Op
	for i := range 400 {
		ops = append(ops, Op{Key: fmt.Appendf(nil, "k%04d", i*3), Value: []byte("v")})
	}
	root = m.apply(Entries, root, ops)
	for i := range 400 {
		secret := fmt.Appendf(nil, "k%04dSECRET", i*3)
		with := m.apply(Entries, root, []Op{{Key: secret, Value: []byte("v")}})
		// Without its neighbours the secret becomes the first key of what follows.
		with = m.apply(Entries, with, []Op{{Key: fmt.Appendf(nil, "k%04d", i*3), Delete: true}})
		root = m.apply(Entries, with, []Op{{Key: fmt.Appendf(nil, "k%04d", i*3), Value: []byte("v")}, {Key: secret, Delete: true}})
		for _, n := range m.live {
			for s := n.Scan(); s.Next(); {
				if bytes.IndexByte(s.Key(), 'S') >= 0 {
					t.Fatalf("after deleting %q a %v holds %q", secret, n, s.Key())
				}
			}
		}
	}
}

func TestBulkLoadFillsNodes(t *testing.T) {
	const items, target = 200_000, 8192
	m := newMemory(t, target)
	root := bulkTree(t, m, items)
	if root.Count != items || m.retired != 0 {
		t.Fatalf("count %d, %d nodes retired", root.Count, m.retired)
	}
	var bytes, nodes [format.MaxHeight]int
	for _, n := range m.live {
		bytes[n.level] += len(n.b)
		nodes[n.level]++
	}
	for level := range int(root.Height) - 1 {
		if fill := float64(bytes[level]) / float64(nodes[level]*target); fill < 0.95 && nodes[level] > 20 {
			t.Errorf("level %d: %d nodes are filled to %.2f", level, nodes[level], fill)
		}
	}
	// Appending one at a time leaves full nodes, too.
	small := newMemory(t, 1024)
	root = Root{}
	for i := range 3000 {
		before := small.written
		height := int(root.Height)
		root = small.apply(Entries, root, []Op{{Key: bulkKey(nil, i), Value: []byte("some value")}})
		if small.written-before > 2*height+1 {
			t.Fatalf("appending one item wrote %d nodes in a tree of %d levels", small.written-before, height)
		}
	}
	sum, leaves := 0, 0
	for _, n := range small.live {
		if n.level == 0 {
			sum, leaves = sum+len(n.b), leaves+1
		}
	}
	if fill := float64(sum) / float64(leaves*1024); fill < 0.9 {
		t.Errorf("leaves made by single appends are filled to %.2f", fill)
	}
}

func TestSingleOpCost(t *testing.T) {
	m := newMemory(t, 8192)
	root := bulkTree(t, m, 200_000)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		key := append(bulkKey(nil, rnd.IntN(200_000)), "+new"...)
		height, written, retired := int(root.Height), m.written, m.retired
		m.decoded = 0
		next, err := Apply(m, m, Entries, root, testTag, 8192, scratchOps([]Op{{Key: key, Value: []byte("v")}}))
		if err != nil {
			t.Fatal(err)
		}
		splits := (m.written - written) - (m.retired - retired)
		if m.decoded > 2*height || m.retired-retired != height || splits > height {
			t.Fatalf("op %d: %d decoded, %d retired, %d splits, height %d", i, m.decoded, m.retired-retired, splits, height)
		}
		root = next
		m.decoded = 0
		if _, ok, err := Get(m, Entries, root, key); !ok || err != nil || m.decoded != int(root.Height) {
			t.Fatalf("get decoded %d nodes, %v, %v", m.decoded, ok, err)
		}
		height, written = int(root.Height), m.written
		m.decoded = 0
		root = m.apply(Entries, root, []Op{{Key: key, Delete: true}})
		if m.written-written > 2*height || m.decoded > 2*height {
			t.Fatalf("delete %d wrote %d and decoded %d nodes, height %d", i, m.written-written, m.decoded, height)
		}
	}
	if err := Walk(m, Entries, root, func(int, Ref, *Node, []byte, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestFillSurvivesDeletes thins a tree out and expects that it shrinks with its items.
func TestFillSurvivesDeletes(t *testing.T) {
	m := newMemory(t, 1024)
	root := bulkTree(t, m, 20_000)
	full := len(m.live)
	rnd := rand.New(rand.NewPCG(3, 4))
	left := rnd.Perm(20_000)
	for len(left) > 0 {
		n := min(len(left), 1+rnd.IntN(400))
		var ops []Op
		for _, i := range left[:n] {
			ops = append(ops, Op{Key: bulkKey(nil, i), Delete: true})
		}
		left = left[n:]
		root = m.apply(Entries, root, sortOps(ops))
		if most := 4*full*len(left)/20_000 + 4; len(m.live) > most {
			t.Fatalf("%d nodes for %d items; full nodes would be %d", len(m.live), len(left), most/4)
		}
	}
	if root != (Root{}) || len(m.live) != 0 {
		t.Fatalf("an empty tree is %+v with %d nodes", root, len(m.live))
	}
}

// TestDeleteAllBut empties a high, narrow tree but for a few items: whole subtrees vanish, what is left
// of their neighbours joins, and the root comes down several levels at once.
func TestDeleteAllBut(t *testing.T) {
	const items = 1500
	base := newMemory(t, minNodeSize)
	root := bulkTree(t, base, items)
	if root.Height < 6 {
		t.Fatalf("only %d levels", root.Height)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for trial := range 250 {
		keep := map[int]bool{}
		switch trial % 5 {
		case 0:
			keep[rnd.IntN(items)] = true
		case 1:
			i := rnd.IntN(items - 1)
			keep[i], keep[i+1] = true, true
		case 2:
			for range 2 + rnd.IntN(5) {
				keep[rnd.IntN(items)] = true
			}
		case 3: // near the left edge, where untouched subtrees can become the root
			for i := range rnd.IntN(40) {
				keep[i] = true
			}
		case 4:
			part := 3 + rnd.IntN(60)
			for i := range items {
				if rnd.IntN(part) == 0 {
					keep[i] = true
				}
			}
		}
		m := base.clone()
		model := map[string]string{}
		var ops []Op
		i := 0
		for op := range bulkOps(items) {
			if keep[i] {
				model[string(op.Key)] = string(op.Value)
			} else {
				ops = append(ops, Op{Key: bytes.Clone(op.Key), Delete: true})
			}
			i++
		}
		m.verify(Entries, m.apply(Entries, root, ops), model)
	}
}

// TestSparseNodesJoin deletes one range and expects no leaf that is nearly empty, wherever the range
// begins and ends in its leaves and branches.
func TestSparseNodesJoin(t *testing.T) {
	const items, target = 3000, 1024
	base := newMemory(t, target)
	root := bulkTree(t, base, items)
	for from := 0; from < items-200; from += 7 {
		m := base.clone()
		var ops []Op
		for i := from; i < from+1+from%150; i++ {
			ops = append(ops, Op{Key: bulkKey(nil, i), Delete: true})
		}
		r := m.apply(Entries, root, ops)
		last := 0 // size of the leaf before
		err := Walk(m, Entries, r, func(level int, ref Ref, n *Node, lower, upper []byte) error {
			if level == 0 && last > 0 && last < target/3 {
				return fmt.Errorf("a leaf of %d bytes after %d items from %d were deleted", last, len(ops), from)
			}
			if level == 0 {
				last = n.Size()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestApplyIsDeterministic(t *testing.T) {
	dump := func() []byte {
		m := newMemory(t, 512)
		root := bulkTree(t, m, 2000)
		var ops []Op
		for i := 0; i < 2000; i += 3 {
			ops = append(ops, Op{Key: bulkKey(nil, i), Delete: i%2 == 0, Value: []byte("x")})
		}
		root = m.apply(Entries, root, ops)
		var out []byte
		for off := int64(0); off < m.next; off += 512 {
			if n := m.live[off]; n != nil {
				out = append(fmt.Appendf(out, "%d", off), n.b...)
			}
		}
		return root.Append(out, testTag)
	}
	if !bytes.Equal(dump(), dump()) {
		t.Fatal("the same ops gave different nodes")
	}
}

// TestApplyStreams shows that what Apply holds does not grow with the number of ops.
func TestApplyStreams(t *testing.T) {
	const target = 4096
	m := newMemory(t, target)
	var fed, most int64
	ops := func(yield func(Op) bool) {
		for op := range bulkOps(50_000) {
			stored := int64(0)
			if m.written > 0 {
				stored = m.next - format.DataStart
			}
			most = max(most, fed/4-stored) // front coding saves less than three quarters here
			fed += int64(len(op.Key) + len(op.Value))
			if !yield(op) {
				return
			}
		}
	}
	root, err := Apply(m, m, Entries, Root{}, testTag, target, ops)
	if err != nil {
		t.Fatal(err)
	}
	if most > 4*target {
		t.Errorf("%d bytes were held back in a tree of %d levels and nodes of %d bytes", most, root.Height, target)
	}
}

func TestApplyOutsizedItems(t *testing.T) {
	m := newMemory(t, 8192)
	model := map[string]string{}
	root := Root{}
	var ops []Op
	prefix := strings.Repeat("p", 16000)
	for i := range 60 { // keys that only differ at their far end make separators of their whole length
		k := fmt.Sprintf("%s%04d", prefix, i)
		v := strings.Repeat("v", i*97%3*format.MaxValue/2)
		model[k] = v
		ops = append(ops, Op{Key: []byte(k), Value: []byte(v)})
	}
	root = m.apply(Entries, root, ops)
	m.verify(Entries, root, model)
	for i := 0; i < 60; i += 2 {
		k := fmt.Sprintf("%s%04d", prefix, i)
		delete(model, k)
		root = m.apply(Entries, root, []Op{{Key: []byte(k), Delete: true}})
		m.verify(Entries, root, model)
	}
}

func TestApplyRefuses(t *testing.T) {
	m := newMemory(t, 512)
	root := bulkTree(t, m, 100)
	put := func(k string) Op { return Op{Key: []byte(k), Value: []byte("v")} }
	del := func(k string) Op { return Op{Key: []byte(k), Delete: true} }
	long := Op{Key: []byte("k"), Value: make([]byte, format.MaxValue+1)}
	for name, c := range map[string]struct {
		root Root
		ops  []Op
		want error
	}{
		"order":             {root, []Op{put("b"), put("a")}, nil},
		"twice":             {root, []Op{put("b"), put("b")}, nil},
		"empty key":         {root, []Op{put("")}, nil},
		"long key":          {root, []Op{put(strings.Repeat("k", format.MaxKey+1))}, nil},
		"long value":        {root, []Op{long}, nil},
		"absent":            {root, []Op{del("b")}, fs.ErrNotExist},
		"absent, last":      {root, []Op{del("zzz")}, fs.ErrNotExist},
		"absent from empty": {Root{}, []Op{del("b")}, fs.ErrNotExist},
		"count too low":     {Root{Ref: root.Ref, Height: root.Height, Count: 0}, []Op{del(string(bulkKey(nil, 5)))}, format.ErrCorrupt},
		"too high":          {Root{Ref: root.Ref, Height: 13, Count: 1}, []Op{put("b")}, format.ErrCorrupt},
	} {
		_, err := Apply(m, discard{}, Entries, c.root, testTag, 512, slices.Values(c.ops))
		if err == nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, format.ErrCorrupt) != (c.want == format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := Apply(m, m, Entries, root, testTag, 512, slices.Values[[]Op](nil)); r != root || err != nil {
		t.Errorf("no ops: %v", err)
	}
	if _, err := Apply(m, m, Entries, root, testTag, 64, slices.Values([]Op{put("a")})); err == nil {
		t.Error("a node size of 64 was accepted")
	}
	failing := errors.New("disk full")
	if _, err := Apply(m, discard{failing: failing}, Entries, root, testTag, 512, slices.Values([]Op{put("a")})); !errors.Is(err, failing) {
		t.Errorf("failed write: %v", err)
	}
}

// discard is a Sink that forgets, so that the tree it is used on stays as it is.
type discard struct{ failing error }

func (discard) Retire(Tree, int, Ref) {}
func (d discard) Write(t Tree, level int, b []byte) (Ref, error) {
	return Ref{Off: format.DataStart, Len: uint32(len(b))}, d.failing
}
