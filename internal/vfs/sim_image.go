package vfs

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
)

// Pending is what a power cut would decide at one moment: one atom for every sector, file size and name
// that the disk may have in several versions. It stands for the disk as it was when it was made, and must not
// be used after that has changed.
type Pending struct {
	sim   *Sim
	atoms []atom
}

// atom is one thing with several versions, the durable one not counted. seqs says when each arose.
type atom struct {
	node   *simNode // nil: a name
	sector int      // -1: the file's size
	name   string
	seqs   []uint64
}

// garbage as a choice: the sector was being written when the power went.
const garbage = -1

// Pending returns what is open, ordered by when it was first written.
func (s *Sim) Pending() *Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Pending{sim: s}
	for _, n := range s.nodes {
		for k, v := range n.versions {
			a := atom{node: n, sector: k, seqs: make([]uint64, len(v.list))}
			for i := range v.list {
				a.seqs[i] = v.list[i].seq
			}
			p.atoms = append(p.atoms, a)
		}
		if len(n.sizes) > 0 {
			a := atom{node: n, sector: -1}
			for _, v := range n.sizes {
				a.seqs = append(a.seqs, v.seq)
			}
			p.atoms = append(p.atoms, a)
		}
	}
	for _, name := range sortedKeys(s.names) {
		if list := s.names[name].list; len(list) > 0 {
			a := atom{name: name}
			for _, v := range list {
				a.seqs = append(a.seqs, v.seq)
			}
			p.atoms = append(p.atoms, a)
		}
	}
	slices.SortFunc(p.atoms, func(x, y atom) int { return cmp.Compare(x.seqs[0], y.seqs[0]) })
	return p
}

// Len is the number of things that a power cut decides by itself.
func (p *Pending) Len() int { return len(p.atoms) }

// Image returns the disk on which atom i has version choice[i]: 0 is the durable one, the highest the
// newest. r fills sectors that are chosen to be garbage.
func (p *Pending) image(choice []int, r *rand.Rand) *Sim {
	s := p.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	img := &Sim{NamedTemps: s.NamedTemps, NoLinks: s.NoLinks, NoDirSync: s.NoDirSync, sector: s.sector, temps: s.temps, names: map[string]*simName{}}
	names := make(map[string]*simNode, len(s.names))
	for name, n := range s.names {
		names[name] = n.durable
	}
	for i := range p.atoms {
		if a := &p.atoms[i]; a.node == nil && choice[i] > 0 {
			k := choice[i] - 1
			for ; k >= 0 && !p.renamed(&s.names[a.name].list[k], choice); k-- {
			}
			if k >= 0 {
				names[a.name] = s.names[a.name].list[k].node
			}
		}
	}
	nodes := map[*simNode]*simNode{}
	for _, name := range sortedKeys(names) {
		old := names[name]
		if old == nil {
			continue
		}
		n := nodes[old]
		if n == nil {
			n = p.node(old, choice, r)
			nodes[old] = n
			img.nodes = append(img.nodes, n)
		}
		img.names[name] = &simName{cache: n, durable: n}
	}
	return img
}

// renamed reports whether a version of a name can be on the disk: where it is the end of a file's old name, the
// new one must be there.
func (p *Pending) renamed(v *nameVersion, choice []int) bool {
	if v.to == "" {
		return true
	}
	for i := range p.atoms {
		if a := &p.atoms[i]; a.node == nil && a.name == v.to {
			return a.seqs[0] > v.toAt || choice[i] > 0 && a.seqs[choice[i]-1] >= v.toAt
		}
	}
	return true // long durable
}

func (p *Pending) node(old *simNode, choice []int, r *rand.Rand) *simNode {
	sector := p.sim.sector
	size := old.dsize
	for i := range p.atoms {
		if a := &p.atoms[i]; a.node == old && a.sector < 0 && choice[i] > 0 {
			size = old.sizes[choice[i]-1].size
		}
	}
	sectors := int((size + int64(sector) - 1) / int64(sector))
	pages := make([]*simPage, sectors)
	copy(pages, old.durable)
	for i := range p.atoms {
		a := &p.atoms[i]
		if a.node != old || a.sector < 0 || a.sector >= sectors {
			continue
		}
		switch k := choice[i]; {
		case k > 0:
			pages[a.sector] = old.versions[a.sector].list[k-1].page
		case k == garbage:
			g := newPage(nil, sector)
			for j := 0; j < sector; j += 8 {
				binary.LittleEndian.PutUint64(g.b[j:], r.Uint64())
			}
			pages[a.sector] = g
		}
	}
	if in := int(size % int64(sector)); in > 0 && pages[sectors-1] != nil {
		pages[sectors-1] = newPage(pages[sectors-1], sector)
		clear(pages[sectors-1].b[in:])
	}
	return &simNode{mode: old.mode, cache: pages, durable: pages, shared: true, size: size, dsize: size, versions: map[int]*pageVersions{}}
}

// Spread says how many of the possible states Each visits.
type Spread struct {
	Exhaustive int // all states when there are no more than this
	Steps      int // otherwise at most so many each of: prefixes in time, all but one, only one
	Random     int // and so many random ones
	Garbage    int // and, in any case, so many in which a sector is garbage, and one in which all are
}

// Rule is how an image was chosen, and which of its kind it is.
type Rule struct {
	Name string
	N    int
}

var imageSeed = maphash.MakeSeed()

// Each visits states that a power cut may leave behind, no choice twice, until yield returns false. Where
// all states are too many, it visits none and all of what is open, the prefixes in time, all but one, only
// one, and random ones.
func (p *Pending) Each(w Spread, r *rand.Rand, yield func(*Sim, Rule) bool) {
	n := len(p.atoms)
	choice := make([]int, n)
	seen := map[uint64]bool{}
	buf := make([]byte, 2*n)
	emit := func(rule string, k int) bool {
		dirty := false
		for i, c := range choice {
			binary.LittleEndian.PutUint16(buf[2*i:], uint16(c))
			dirty = dirty || c == garbage
		}
		if h := maphash.Bytes(imageSeed, buf); !dirty && seen[h] {
			return true
		} else {
			seen[h] = true
		}
		return yield(p.image(choice, r), Rule{rule, k})
	}
	last := func(i int) int { return len(p.atoms[i].seqs) }
	if states := p.states(w.Exhaustive); states > 0 {
		for k := range states {
			if !emit("state", k) {
				return
			}
			for i := range choice {
				if choice[i]++; choice[i] <= last(i) {
					break
				}
				choice[i] = 0
			}
		}
	} else if !p.structured(w, r, choice, emit) {
		return
	}
	p.garbled(w, r, choice, emit)
}

// states is the number of states, 0 when there are more than limit.
func (p *Pending) states(limit int) int {
	states := 1
	for i := range p.atoms {
		if states *= len(p.atoms[i].seqs) + 1; states > limit {
			return 0
		}
	}
	return states
}

// structured visits a selection where all states are too many; false when emit did not want to go on.
func (p *Pending) structured(w Spread, r *rand.Rand, choice []int, emit func(string, int) bool) bool {
	n := len(p.atoms)
	set := func(f func(i int) int) {
		for i := range choice {
			choice[i] = f(i)
		}
	}
	none := func(int) int { return 0 }
	all := func(i int) int { return len(p.atoms[i].seqs) }
	if set(none); !emit("none", 0) {
		return false
	}
	if set(all); !emit("all", 0) {
		return false
	}
	var times []uint64
	for i := range p.atoms {
		times = append(times, p.atoms[i].seqs...)
	}
	slices.Sort(times)
	for k := range pick(len(times), w.Steps, r) {
		set(func(i int) int {
			seqs := p.atoms[i].seqs
			c, ok := slices.BinarySearch(seqs, times[k])
			if ok {
				c++
			}
			return c
		})
		if !emit("prefix", k) {
			return false
		}
	}
	for k := range pick(n, w.Steps, r) {
		set(all)
		if choice[k] = 0; !emit("all but", k) {
			return false
		}
	}
	for k := range pick(n, w.Steps, r) {
		set(none)
		if choice[k] = all(k); !emit("only", k) {
			return false
		}
	}
	for k := range w.Random {
		set(func(i int) int { return r.IntN(len(p.atoms[i].seqs) + 1) })
		if !emit("random", k) {
			return false
		}
	}
	return true
}

// garbled visits states in which sectors that were being written are garbage.
func (p *Pending) garbled(w Spread, r *rand.Rand, choice []int, emit func(string, int) bool) {
	var sectors []int
	for i := range p.atoms {
		if p.atoms[i].node != nil && p.atoms[i].sector >= 0 {
			sectors = append(sectors, i)
		}
	}
	if w.Garbage == 0 || len(sectors) == 0 {
		return
	}
	random := func() {
		for i := range choice {
			choice[i] = r.IntN(len(p.atoms[i].seqs) + 1)
		}
	}
	random()
	for _, i := range sectors {
		choice[i] = garbage
	}
	if !emit("all garbage", 0) {
		return
	}
	for k := range pick(len(sectors), w.Garbage, r) {
		random()
		if choice[sectors[k]] = garbage; !emit("garbage", k) {
			return
		}
	}
}

// pick yields at most m of the numbers below n, evenly spread, beginning anywhere.
func pick(n, m int, r *rand.Rand) func(func(int) bool) {
	return func(yield func(int) bool) {
		if m <= 0 || n == 0 {
			return
		}
		start := 0
		step := 1
		if n > m {
			step = (n + m - 1) / m
			start = r.IntN(step)
		}
		for k := start; k < n; k += step {
			if !yield(k) {
				return
			}
		}
	}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
