package catalog

import (
	"cmp"
	"slices"
)

// MergeSpans returns the same ids as spans in ascending order, without overlap
// and without touching neighbours. Spans with First > Last hold nothing.
func MergeSpans(spans []Span) []Span {
	out := make([]Span, 0, len(spans))
	for _, s := range spans {
		if s.First <= s.Last {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	n := 0
	for _, s := range out {
		if n > 0 && (s.First <= out[n-1].Last || s.First-1 == out[n-1].Last) {
			out[n-1].Last = max(out[n-1].Last, s.Last)
			continue
		}
		out[n] = s
		n++
	}
	return out[:n]
}
