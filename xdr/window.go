package xdr

// maxWindow bounds what one string can keep in memory.
const maxWindow = 64 << 10

// window is a string copy of a part of the input, from which the strings of a
// list or array are cut: one allocation for many strings.
type window struct {
	s    string
	off  int  // of s in the input
	wide bool // many strings are expected
}

// many says that many strings may follow.
func (w *window) many() { w.wide = true }

// cut returns buf[lo:hi] as a string.
func (w *window) cut(buf []byte, lo, hi int) string {
	if lo >= w.off && hi <= w.off+len(w.s) {
		return w.s[lo-w.off : hi-w.off]
	}
	if !w.wide {
		return string(buf[lo:hi])
	}
	end := max(hi, min(len(buf), lo+maxWindow))
	w.s, w.off = string(buf[lo:end]), lo
	return w.s[:hi-lo]
}

// Slab hands out the nodes of one list from few allocations, each no larger
// than what the rest of the input can hold. The zero value is ready.
type Slab[T any] struct {
	free  []T
	made  int
	start int // offset at which the first node began
}

const firstSlab = 16

// Next returns a zero node; minNode is the least number of bytes of a node in
// the input.
func (s *Slab[T]) Next(d *Decoder, minNode int) *T {
	if len(s.free) == 0 {
		s.grow(d, minNode)
	}
	p := &s.free[0]
	s.free = s.free[1:]
	return p
}

// grow allocates for as many nodes as the rest of the input would hold if they
// were as long as those so far, but for at most 8 times those so far.
func (s *Slab[T]) grow(d *Decoder, minNode int) {
	n := firstSlab
	if s.made == 0 {
		s.start = d.off
		d.win.many()
	} else {
		mean := max((d.off-s.start)/s.made, minNode)
		n = min(max(d.Len()/mean+1, firstSlab), 8*s.made)
	}
	n = max(1, min(n, d.Len()/minNode))
	s.free = make([]T, n)
	s.made += n
}
