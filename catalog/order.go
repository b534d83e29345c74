package catalog

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// CompareAddr is the global machine order, the same in all lists of all queries:
// IP addresses first and numerically, so that 127.0.0.9 stands before 127.0.0.10,
// then names in byte order.
func CompareAddr(a, b string) int {
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(ipA.Compare(ipB), strings.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

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
