// Package query is the language of queries: text to tree and back.
//
//	query = "P:" id | "R:" range { "&" range }
//	range = "*" | "{" items "}" | items
//	items = item { "," item }
//	item  = id | id "-" id | "[" id "," id "]"
//	id    = decimal number up to 18446744073709551615
//
// P: is one vector. R: is the AND of its ranges, each the OR of its vectors;
// spans are inclusive, * is every vector. White space may stand between any two
// of these, P: and R: being one. docs/query.md tells more.
package query

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxText is the longest query text in bytes, MAX_QUERY_TEXT of structs.x.
const MaxText = 65536

// Query is a parsed query.
type Query struct {
	Point  bool    // P: of the one id in Ranges
	Ranges []Range // at least one; ANDed
}

// Range is a set of ids whose vectors are ORed.
type Range struct {
	All   bool   // every vector; no spans then
	Spans []Span // as written; they may overlap
}

// Span is an inclusive span of ids, Lo <= Hi.
type Span struct{ Lo, Hi uint64 }

// ID is the vector that a point query names.
func (q Query) ID() uint64 { return q.Ranges[0].Spans[0].Lo }

// String is the query in its shortest spelling; parsed again it is the same query.
func (q Query) String() string {
	var b strings.Builder
	if q.Point {
		b.WriteString("P:")
	} else {
		b.WriteString("R:")
	}
	for i, r := range q.Ranges {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(r.String())
	}
	return b.String()
}

// String is the range as it stands in a query.
func (r Range) String() string {
	if r.All {
		return "*"
	}
	spans := make([]string, len(r.Spans))
	for i, s := range r.Spans {
		spans[i] = s.String()
	}
	return strings.Join(spans, ",")
}

// String is the span as it stands in a query.
func (s Span) String() string {
	if s.Lo == s.Hi {
		return strconv.FormatUint(s.Lo, 10)
	}
	return fmt.Sprintf("%d-%d", s.Lo, s.Hi)
}

// SyntaxError says where and why a text is no query.
type SyntaxError struct {
	Pos      int    // byte where it went wrong, from 1; one more than the length at the end
	Expected string // what could have stood there
	Found    string // what stands there
	Reason   string // where Expected does not tell it all, else ""
}

// Error is the whole message for the user.
func (e *SyntaxError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("query: byte %d: %s; expected %s", e.Pos, e.Reason, e.Expected)
	}
	return fmt.Sprintf("query: byte %d: expected %s, found %s", e.Pos, e.Expected, e.Found)
}
