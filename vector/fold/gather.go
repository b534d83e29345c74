package fold

import (
	"math"
	"slices"
)

// Gather has the containers of a query's vectors, by range and key. It is made
// once and used again after Reset; it is not for concurrent use. The bytes that
// are added must stay as they are until the next Reset.
type Gather struct {
	inputs  [][]byte // what refs point into
	parts   []part   // by range
	sorted  bool
	pool    []ref    // of the sort
	rowPool []uint32 // of the sort

	keys  []aligned // what align found
	spans []span    // len(parts) for each of keys
	heads []cursor  // of align

	workers []*worker
	outs    []output // by chunk of keys
	cuts    []int    // where the chunks of keys end
	size    int      // the most that a leg of what align found takes
	frame   []byte   // what a leg is appended to; nil once it is taken
	spare   []byte   // the output's own memory meanwhile
}

// part is one range.
type part struct {
	refs []ref    // of containers
	rows []uint32 // of small arrays: a ref to one is larger than the rows
}

// ref is a container that stays where it is. There is no pointer in it, so that
// millions of them cost the garbage collector nothing.
type ref struct {
	input uint32 // index
	off   uint32 // in the input
	size  uint32 // bytes
	key   uint16
	more  uint16 // rows less one
	kind  Kind
}

func (r ref) rows() int { return int(r.more) + 1 }

// fewRows is how many rows of an array are copied. More of them are left where
// they are. What is read again later, after other vectors were read, is read
// from memory and not from the cache, and of a vector of 8 rows nothing but its
// header is left to be read.
const fewRows = 8

// NewGather returns a Gather for a query of so many ranges.
func NewGather(ranges int) *Gather {
	g := &Gather{}
	g.Reset(ranges)
	return g
}

// keep is the number of entries above which Reset lets scratch go: one large
// query must not hold its memory for ever.
const keep = 1 << 17

// Reset forgets what was added and begins a query of so many ranges.
func (g *Gather) Reset(ranges int) {
	clear(g.inputs) // they may be large, and their owner gone
	g.inputs = reuse(g.inputs)
	g.parts = resize(g.parts, ranges)
	clear(g.parts[min(max(ranges, 16), cap(g.parts)):cap(g.parts)])
	for i := range g.parts {
		g.parts[i] = part{refs: reuse(g.parts[i].refs), rows: reuse(g.parts[i].rows)}
	}
	g.pool, g.rowPool = reuse(g.pool), reuse(g.rowPool)
	g.keys, g.spans = reuse(g.keys), reuse(g.spans)
	g.sorted = false
	g.outs = resize(g.outs, min(cap(g.outs), len(g.workers))) // a large answer had many
	for i := range g.outs {
		g.outs[i] = output{heads: reuse(g.outs[i].heads), body: g.outs[i].body[:0]}
		if cap(g.outs[i].body) > LegBytes {
			g.outs[i].body = nil
		}
	}
	clear(g.outs[len(g.outs):cap(g.outs)])
}

// resize is s with n entries. Those that it has had, and their memory, are there
// again.
func resize[T any](s []T, n int) []T {
	s = s[:cap(s)]
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s[:n]
}

// reuse is s without entries, or nil where it is too large to be kept.
func reuse[T any](s []T) []T {
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// Ranges is the number of ranges.
func (g *Gather) Ranges() int { return len(g.parts) }

// Add adds a vector to a range.
func (g *Gather) Add(rng int, v View) {
	g.sorted = false
	p := &g.parts[rng]
	refs, pairs, off := p.refs, v.pairs(), v.body()
	input := uint32(len(g.inputs))
	for i := 0; len(pairs) >= 4; i++ {
		c := v.container(i, pairs)
		pairs = pairs[4:]
		size := 2 * c.Rows
		if c.Kind != Array {
			size = v.sizeAt(c, off)
		} else if c.Rows <= fewRows {
			p.copyRows(c.Key, v.data[off:off+size])
			off += size
			continue
		}
		refs = append(refs, ref{input, uint32(off), uint32(size), c.Key, uint16(c.Rows - 1), c.Kind})
		off += size
	}
	if len(refs) > len(p.refs) {
		p.refs = refs
		g.input(v.data)
	}
}

// AddRows adds rows to a range, in any order.
func (g *Gather) AddRows(rng int, rows ...uint32) {
	g.sorted = false
	g.parts[rng].rows = append(g.parts[rng].rows, rows...)
}

// AddWord adds to a range a set as version 1 has it: row i is bit i.
func (g *Gather) AddWord(rng int, word uint64) {
	for i := range uint32(64) {
		if word>>i&1 != 0 {
			g.AddRows(rng, i)
		}
	}
}

func (p *part) copyRows(key uint16, d []byte) {
	high := uint32(key) << 16
	for len(d) >= 2 {
		p.rows = append(p.rows, high|uint32(le.Uint16(d)))
		d = d[2:]
	}
}

// input adds what refs point into, and were given the next index for.
func (g *Gather) input(data []byte) {
	if uint64(len(g.inputs)) >= math.MaxUint32 {
		panic("fold: 2^32 vectors") // their slices alone are 96 GiB
	}
	g.inputs = append(g.inputs, data)
}

// data is the bytes of a container.
func (g *Gather) data(r *ref) []byte {
	return g.inputs[r.input][r.off : uint64(r.off)+uint64(r.size)]
}

// sort orders each range's refs and rows by key; rows of one key stay as they
// came.
func (g *Gather) sort() {
	if g.sorted {
		return
	}
	for i := range g.parts {
		p := &g.parts[i]
		p.refs, g.pool = sortRefs(p.refs, g.pool)
		p.rows, g.rowPool = sortRows(p.rows, g.rowPool)
	}
	g.sorted = true
}

// digits counts, for both bytes of the keys, how often each value occurs.
type digits [2][256]int

// places turns the counts of a digit into the place of each value's first entry.
// It is false where all n entries have one value, and there is nothing to do.
func places(counts *[256]int, n int) bool {
	at := 0
	for i, c := range counts {
		if c == n {
			return false
		}
		counts[i] = at
		at += c
	}
	return true
}

// sortRefs is a radix sort, stable, by key. It returns the sorted refs and the
// other of the two arrays, which is scratch. So does sortRows: one generic
// function for both would call the key of each entry through a table.
func sortRefs(a, b []ref) (sorted, scratch []ref) {
	if slices.IsSortedFunc(a, func(x, y ref) int { return int(x.key) - int(y.key) }) {
		return a, b
	}
	var d digits
	for i := range a {
		d[0][a[i].key&255]++
		d[1][a[i].key>>8]++
	}
	b = slices.Grow(b[:0], len(a))[:len(a)]
	for k := range d {
		if !places(&d[k], len(a)) {
			continue
		}
		for i := range a {
			at := &d[k][a[i].key>>(8*k)&255]
			b[*at] = a[i]
			*at++
		}
		a, b = b, a
	}
	return a, b
}

func sortRows(a, b []uint32) (sorted, scratch []uint32) {
	var d digits
	inOrder, last := true, uint32(0)
	for _, row := range a {
		d[0][row>>16&255]++
		d[1][row>>24]++
		inOrder = inOrder && row>>16 >= last
		last = row >> 16
	}
	if inOrder {
		return a, b
	}
	b = slices.Grow(b[:0], len(a))[:len(a)]
	for k := range d {
		if !places(&d[k], len(a)) {
			continue
		}
		for _, row := range a {
			at := &d[k][row>>(16+8*k)&255]
			b[*at] = row
			*at++
		}
		a, b = b, a
	}
	return a, b
}
