package fold

import "math/bits"

// acc is an accumulator. Between two keys it is empty.
type acc struct {
	bits  bitset
	dirty [16]uint64 // where not dense: a bit for each word of bits that may have rows
	dense bool
}

// sparseRows is up to how many rows are added with a note of the words that they
// touch, so that they are found again without a walk over all words, which costs
// as much as some hundred notes.
const sparseRows = 128

// wipe empties it. To clear 8 KiB takes as long as to look for a few words.
func (a *acc) wipe() {
	clear(a.bits[:])
	clear(a.dirty[:])
	a.dense = false
}

// note adds one row.
func (a *acc) note(v uint64) {
	a.bits.or(v>>3, 1<<(v&63))
	a.dirty[v>>12&15] |= 1 << (v >> 6 & 63)
}

// fill adds a span's rows to an empty accumulator.
func (a *acc) fill(g *Gather, p *part, s *span) {
	rows := p.rows[s.row:s.rowEnd]
	if s.rows > sparseRows {
		a.dense = true
		if !a.orRefs(g, p.refs[s.ref:s.refEnd]) {
			a.bits.orRows(rows)
		}
		return
	}
	for _, row := range rows {
		a.note(uint64(row & 0xffff))
	}
	for i := range p.refs[s.ref:s.refEnd] {
		r := &p.refs[s.ref+i]
		if d := g.data(r); r.kind == Array {
			for ; len(d) >= 2; d = d[2:] {
				a.note(uint64(le.Uint16(d)))
			}
		} else {
			a.noteRuns(d[2:])
		}
	}
}

// noteRuns adds runs of few rows.
func (a *acc) noteRuns(d []byte) {
	for ; len(d) >= 4; d = d[4:] {
		first := uint64(le.Uint16(d))
		for v := first; v <= first+uint64(le.Uint16(d[2:])); v++ {
			a.note(v)
		}
	}
}

// orRefs adds containers. It stops, and says true, where all rows are there.
func (a *acc) orRefs(g *Gather, refs []ref) (full bool) {
	var four [4]*bitset // bitmaps that wait
	n := 0
	for i := range refs {
		r := &refs[i]
		d := g.data(r)
		switch r.kind {
		case Array:
			a.bits.orArray(d)
		case Bitmap:
			four[n&3] = (*bitset)(d)
			if n++; n == 4 {
				if a.bits.or4(&four) {
					return true
				}
				n = 0
			}
		default:
			a.bits.orRuns(d[2:])
			if r.rows() == 1<<16 {
				return true
			}
		}
	}
	for _, x := range four[:n] {
		if a.bits.or1(x) {
			return true
		}
	}
	return false
}

// and adds to an empty accumulator what is both in x and in y, notes the words
// that have rows, and returns the number of rows.
func (a *acc) and(x, y *bitset) (rows int) {
	for i := range a.dirty {
		noted := uint64(0)
		for at := i << 9; at < i<<9+512; at += 8 {
			v := le.Uint64(x[at&wordAt:]) & le.Uint64(y[at&wordAt:])
			le.PutUint64(a.bits[at&wordAt:], v)
			rows += bits.OnesCount64(v)
			noted = noted>>1 | (v|-v)&(1<<63) // without a branch, which could not be foretold
		}
		a.dirty[i] = noted
	}
	return rows
}

// appendList appends the rows of one that is not dense, ascending.
func (a *acc) appendList(list []uint16) []uint16 {
	for i, d := range a.dirty {
		for ; d != 0; d &= d - 1 {
			at := i<<6 | bits.TrailingZeros64(d)
			for v := le.Uint64(a.bits[at<<3&wordAt:]); v != 0; v &= v - 1 {
				list = append(list, uint16(at<<6|bits.TrailingZeros64(v)))
			}
		}
	}
	return list
}
