package catalog

import (
	"math"
	"slices"
)

// CountIDs is how many ids are in the spans, which MergeSpans has put in order;
// at most 2^64-1.
func CountIDs(spans []Span) (n uint64) {
	for _, s := range spans {
		size := s.Last - s.First // one less than its ids, which may be 2^64
		if size >= math.MaxUint64-n {
			return math.MaxUint64
		}
		n += size + 1
	}
	return n
}

// SubtractSpans returns the ids of a that are not in b. Both are in the order
// of MergeSpans, and so is the result.
func SubtractSpans(a, b []Span) (out []Span) {
	for _, s := range a {
		for len(b) > 0 && b[0].Last < s.First {
			b = b[1:]
		}
		gone := false // all of what is left of s
		for _, cut := range b {
			if cut.First > s.Last {
				break
			}
			if cut.First > s.First {
				out = append(out, Span{s.First, cut.First - 1})
			}
			if gone = cut.Last >= s.Last; gone {
				break
			}
			s.First = cut.Last + 1
		}
		if !gone {
			out = append(out, s)
		}
	}
	return out
}

// appendID adds an id that is above all of the spans.
func appendID(spans []Span, id uint64) []Span {
	if n := len(spans); n > 0 && spans[n-1].Last == id-1 && id > 0 {
		spans[n-1].Last = id
		return spans
	}
	return append(spans, Span{id, id})
}

// inSpans says whether the id is in the spans, which MergeSpans has put in order.
func inSpans(spans []Span, id uint64) bool {
	_, in := slices.BinarySearchFunc(spans, id, func(s Span, id uint64) int {
		switch {
		case s.Last < id:
			return -1
		case s.First > id:
			return 1
		}
		return 0
	})
	return in
}
