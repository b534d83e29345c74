package fold

import (
	"slices"
	"sort"
)

// aligned is a key that is to be folded.
type aligned struct {
	key  uint16
	work int // bytes that are read for it, about
}

// span is what one range has of a key: some of its refs, and of its rows.
type span struct {
	ref, refEnd int
	row, rowEnd int
	rows        int // at most so many rows; for rarest first
	bytes       int // of the containers, and of the rows as an array
}

// cursor is where align stands in a range.
type cursor struct{ ref, row int }

// align finds the keys in [first, end) that every range has, or, not all, that
// any range has, and each range's span of them. It stops before the key whose
// spans would make more than limit bytes of a leg's answer, but takes one key at
// least, and returns where it stopped, or end.
func (g *Gather) align(first, end, limit int, all bool) (next int) {
	g.sort()
	g.keys, g.spans = g.keys[:0], g.spans[:0]
	first, end = max(first, 0), min(end, Keys)
	g.heads = slices.Grow(g.heads[:0], len(g.parts))[:len(g.parts)]
	clear(g.heads)
	for i := range g.parts {
		g.heads[i].skip(&g.parts[i], first)
	}
	total := 0
	g.size = 0
	for len(g.parts) > 0 {
		low, high := g.bounds()
		if all && low != high && high < Keys {
			for i := range g.parts {
				g.heads[i].skip(&g.parts[i], high)
			}
			continue
		}
		if low >= end || all && high == Keys {
			break
		}
		n := len(g.spans)
		work, size := g.take(low)
		if total += size; total > limit && n > 0 {
			g.spans = g.spans[:n]
			return low
		}
		g.size = total
		g.keys = append(g.keys, aligned{uint16(low), work})
	}
	return end
}

// bounds is the lowest and the highest of the keys at which the ranges stand.
func (g *Gather) bounds() (low, high int) {
	low = Keys
	for i := range g.parts {
		key := g.heads[i].key(&g.parts[i])
		low, high = min(low, key), max(high, key)
	}
	return low, high
}

// take adds every range's span of the key, and steps over it. It returns about
// how many bytes are read for them, and the most that a leg answers.
func (g *Gather) take(key int) (work, size int) {
	for i := range g.parts {
		p, c := &g.parts[i], &g.heads[i]
		s := span{ref: c.ref, row: c.row}
		for ; c.ref < len(p.refs) && int(p.refs[c.ref].key) == key; c.ref++ {
			r := &p.refs[c.ref]
			s.bytes += int(r.size)
			s.rows += r.rows()
			if r.kind == Bitmap {
				s.rows += maxArray // though it has few, it is no case for sparse
			}
		}
		for c.row < len(p.rows) && int(p.rows[c.row]>>16) == key {
			c.row++
		}
		s.refEnd, s.rowEnd = c.ref, c.row
		s.rows += s.rowEnd - s.row
		s.bytes += 2 * (s.rowEnd - s.row)
		g.spans = append(g.spans, s)
		work += s.bytes
		size += min(s.bytes, bitmapBytes) + recordHead*(s.refEnd-s.ref+1)
	}
	return work, size
}

// key is where the cursor stands; Keys at the end.
func (c *cursor) key(p *part) int {
	key := Keys
	if c.ref < len(p.refs) {
		key = int(p.refs[c.ref].key)
	}
	if c.row < len(p.rows) {
		key = min(key, int(p.rows[c.row]>>16))
	}
	return key
}

// skip goes on to the first key that is not below key.
func (c *cursor) skip(p *part, key int) {
	c.ref += gallop(len(p.refs)-c.ref, func(i int) bool { return int(p.refs[c.ref+i].key) >= key })
	c.row += gallop(len(p.rows)-c.row, func(i int) bool { return int(p.rows[c.row+i]>>16) >= key })
}

// gallop is sort.Search that is quick where the answer is near to 0.
func gallop(n int, at func(int) bool) int {
	step := 1
	for step < n && !at(step-1) {
		step *= 2
	}
	low := step / 2
	return low + sort.Search(min(step, n)-low, func(i int) bool { return at(low + i) })
}
