package xdr

import "math"

// Sizer is a value that knows how many bytes it takes: as many as its
// AppendXDR appends. Less than 0 says that AppendXDR fails, for a list that is
// a ring or a value that is nested too deep; that it fails for other reasons
// only AppendXDR says. The code that rpcgen writes for a type is one.
type Sizer interface {
	XDRSize() int
}

// NoSize is the size of what cannot be written, and stays below 0 whatever is
// added to it.
const NoSize = math.MinInt / 2

// OpaqueSize returns the size of a string or variable-length opaque of n bytes.
func OpaqueSize(n int) int { return 4 + (n+3)&^3 }

// Measure returns the size of v by writing it: for types whose values hold
// values of the same type, which may be a ring.
func Measure(v Appender) int {
	b, err := v.AppendXDR(nil)
	if err != nil {
		return NoSize
	}
	return len(b)
}
