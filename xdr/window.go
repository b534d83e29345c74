package xdr

// maxWindow bounds what one string can keep in memory.
const maxWindow = 64 << 10

// window makes the strings of a decoder. One that equals the one before shares
// its memory, as the machine names of a plan do. Different ones of a list or
// array are cut from a copy of a part of the input: one allocation for many.
type window struct {
	last   string
	lo, hi int // of the last string in the input, with its length and padding; 0, 0 at first
	copied string
	off    int  // of copied in the input
	wide   bool // an item that may hold many strings has begun
	misses int  // since then
}

// many says that many strings may follow.
func (w *window) many() { w.wide = true }

// next makes buf[lo:hi] the last string.
func (w *window) next(buf []byte, lo, hi int) {
	if lo >= w.off && hi <= w.off+len(w.copied) {
		w.last = w.copied[lo-w.off : hi-w.off]
		return
	}
	if w.wide {
		w.misses++
	}
	if w.misses < 2 {
		w.last = string(buf[lo:hi])
		return
	}
	end := max(hi, min(len(buf), lo+maxWindow))
	w.copied, w.off = string(buf[lo:end]), lo
	w.last = w.copied[:hi-lo]
}
