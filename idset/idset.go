// Package idset is a set of vector ids as a plan sends it: ascending, and a few
// bits an id. "Ids 0 to 499,999" takes a few bytes, and a million that lie
// scattered take two or three each, where a list node takes 28.
//
// The bytes of a set are its spans of successive ids, each of two varints
// (encoding/binary):
//
//	gap     the ids left out before the span; before every span but the first at
//	        least 1, which is not counted
//	length  the ids in the span, less one
package idset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
)

// ErrBytes says that bytes are no set.
var ErrBytes = errors.New("idset: invalid bytes")

// Set is a set of ids. The zero value is empty.
type Set struct {
	bytes []byte // all spans but the last
	n     uint64 // ids; saturates

	open        bool // there is a last span
	first, last uint64
	end         uint64 // the last id of the span before it; only with bytes
}

// Add adds an id above all that are in the set, or the last one again. Another
// one is a mistake of the caller, and it panics.
func (s *Set) Add(id uint64) { s.AddSpan(id, id) }

// AddSpan adds the ids from first to last, both inclusive, which are above all
// that are in the set; see Add.
func (s *Set) AddSpan(first, last uint64) {
	switch {
	case first > last:
		panic(fmt.Sprintf("idset: a span from %d to %d", first, last))
	case !s.open:
		s.open, s.first = true, first
	case first == s.last && last == s.last:
		return
	case first <= s.last:
		panic(fmt.Sprintf("idset: %d is added to a set that ends at %d", first, s.last))
	case first-1 > s.last:
		s.bytes, s.end = s.appendLast(s.bytes), s.last
		s.first = first
	}
	s.last = last
	if added := last - first; s.n > math.MaxUint64-1-added {
		s.n = math.MaxUint64
	} else {
		s.n += added + 1
	}
}

// appendLast appends the last span.
func (s *Set) appendLast(b []byte) []byte {
	gap := s.first
	if len(s.bytes) > 0 {
		gap = s.first - s.end - 2
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, gap), s.last-s.first)
}

// Len is the number of ids; of all 2^64 it is one less.
func (s *Set) Len() uint64 { return s.n }

// Append appends the bytes of the set.
func (s *Set) Append(b []byte) []byte {
	if !s.open {
		return b
	}
	b = append(b, s.bytes...)
	return s.appendLast(b)
}

// Bytes is the set's bytes, none of an empty one.
func (s *Set) Bytes() []byte { return s.Append(nil) }

// Parse reads the bytes of a set, which it keeps. Not more than most ids may be
// in it.
func Parse(data []byte, most uint64) (Encoded, error) {
	var e Encoded
	for rest, at, some := data, uint64(0), false; len(rest) > 0; some = true {
		gap, n := binary.Uvarint(rest)
		if n <= 0 {
			return e, fmt.Errorf("%w: at byte %d", ErrBytes, len(data)-len(rest))
		}
		rest = rest[n:]
		length, n := binary.Uvarint(rest)
		if n <= 0 {
			return e, fmt.Errorf("%w: at byte %d", ErrBytes, len(data)-len(rest))
		}
		rest = rest[n:]
		first := gap
		if some {
			if at > math.MaxUint64-2 || gap > math.MaxUint64-2-at {
				return e, fmt.Errorf("%w: a span behind the last id there can be", ErrBytes)
			}
			first = at + 2 + gap
		}
		if length > math.MaxUint64-first {
			return e, fmt.Errorf("%w: a span of %d ids from %d", ErrBytes, length, first)
		}
		if length >= most-e.n {
			return e, fmt.Errorf("%w: more than %d ids", ErrBytes, most)
		}
		e.n += length + 1
		at = first + length
	}
	e.data = data
	return e, nil
}

// Encoded is the bytes of a set that were checked.
type Encoded struct {
	data []byte
	n    uint64
}

// Len is the number of ids.
func (e Encoded) Len() uint64 { return e.n }

// Spans yields the first and the last id of each span, ascending.
func (e Encoded) Spans() iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		at, some := uint64(0), false
		for rest := e.data; len(rest) > 0; some = true {
			gap, n := binary.Uvarint(rest)
			length, m := binary.Uvarint(rest[n:])
			rest = rest[n+m:]
			if some {
				gap += at + 2
			}
			if at = gap + length; !yield(gap, at) {
				return
			}
		}
	}
}

// All yields the ids, ascending.
func (e Encoded) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for first, last := range e.Spans() {
			for id := first; ; id++ {
				if !yield(id) {
					return
				}
				if id == last {
					break
				}
			}
		}
	}
}
