package main

import (
	"fmt"
	"math"
	"strings"

	"starfish/catalog"
	"starfish/structs"
)

// parseSpans reads "0-99,200" as inclusive spans of ids.
func parseSpans(s string) ([]structs.IdRange, error) {
	items := splitList(s)
	if len(items) == 0 {
		return nil, fmt.Errorf("%q names no ids", s)
	}
	return parseIDs(items)
}

// mergeSpans puts the spans in order, each id once.
func mergeSpans(spans []structs.IdRange) []catalog.Span {
	out := make([]catalog.Span, len(spans))
	for i, s := range spans {
		out[i] = catalog.Span{First: s.First, Last: s.Last}
	}
	return catalog.MergeSpans(out)
}

func wireSpans(spans []catalog.Span) []structs.IdRange {
	out := make([]structs.IdRange, len(spans))
	for i, s := range spans {
		out[i] = structs.IdRange{First: s.First, Last: s.Last}
	}
	return out
}

// partSpans cuts the spans, which are in order, so that no part has more than most of the known ids,
// which are ascending.
func partSpans(spans []catalog.Span, known []uint64, most int) (parts [][]structs.IdRange) {
	if len(known) <= most {
		return [][]structs.IdRange{wireSpans(spans)}
	}
	first := uint64(0)
	for len(known) > 0 {
		last := uint64(math.MaxUint64)
		if len(known) > most {
			last = known[most-1]
		}
		known = known[min(most, len(known)):]
		var part []structs.IdRange
		for _, s := range spans {
			if s.First <= last && s.Last >= first {
				part = append(part, structs.IdRange{First: max(s.First, first), Last: min(s.Last, last)})
			}
		}
		parts = append(parts, part)
		first = last + 1
	}
	return parts
}

// spanList writes the first of total ids.
func spanList(spans []structs.IdRange, total uint64) string {
	const shown = 10
	var b strings.Builder
	for i, s := range spans[:min(len(spans), shown)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, s.First)
		if s.Last > s.First {
			fmt.Fprintf(&b, "-%d", s.Last)
		}
		total -= s.Last - s.First + 1
	}
	if total > 0 {
		fmt.Fprintf(&b, " and %d more", total)
	}
	return b.String()
}
