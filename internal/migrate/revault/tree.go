package revault

import (
	"context"
	"errors"
	"fmt"

	"lockbox/internal/format"
)

const maxDepth = 8

// treeKind is one of the three trees that a reader walks.
type treeKind struct {
	name       string
	leaf, node uint8
}

var (
	treeTOC       = treeKind{"table of contents", kindTOCLeaf, kindTOCNode}
	treeVariables = treeKind{"variables", kindVarLeaf, kindVarNode}
	treeForms     = treeKind{"forms", kindFormLeaf, kindFormNode}
)

// bounds are the keys that a node may hold: from lo on, and below hi unless that is "".
type bounds struct{ lo, hi string }

func (b bounds) hold(key string) bool { return key >= b.lo && (b.hi == "" || key < b.hi) }

// walker walks one tree.
type walker struct {
	ps   *pages
	kind treeKind
	// leaf gets a leaf's payload without its first two bytes, which it must check in full before it acts on any of it:
	// what it returns in an error of kind ErrCorrupt is the leaf's damage.
	leaf func(c *format.Cursor, b bounds) error
	// lost is told which subtree cannot be read, and returns nil to go on without it.
	lost func(off int64, b bounds, err error) error
	seen map[int64]bool
}

func (w *walker) walk(ctx context.Context, root int64) error {
	w.seen = map[int64]bool{}
	return w.node(ctx, root, bounds{}, 0)
}

func (w *walker) node(ctx context.Context, off int64, b bounds, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	children, err := w.open(off, b, depth)
	if err != nil {
		if errors.Is(err, format.ErrCorrupt) {
			return w.lost(off, b, err)
		}
		return err
	}
	for i, c := range children {
		below := bounds{c.key, b.hi}
		if i+1 < len(children) {
			below.hi = children[i+1].key
		}
		if err := w.node(ctx, c.off, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

type child struct {
	key string
	off int64
}

// open gives a leaf to w.leaf and returns the children of an internal node.
func (w *walker) open(off int64, b bounds, depth int) ([]child, error) {
	if depth > maxDepth || w.seen[off] {
		return nil, w.corrupt(off, "the tree is too deep, or leads back to itself")
	}
	w.seen[off] = true
	p, err := w.ps.read(off, maxOtherPage)
	if err != nil {
		return nil, err
	}
	kind, level := w.kind.leaf, uint8(1)
	payload, err := p.first(kind)
	if err != nil {
		kind, level = w.kind.node, 2
		if payload, err = p.first(kind); err != nil {
			return nil, w.corrupt(off, "the page holds no node of it")
		}
	}
	c := format.NewCursor(payload, "reVault "+w.kind.name, off)
	if c.U8() != 1 || c.U8() != level {
		return nil, w.corrupt(off, "a node is of an unknown version")
	}
	if kind == w.kind.leaf {
		return nil, w.leaf(c, b)
	}
	return readChildren(c, b)
}

func readChildren(c *format.Cursor, b bounds) ([]child, error) {
	n := c.U32()
	if n == 0 || uint64(n) > uint64(c.Len())/10 {
		c.Fail("children of a node do not fit")
		return nil, c.Err()
	}
	children := make([]child, n)
	for i := range children {
		key, off := str16(c), c.I64()
		if c.Err() == nil && (!b.hold(key) || i > 0 && key <= children[i-1].key) {
			c.Fail("children of a node are not in order")
		}
		children[i] = child{key, off}
	}
	return children, c.Done()
}

func (w *walker) corrupt(off int64, detail string) error {
	return corrupt(w.kind.name, off, "%s", detail)
}

// subtree says in words what a lost subtree held.
func subtree(b bounds) string {
	switch {
	case b.lo == "" && b.hi == "":
		return "all of it"
	case b.hi == "":
		return fmt.Sprintf("what comes from %q on", b.lo)
	case b.lo == "":
		return fmt.Sprintf("what comes before %q", b.hi)
	}
	return fmt.Sprintf("what comes from %q on and before %q", b.lo, b.hi)
}
