package fold

import "math/bits"

// bitset has a bit for each row of a container, as a bitmap's bytes have it.
// Loads and stores of little-endian words at an index that is masked compile to
// plain ones without a bounds check, on machines of that order.
type bitset [bitmapBytes]byte

// wordAt masks the index of a byte to that of its word.
const wordAt = bitmapBytes - 8

func (b *bitset) or(at, word uint64) {
	at &= wordAt
	le.PutUint64(b[at:], le.Uint64(b[at:])|word)
}

// orArray adds the rows of an array container. They need not ascend.
func (b *bitset) orArray(d []byte) {
	for len(d) >= 8 {
		v := le.Uint64(d)
		i := v >> 3 & wordAt
		le.PutUint64(b[i:], le.Uint64(b[i:])|1<<(v&63))
		i = v >> 19 & wordAt
		le.PutUint64(b[i:], le.Uint64(b[i:])|1<<(v>>16&63))
		i = v >> 35 & wordAt
		le.PutUint64(b[i:], le.Uint64(b[i:])|1<<(v>>32&63))
		i = v >> 51 & wordAt
		le.PutUint64(b[i:], le.Uint64(b[i:])|1<<(v>>48&63))
		d = d[8:]
	}
	for len(d) >= 2 {
		v := uint64(le.Uint16(d))
		b.or(v>>3, 1<<(v&63))
		d = d[2:]
	}
}

// orRows adds the lower halves of rows.
func (b *bitset) orRows(rows []uint32) {
	for _, row := range rows {
		v := uint64(row)
		b.or(v>>3, 1<<(v&63))
	}
}

// orRuns adds the runs of a run container, without their number.
func (b *bitset) orRuns(d []byte) {
	for len(d) >= 4 {
		first := uint64(le.Uint16(d))
		b.orRange(first, min(first+uint64(le.Uint16(d[2:])), 1<<16-1))
		d = d[4:]
	}
}

// orRange adds the rows from first to last, which is not above 65,535.
func (b *bitset) orRange(first, last uint64) {
	low, high := ^uint64(0)<<(first&63), ^uint64(0)>>(63-last&63)
	i, j := first>>3&wordAt, last>>3&wordAt
	if i == j {
		b.or(i, low&high)
		return
	}
	b.or(i, low)
	for i += 8; i < j; i += 8 {
		le.PutUint64(b[i&wordAt:], ^uint64(0))
	}
	b.or(j, high)
}

// or1 adds x; true where all rows are there now.
func (b *bitset) or1(x *bitset) bool {
	all := ^uint64(0)
	for i := 0; i < bitmapBytes; i += 16 {
		v := le.Uint64(b[i:]) | le.Uint64(x[i:])
		w := le.Uint64(b[i+8:]) | le.Uint64(x[i+8:])
		le.PutUint64(b[i:], v)
		le.PutUint64(b[i+8:], w)
		all &= v & w
	}
	return all == ^uint64(0)
}

// or4 adds four, and so reads and writes b once; true where all rows are there now.
func (b *bitset) or4(x *[4]*bitset) bool {
	all := ^uint64(0)
	c, d, e, f := x[0], x[1], x[2], x[3]
	for i := 0; i < bitmapBytes; i += 16 {
		v := le.Uint64(b[i:]) | le.Uint64(c[i:]) | le.Uint64(d[i:]) | le.Uint64(e[i:]) | le.Uint64(f[i:])
		w := le.Uint64(b[i+8:]) | le.Uint64(c[i+8:]) | le.Uint64(d[i+8:]) | le.Uint64(e[i+8:]) | le.Uint64(f[i+8:])
		le.PutUint64(b[i:], v)
		le.PutUint64(b[i+8:], w)
		all &= v & w
	}
	return all == ^uint64(0)
}

// and makes b the rows that are both in x and in y; false where there is none.
func (b *bitset) and(x, y *bitset) bool {
	some := uint64(0)
	for i := 0; i < bitmapBytes; i += 16 {
		v := le.Uint64(x[i:]) & le.Uint64(y[i:])
		w := le.Uint64(x[i+8:]) & le.Uint64(y[i+8:])
		le.PutUint64(b[i:], v)
		le.PutUint64(b[i+8:], w)
		some |= v | w
	}
	return some != 0
}

// count is the number of rows.
func (b *bitset) count() (n int) {
	for i := 0; i < bitmapBytes; i += 32 {
		n += bits.OnesCount64(le.Uint64(b[i:])) + bits.OnesCount64(le.Uint64(b[i+8:])) +
			bits.OnesCount64(le.Uint64(b[i+16:])) + bits.OnesCount64(le.Uint64(b[i+24:]))
	}
	return n
}

// countAnd is the number of rows that are also in x.
func (b *bitset) countAnd(x *bitset) (n int) {
	for i := 0; i < bitmapBytes; i += 32 {
		n += bits.OnesCount64(le.Uint64(b[i:])&le.Uint64(x[i:])) +
			bits.OnesCount64(le.Uint64(b[i+8:])&le.Uint64(x[i+8:])) +
			bits.OnesCount64(le.Uint64(b[i+16:])&le.Uint64(x[i+16:])) +
			bits.OnesCount64(le.Uint64(b[i+24:])&le.Uint64(x[i+24:]))
	}
	return n
}

// measure is the number of rows and of runs: a run begins at each bit whose
// lower neighbour is clear.
func (b *bitset) measure() (rows, runs int) {
	carry := uint64(0)
	for i := 0; i < bitmapBytes; i += 16 {
		v, w := le.Uint64(b[i:]), le.Uint64(b[i+8:])
		rows += bits.OnesCount64(v) + bits.OnesCount64(w)
		runs += bits.OnesCount64(v&^(v<<1|carry)) + bits.OnesCount64(w&^(w<<1|v>>63))
		carry = w >> 63
	}
	return rows, runs
}

// has is 1 where v is in b, else 0.
func (b *bitset) has(v uint16) int {
	return int(le.Uint64(b[uint64(v)>>3&wordAt:]) >> (v & 63) & 1)
}

// toArray writes the rows, of which it writes the first 4096, as an array.
func (b *bitset) toArray(out *bitset) {
	n := 0
	for i := 0; i < bitmapBytes; i += 8 {
		for v := le.Uint64(b[i:]); v != 0; v &= v - 1 {
			if n == bitmapBytes {
				return
			}
			le.PutUint16(out[n&(bitmapBytes-2):], uint16(i<<3|bits.TrailingZeros64(v)))
			n += 2
		}
	}
}

// appendRuns appends the runs as a container, without their number.
func (b *bitset) appendRuns(dst []byte) []byte {
	for at := b.next(0, 0); at < 1<<16; {
		end := b.next(at, ^uint64(0))
		dst = le.AppendUint16(dst, uint16(at))
		dst = le.AppendUint16(dst, uint16(end-at-1))
		at = b.next(end, 0)
	}
	return dst
}

// next is the first row from at on that is set, or clear where flip is all
// ones; 65,536 where there is none.
func (b *bitset) next(at int, flip uint64) int {
	if at >= 1<<16 {
		return 1 << 16
	}
	i := at >> 3 & wordAt
	v := (le.Uint64(b[i:]) ^ flip) &^ (1<<(at&63) - 1)
	for v == 0 {
		if i += 8; i >= bitmapBytes {
			return 1 << 16
		}
		v = le.Uint64(b[i&wordAt:]) ^ flip
	}
	return i<<3 | bits.TrailingZeros64(v)
}
