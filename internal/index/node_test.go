package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"lockbox/internal/format"
)

// makeNode encodes a node of alternating keys and values.
func makeNode(t Tree, level int, kv ...string) []byte {
	p := &packer{branch: level > 0, target: format.MaxNode}
	for i := 0; i < len(kv); i += 2 {
		p.add([]byte(kv[i]), []byte(kv[i+1]), false)
	}
	return p.encode(nil, t, level, 0, len(p.items))
}

func refTo(off int64) string {
	return string(Ref{Off: format.DataStart + off, Len: 100}.Append(nil, testTag))
}

func TestParseNodeRefuses(t *testing.T) {
	good := makeNode(Entries, 0, "a", "1", "ab", "2")
	if _, err := ParseNode(good, Entries, 0, testTag, 0); err != nil {
		t.Fatal(err)
	}
	change := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		return b
	}
	for name, c := range map[string]struct {
		b     []byte
		tree  Tree
		level int
	}{
		"empty":         {nil, Entries, 0},
		"short":         {good[:nodeHeader+3], Entries, 0},
		"cut":           {good[:len(good)-1], Entries, 0},
		"long":          {make([]byte, format.MaxNode+1), Entries, 0},
		"other tree":    {good, Contents, 0},
		"other level":   {good, Entries, 1},
		"no items":      {change(2, 0), Entries, 0},
		"many items":    {change(3, 1), Entries, 0},
		"table early":   {change(4, 8), Entries, 0},
		"table late":    {change(7, 0xff), Entries, 0},
		"level too big": {change(1, 12), Entries, 12},
	} {
		if _, err := ParseNode(c.b, c.tree, c.level, testTag, 77); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	item := func(shared, rest, vlen int, bytes string) string {
		b := binary.AppendUvarint(nil, uint64(shared))
		b = binary.AppendUvarint(b, uint64(rest))
		return string(binary.AppendUvarint(b, uint64(vlen))) + bytes
	}
	node := func(tree Tree, level, restart int, items ...string) []byte {
		b := []byte{byte(tree), byte(level), byte(len(items)), 0, 0, 0, 0, 0}
		for _, it := range items {
			b = append(b, it...)
		}
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
		return binary.LittleEndian.AppendUint32(b, uint32(restart))
	}
	ref := refTo(0)
	for name, c := range map[string]struct {
		b    []byte
		good bool
	}{
		"leaf":                {node(Entries, 0, 8, item(0, 1, 1, "ax"), item(1, 1, 0, "b")), true},
		"branch":              {node(Entries, 1, 8, item(0, 0, len(ref), ref), item(0, 1, len(ref), "b"+ref)), true},
		"equal keys":          {node(Entries, 0, 8, item(0, 1, 1, "ax"), item(1, 0, 0, "")), false},
		"descending":          {node(Entries, 0, 8, item(0, 1, 1, "bx"), item(0, 1, 1, "ax")), false},
		"shares too little":   {node(Entries, 0, 8, item(0, 1, 1, "ax"), item(0, 2, 0, "ab")), false},
		"shares too much":     {node(Entries, 0, 8, item(0, 1, 1, "ax"), item(2, 1, 0, "b")), false},
		"first shares":        {node(Entries, 0, 8, item(1, 1, 1, "ax")), false},
		"empty leaf key":      {node(Entries, 0, 8, item(0, 0, 4, "abcd")), false},
		"branch's first key":  {node(Entries, 1, 8, item(0, 1, len(ref), "a"+ref)), false},
		"short reference":     {node(Entries, 1, 8, item(0, 0, len(ref)-1, ref[1:])), false},
		"reference to 0":      {node(Entries, 1, 8, item(0, 0, len(ref), string(make([]byte, len(ref))))), false},
		"restart elsewhere":   {node(Entries, 0, 9, item(0, 1, 1, "ax"), item(1, 1, 0, "b")), false},
		"restart before":      {node(Entries, 0, 7, item(0, 1, 1, "ax")), false},
		"value too long":      {node(Entries, 0, 8, item(0, 1, 2, "ax")), false},
		"bytes left over":     {node(Entries, 0, 8, item(0, 1, 1, "axy")), false},
		"long form of length": {node(Entries, 0, 8, "\x80\x00\x01\x00a"), false},
		"number key":          {node(Contents, 0, 8, item(0, 7, 1, "1234567x")), false},
		"digest key":          {node(Digests, 0, 8, item(0, 8, 0, "12345678")), false},
		"digest value":        {node(Digests, 0, 8, item(0, 16, 1, "12345678abcdefghx")), false},
	} {
		n, err := ParseNode(c.b, Tree(c.b[0]), int(c.b[1]), testTag, 0)
		if err == nil {
			err = n.Check()
		}
		if (err == nil) != c.good || err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// graph is a Source over hand-made nodes; it counts and stops a walk that would not end.
type graph struct {
	t     *testing.T
	nodes map[int64][]byte
	loads int
}

func (g *graph) Node(t Tree, ref Ref, level int) (*Node, error) {
	if g.loads++; g.loads > 100 {
		g.t.Fatal("the walk does not end")
	}
	return ParseNode(g.nodes[ref.Off-format.DataStart], t, level, testTag, ref.Off)
}

// TestHostileGraphs has trees in which every node verifies but the shape is a lie. Each way through
// them ends in an error after few loads.
func TestHostileGraphs(t *testing.T) {
	wide := func(child int64) []string {
		kv := []string{"", refTo(child)}
		for c := 'b'; c <= 'z'; c++ {
			kv = append(kv, string(c), refTo(child))
		}
		return kv
	}
	dag := map[int64][]byte{0: makeNode(Entries, 0, "cc", "v")}
	for level := 1; level < 12; level++ {
		dag[int64(level)] = makeNode(Entries, level, wide(int64(level-1))...)
	}
	for name, c := range map[string]struct {
		nodes  map[int64][]byte
		height int
	}{
		"shared subtrees": {dag, 12},
		"leaf below its range": {map[int64][]byte{
			2: makeNode(Entries, 1, "", refTo(0), "m", refTo(1)),
			0: makeNode(Entries, 0, "a", "v"), 1: makeNode(Entries, 0, "b", "v", "n", "v")}, 2},
		"leaf above its range": {map[int64][]byte{
			2: makeNode(Entries, 1, "", refTo(0), "m", refTo(1)),
			0: makeNode(Entries, 0, "a", "v", "n", "v"), 1: makeNode(Entries, 0, "n", "v")}, 2},
		"branch below its range": {map[int64][]byte{
			4: makeNode(Entries, 2, "", refTo(2), "m", refTo(3)),
			2: makeNode(Entries, 1, "", refTo(0)), 3: makeNode(Entries, 1, "", refTo(1), "b", refTo(1)),
			0: makeNode(Entries, 0, "a", "v"), 1: makeNode(Entries, 0, "n", "v")}, 3},
		"branch above its range": {map[int64][]byte{
			4: makeNode(Entries, 2, "", refTo(2), "m", refTo(3)),
			2: makeNode(Entries, 1, "", refTo(0), "m", refTo(1)), 3: makeNode(Entries, 1, "", refTo(1)),
			0: makeNode(Entries, 0, "a", "v"), 1: makeNode(Entries, 0, "n", "v")}, 3},
	} {
		g := &graph{t: t, nodes: c.nodes}
		root := Root{Ref: Ref{Off: format.DataStart + int64(len(c.nodes)-1), Len: 100}, Height: uint8(c.height), Count: 50}
		try := func(how string, f func() error) {
			g.loads = 0
			if err := f(); !errors.Is(err, format.ErrCorrupt) || g.loads > 3*c.height {
				t.Errorf("%s, %s: %d loads, %v", name, how, g.loads, err)
			}
		}
		try("walk", func() error {
			return Walk(g, Entries, root, func(int, Ref, *Node, []byte, []byte) error { return nil })
		})
		try("iterate", func() error {
			it := NewIter(g, Entries, root)
			for it.Next() {
			}
			return it.Err()
		})
		try("apply", func() error {
			var ops []Op
			for c := 'a'; c <= 'z'; c++ {
				ops = append(ops, Op{Key: []byte{byte(c), '!'}, Value: []byte("v")})
			}
			_, err := Apply(g, discard{}, Entries, root, testTag, 512, slices.Values(ops))
			return err
		})
		try("get", func() error {
			for _, k := range []string{"a", "k", "m", "mm", "z"} {
				g.loads = 0
				if _, _, err := Get(g, Entries, root, []byte(k)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	// A source that hands out a node of another level does not get through either.
	g := sourceFunc(func(tr Tree, ref Ref, level int) (*Node, error) {
		return ParseNode(makeNode(Entries, 1, wide(0)...), Entries, 1, testTag, 0)
	})
	root := Root{Ref: Ref{Off: format.DataStart, Len: 100}, Height: 3, Count: 1}
	if _, _, err := Get(g, Entries, root, []byte("a")); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a node of another level: %v", err)
	}
}

type sourceFunc func(t Tree, ref Ref, level int) (*Node, error)

func (f sourceFunc) Node(t Tree, ref Ref, level int) (*Node, error) { return f(t, ref, level) }

// FuzzNode gives the same hostile bytes to every way of reading a node, as leaf or as branch over itself.
func FuzzNode(f *testing.F) {
	f.Add(makeNode(Entries, 0, "a", "1", "ab", "2", "b", ""), []byte("ab"))
	f.Add(makeNode(Entries, 1, "", refTo(0), "b", refTo(512)), []byte("b"))
	var many []string
	for c := 'A'; c <= 'z'; c++ {
		many = append(many, "key "+string(c), "value")
	}
	f.Add(makeNode(Entries, 0, many...), []byte("key c"))
	f.Fuzz(func(t *testing.T, b, key []byte) {
		if len(b) < 2 {
			return
		}
		level := int(b[1] % format.MaxHeight)
		n, err := ParseNode(b, Entries, level, testTag, 0)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		good := n.Check() == nil
		src := sourceFunc(func(_ Tree, _ Ref, l int) (*Node, error) { return ParseNode(b, Entries, l, testTag, 0) })
		root := Root{Ref: Ref{Off: format.DataStart, Len: uint32(len(b))}, Height: uint8(level) + 1, Count: uint64(n.Len())}
		v, ok, err := Get(src, Entries, root, key)
		it := NewIter(src, Entries, root)
		items := 0
		for it.Next() {
			items++
		}
		seek := NewIter(src, Entries, root)
		found := seek.Seek(key)
		NewIter(src, Entries, root).SeekLE(key)
		NewIter(src, Entries, root).SeekLE(nil)
		ops := []Op{{Key: []byte("m"), Value: []byte("v")}}
		_, applyErr := Apply(src, discard{}, Entries, root, testTag, 512, slices.Values(ops))
		walkErr := Walk(src, Entries, root, func(int, Ref, *Node, []byte, []byte) error { return nil })
		if !good || level > 0 {
			return
		}
		if err != nil || it.Err() != nil || applyErr != nil || walkErr != nil || items != n.Len() {
			t.Fatalf("a good leaf of %d: %v, %v, %v, %v, %d items", n.Len(), err, it.Err(), applyErr, walkErr, items)
		}
		if ok != (found && bytes.Equal(seek.Key(), key)) || ok && !bytes.Equal(v, seek.Value()) {
			t.Fatalf("get and seek differ about %q", key)
		}
		// What is good can be written again, byte for byte.
		p := &packer{target: format.MaxNode}
		for s := n.Scan(); s.Next(); {
			p.add(s.Key(), s.Value(), false)
		}
		if p.cut == len(p.items) && !bytes.Equal(p.encode(nil, Entries, 0, 0, len(p.items)), b) {
			t.Fatal("a good node is encoded otherwise")
		}
	})
}

func TestRootAndRef(t *testing.T) {
	for _, tagSize := range []int{16, 32, 48} {
		ref := Ref{Off: 1 << 40, Len: 8192, Seq: 9, Attempt: format.ID{5}}
		ref.Tag[tagSize-1] = 0xee
		for _, r := range []Root{{}, {Ref: ref, Height: 3, Count: 12345}} {
			b := r.Append(nil, tagSize)
			if len(b) != RootSize(tagSize) {
				t.Fatalf("%d bytes", len(b))
			}
			c := format.NewCursor(b, "root", 0)
			if got := DecodeRoot(c, tagSize); got != r || c.Done() != nil {
				t.Errorf("%+v became %+v, %v", r, got, c.Err())
			}
			for i := 1; i < 8; i++ { // reserved
				bad := bytes.Clone(b)
				bad[i] = 1
				if c := format.NewCursor(bad, "root", 0); DecodeRoot(c, tagSize) != (Root{}) || c.Err() == nil {
					t.Errorf("reserved byte %d", i)
				}
			}
		}
		for name, r := range map[string]Root{
			"height":          {Ref: ref, Height: 13, Count: 1},
			"empty with ref":  {Ref: ref},
			"empty counts":    {Count: 1},
			"counts nothing":  {Ref: ref, Height: 1},
			"zero ref":        {Height: 1, Count: 1},
			"ref into copies": {Ref: Ref{Off: 4096, Len: 100}, Height: 1, Count: 1},
			"long node":       {Ref: Ref{Off: 1 << 20, Len: format.MaxNode + 1}, Height: 1, Count: 1},
			"far away":        {Ref: Ref{Off: -1, Len: 100}, Height: 1, Count: 1},
		} {
			c := format.NewCursor(r.Append(nil, tagSize), "root", 0)
			if DecodeRoot(c, tagSize); !errors.Is(c.Err(), format.ErrCorrupt) {
				t.Errorf("%s: %v", name, c.Err())
			}
		}
	}
}

func TestOwnership(t *testing.T) {
	ext := func(off, n int64) format.Extent { return format.Extent{Off: off, Len: n} }
	var o Ownership
	o.Add(ext(300, 100), OwnerFree, 0)
	o.Add(ext(100, 100), OwnerFrame, 7)
	o.Add(ext(200, 100), OwnerNode, uint64(Entries))
	if err := o.Check(100, 400); err != nil || o.Len() != 3 {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		add  format.Extent
		want string
	}{
		"overlap": {ext(150, 50), "damaged: extent at offset 150: the commit block begins inside frame 7, which ends at 200"},
		"twice":   {ext(300, 100), "damaged: extent at offset 300: the free tree begins inside the commit block, which ends at 400"},
		"gap":     {ext(410, 90), "damaged: extent at offset 400: 10 bytes up to the commit block have no owner"},
		"end":     {ext(400, 50), "damaged: extent at offset 450: 50 bytes up to the logical end have no owner"},
		"outside": {ext(400, 200), "damaged: extent at offset 400: 200 bytes of the commit block lie outside the archive's 100 to 500\n" +
			"damaged: extent at offset 400: 100 bytes up to the logical end have no owner"},
	} {
		o := Ownership{owned: slices.Clone(o.owned)}
		end := int64(500)
		if name == "overlap" || name == "twice" {
			end = 400
		}
		o.Add(c.add, OwnerCommit, 0)
		if err := o.Check(100, end); err == nil || err.Error() != c.want || !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var many Ownership
	for i := range int64(1000) {
		many.Add(ext(i*10, 5), OwnerFrame, uint64(i))
	}
	if err := many.Check(0, 10000); len(err.(interface{ Unwrap() []error }).Unwrap()) != maxReported {
		t.Error("an error lists too much")
	}
	if err := new(Ownership).Check(0, 0); err != nil {
		t.Error(err)
	}
}
