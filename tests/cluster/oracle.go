package cluster

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
)

// Words is a vector as an oracle sees it: bit i%64 of word i/64 is row i. It
// shares no code with the product.
type Words []uint64

// Set adds a row.
//
//go:norace
func (w *Words) Set(row uint32) {
	for int(row/64) >= len(*w) {
		*w = append(*w, make([]uint64, int(row/64)+1-len(*w))...)
	}
	(*w)[row/64] |= 1 << (row % 64)
}

// Or adds the rows of o. The race detector is kept out of the loops over words:
// it would make the oracle slower than the cluster.
//
//go:norace
func (w *Words) Or(o Words) {
	if len(o) > len(*w) {
		*w = append(*w, make(Words, len(o)-len(*w))...)
	}
	for i, v := range o {
		(*w)[i] |= v
	}
}

// And keeps the rows that o has too.
//
//go:norace
func (w *Words) And(o Words) {
	*w = (*w)[:min(len(*w), len(o))]
	for i := range *w {
		(*w)[i] &= o[i]
	}
}

// Trim drops trailing zero words, as the wire has it.
func (w Words) Trim() Words {
	for len(w) > 0 && w[len(w)-1] == 0 {
		w = w[:len(w)-1]
	}
	return w
}

// Count is the number of rows.
//
//go:norace
func (w Words) Count() uint64 {
	n := 0
	for _, v := range w {
		n += bits.OnesCount64(v)
	}
	return uint64(n)
}

// RandomWords draws a vector of rows below limit: dense has half of them, else
// a few thousand rows, single or in runs.
//
//go:norace
func RandomWords(rnd *rand.Rand, limit uint32, dense bool) Words {
	var w Words
	if dense {
		w = make(Words, limit/64)
		for i := range w {
			w[i] = rnd.Uint64()
		}
		return w.Trim()
	}
	for range rnd.IntN(300) {
		at, run := rnd.Uint32N(limit), uint32(1)
		if rnd.IntN(3) == 0 {
			run = 1 + rnd.Uint32N(500)
		}
		for r := at; r < min(at+run, limit); r++ {
			w.Set(r)
		}
	}
	return w
}

var errRoaring = errors.New("not a portable roaring stream")

// ReadRoaring reads the portable 32-bit Roaring format after its
// specification, without a roaring library.
//
//go:norace
func ReadRoaring(b []byte) (Words, error) {
	const noRuns, withRuns = 12346, 12347
	if len(b) < 4 {
		return nil, errRoaring
	}
	cookie := binary.LittleEndian.Uint32(b)
	pos, n := 4, 0
	var runs []byte
	switch {
	case cookie == noRuns:
		n, pos = int(binary.LittleEndian.Uint32(b[4:])), 8
	case cookie&0xffff == withRuns:
		n = int(cookie>>16) + 1
		runs = b[4 : 4+(n+7)/8]
		pos += (n + 7) / 8
	default:
		return nil, errRoaring
	}
	heads := b[pos : pos+4*n]
	pos += 4 * n
	if runs == nil || n >= 4 {
		pos += 4 * n // offsets
	}
	var w Words
	for i := range n {
		base := uint32(binary.LittleEndian.Uint16(heads[4*i:])) << 16
		card := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		switch {
		case runs != nil && runs[i/8]&(1<<(i%8)) != 0:
			k := int(binary.LittleEndian.Uint16(b[pos:]))
			pos += 2
			for range k {
				start := base + uint32(binary.LittleEndian.Uint16(b[pos:]))
				for r := range uint32(binary.LittleEndian.Uint16(b[pos+2:])) + 1 {
					w.Set(start + r)
				}
				pos += 4
			}
		case card > 4096:
			for j := range 1024 {
				for v := binary.LittleEndian.Uint64(b[pos+8*j:]); v != 0; v &= v - 1 {
					w.Set(base + uint32(64*j+bits.TrailingZeros64(v)))
				}
			}
			pos += 8192
		default:
			for j := range card {
				w.Set(base + uint32(binary.LittleEndian.Uint16(b[pos+2*j:])))
			}
			pos += 2 * card
		}
	}
	if pos != len(b) {
		return nil, errRoaring
	}
	return w, nil
}
