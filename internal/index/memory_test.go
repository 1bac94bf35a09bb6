package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"testing"

	"lockbox/internal/format"
)

const testTag = 16

// fataler is what *testing.T and *rapid.T share here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// memory is a Source and a Sink that keeps nodes in memory and objects to what a store would lose data
// by: reading or retiring what was retired, and nodes that do not pass their own check.
type memory struct {
	t       fataler
	live    map[int64]*Node
	refs    map[int64]Ref
	next    int64
	seq     uint32
	written int
	retired int
	decoded int
	target  int
	barred  uint32 // nodes from this sequence number on must not be read: the running Apply wrote them
}

func newMemory(t fataler, target int) *memory {
	return &memory{t: t, live: map[int64]*Node{}, refs: map[int64]Ref{}, next: format.DataStart, target: target,
		barred: ^uint32(0)}
}

func (m *memory) Node(t Tree, ref Ref, level int) (*Node, error) {
	n := m.live[ref.Off]
	if n == nil || m.refs[ref.Off] != ref {
		m.t.Helper()
		m.t.Fatalf("node at %d is read, which is not live", ref.Off)
	}
	if ref.Seq >= m.barred {
		m.t.Helper()
		m.t.Fatalf("Apply reads back the node that it wrote at %d", ref.Off)
	}
	m.decoded++
	return n, nil
}

func (m *memory) Write(t Tree, level int, b []byte) (Ref, error) {
	m.t.Helper()
	n, err := ParseNode(bytes.Clone(b), t, level, testTag, m.next)
	if err == nil {
		err = n.Check()
	}
	if err != nil {
		m.t.Fatalf("a node was written that is %v", err)
	}
	most := 1
	if level > 0 {
		most = 2*minFanout - 1
	}
	if len(b) > m.target && n.Len() > most {
		m.t.Fatalf("a node of %d bytes with %d items; the target is %d", len(b), n.Len(), m.target)
	}
	ref := Ref{Off: m.next, Len: uint32(len(b)), Seq: m.seq, Attempt: format.ID{1, 2, 3}}
	binary.LittleEndian.PutUint64(ref.Tag[:], uint64(m.next)*0x9e3779b97f4a7c15)
	m.live[ref.Off], m.refs[ref.Off] = n, ref
	m.next += format.AlignUp(int64(len(b)), 512)
	m.seq++
	m.written++
	return ref, nil
}

func (m *memory) Retire(t Tree, level int, ref Ref) {
	if m.live[ref.Off] == nil || m.refs[ref.Off] != ref {
		m.t.Helper()
		m.t.Fatalf("node at %d is retired, which is not live", ref.Off)
	}
	delete(m.live, ref.Off)
	delete(m.refs, ref.Off)
	m.retired++
}

// verify holds a whole tree against a model: items, count, separators, and that exactly the nodes that
// are live are reachable.
func (m *memory) verify(t Tree, root Root, model map[string]string) {
	m.t.Helper()
	keys := make([]string, 0, len(model))
	for k := range model {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	if root.Count != uint64(len(keys)) {
		m.t.Fatalf("the root counts %d items instead of %d", root.Count, len(keys))
	}
	it := NewIter(m, t, root)
	for i, k := range keys {
		if !it.Next() {
			m.t.Fatalf("item %d of %d is missing: %v", i, len(keys), it.Err())
		}
		if string(it.Key()) != k || string(it.Value()) != model[k] {
			m.t.Fatalf("item %d is %q = %q instead of %q = %q", i, it.Key(), it.Value(), k, model[k])
		}
	}
	if it.Next() || it.Err() != nil || it.Next() {
		m.t.Fatalf("more items than %d, or %v", len(keys), it.Err())
	}
	reached := 0
	var seps [][]byte // of the nodes whose first leaf has not come yet
	err := Walk(m, t, root, func(level int, ref Ref, n *Node, lower, upper []byte) error {
		reached++
		seps = append(seps, bytes.Clone(lower))
		if level > 0 {
			return nil
		}
		s := n.Scan()
		s.Next()
		for _, sep := range seps {
			if !bytes.HasPrefix(s.Key(), sep) {
				return fmt.Errorf("separator %q is no prefix of its first key %q", sep, s.Key())
			}
		}
		seps = seps[:0]
		return nil
	})
	if err != nil {
		m.t.Fatalf("walk: %v", err)
	}
	if reached != len(m.live) || m.written-m.retired != len(m.live) {
		m.t.Fatalf("%d nodes reached, %d live, %d written less %d retired", reached, len(m.live), m.written, m.retired)
	}
}

func (m *memory) apply(t Tree, root Root, ops []Op) Root {
	m.t.Helper()
	m.barred = m.seq
	defer func() { m.barred = ^uint32(0) }()
	r, err := Apply(m, m, t, root, testTag, m.target, scratchOps(ops))
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	return r
}

// clone is a copy that later changes to m do not reach.
func (m *memory) clone() *memory {
	c := *m
	c.live, c.refs = maps.Clone(m.live), maps.Clone(m.refs)
	return &c
}

// scratchOps gives the ops out in one buffer that each op overwrites.
func scratchOps(ops []Op) iter.Seq[Op] {
	return func(yield func(Op) bool) {
		var k, v []byte
		for _, op := range ops {
			for i := range k {
				k[i] ^= 0xff
			}
			k, v = append(k[:0], op.Key...), append(v[:0], op.Value...)
			if !yield(Op{Key: k, Value: v, Delete: op.Delete}) {
				return
			}
		}
	}
}

func sortOps(ops []Op) []Op {
	slices.SortFunc(ops, func(a, b Op) int { return bytes.Compare(a.Key, b.Key) })
	return slices.CompactFunc(ops, func(a, b Op) bool { return bytes.Equal(a.Key, b.Key) })
}

// bulkTree loads n entries-like items into an empty tree.
func bulkTree(t testing.TB, m *memory, n int) Root {
	t.Helper()
	root, err := Apply(m, m, Entries, Root{}, testTag, m.target, bulkOps(n))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func bulkKey(b []byte, i int) []byte {
	return fmt.Appendf(b, "src\x00package%03d\x00subdir%02d\x00file%07d.go", i/10000, i/100%100, i)
}

func bulkOps(n int) iter.Seq[Op] {
	return func(yield func(Op) bool) {
		var k []byte
		v := bytes.Repeat([]byte{7}, 24)
		for i := range n {
			k = bulkKey(k[:0], i)
			binary.BigEndian.PutUint64(v, uint64(i))
			if !yield(Op{Key: k, Value: v}) {
				return
			}
		}
	}
}
