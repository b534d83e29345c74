package xdr

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// MaxDepth is how deep values may be nested in values of their own type.
	// Lists do not count: they are decoded in a loop.
	MaxDepth = 1000
	// MaxNodes is how many list nodes one input may hold, and one list that is
	// written: enough for any plan, and an end to a list that is a ring.
	MaxNodes = 2_000_000
)

// Decoder reads XDR items from a byte slice. It keeps its first error: after
// that every read gives the zero value, so a caller may read a whole struct and
// look at Err once. The zero value is an empty input.
type Decoder struct {
	// Lax reads as libtirpc does: any bool but 0 is true, padding may hold
	// anything, an enum may have a value without a name, of a char or short the
	// lower bits count.
	Lax bool
	// Alias makes Opaque return parts of the input instead of copies. Set it
	// only where the input is not written to while the value lives.
	Alias bool

	buf []byte
	// off is the next byte to read. Beyond the end of buf it says that the
	// decoder has failed: with err, or because the input was too short. So the
	// reads below need no call in their error path, and are inlined.
	off   int
	err   error
	depth int
	nodes int // of lists
	lists int
	// slabbed is the least number of bytes of all nodes that were allocated.
	slabbed int
	win     window
}

// NewDecoder returns a Decoder that reads b.
func NewDecoder(b []byte) *Decoder { return &Decoder{buf: b} }

// Reset makes d read b from its start; Lax and Alias stay.
func (d *Decoder) Reset(b []byte) { *d = Decoder{Lax: d.Lax, Alias: d.Alias, buf: b} }

// Err returns the first error, an *Error, or nil.
func (d *Decoder) Err() error {
	if d.off <= len(d.buf) {
		return nil
	}
	return d.failure()
}

func (d *Decoder) failure() error {
	if d.err == nil {
		d.err = &Error{Offset: len(d.buf), Err: ErrShort}
	}
	return d.err
}

// Len returns the number of bytes that are left, 0 after an error.
func (d *Decoder) Len() int { return max(0, len(d.buf)-d.off) }

// Offset returns the number of bytes read; all of them after an error.
func (d *Decoder) Offset() int { return min(d.off, len(d.buf)) }

// Fail records err as the decoder's error if it has none yet.
func (d *Decoder) Fail(err error) { d.failAt(d.off, err) }

func (d *Decoder) failAt(off int, err error) {
	if d.Err() == nil {
		d.err = &Error{Offset: off, Err: err}
		d.off = len(d.buf) + 1
	}
}

// Uint32 reads an unsigned int.
func (d *Decoder) Uint32() (v uint32) {
	if d.off += 4; d.off <= len(d.buf) {
		v = binary.BigEndian.Uint32(d.buf[d.off-4:])
	}
	return v
}

// Int32 reads an int.
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper.
func (d *Decoder) Uint64() (v uint64) {
	if d.off += 8; d.off <= len(d.buf) {
		v = binary.BigEndian.Uint64(d.buf[d.off-8:])
	}
	return v
}

// Int64 reads a hyper.
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Int8 reads a char or int8_t, which takes the 4 bytes of an int.
func (d *Decoder) Int8() int8 {
	v := d.Int32()
	if v != int32(int8(v)) {
		d.narrow(int64(v), "char")
	}
	return int8(v)
}

// Uint8 reads a u_char or uint8_t, which takes 4 bytes.
func (d *Decoder) Uint8() uint8 {
	v := d.Uint32()
	if v > math.MaxUint8 {
		d.narrow(int64(v), "unsigned char")
	}
	return uint8(v)
}

// Int16 reads a short or int16_t, which takes 4 bytes.
func (d *Decoder) Int16() int16 {
	v := d.Int32()
	if v != int32(int16(v)) {
		d.narrow(int64(v), "short")
	}
	return int16(v)
}

// Uint16 reads a u_short or uint16_t, which takes 4 bytes.
func (d *Decoder) Uint16() uint16 {
	v := d.Uint32()
	if v > math.MaxUint16 {
		d.narrow(int64(v), "unsigned short")
	}
	return uint16(v)
}

// narrow refuses v, or lets its lower bits count.
func (d *Decoder) narrow(v int64, what string) {
	if !d.Lax {
		d.failAt(d.off-4, fmt.Errorf("%d as %s: %w", v, what, ErrRange))
	}
}

// Float32 reads a float.
func (d *Decoder) Float32() float32 { return math.Float32frombits(d.Uint32()) }

// Float64 reads a double.
func (d *Decoder) Float64() float64 { return math.Float64frombits(d.Uint64()) }

// Quad reads a quadruple, as its 16 bytes.
func (d *Decoder) Quad() (q [16]byte) {
	d.FixedOpaque(q[:])
	return q
}

// Bool reads a bool, or the flag before an optional item.
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 && !d.Lax {
		d.failAt(d.off-4, fmt.Errorf("bool %d: %w", v, ErrBool))
		return false
	}
	return v != 0
}

// More reads the flag before a list's next node, and counts the nodes.
func (d *Decoder) More() bool {
	v := d.Uint32()
	if v == 1 && d.nodes < MaxNodes {
		d.nodes++
		return true
	}
	if v > 1 && !d.Lax {
		d.failAt(d.off-4, fmt.Errorf("flag of a list %d: %w", v, ErrBool))
		return false
	}
	if v != 0 {
		if d.nodes++; d.nodes > MaxNodes {
			d.failAt(d.off-4, LengthError("list", d.nodes, MaxNodes))
		}
	}
	return v != 0 && d.nodes <= MaxNodes
}

// String reads a string of at most max bytes. The package comment says what
// strings share.
func (d *Decoder) String(max uint32) string {
	// One that is on the wire as the one before it was is checked already:
	// length, bytes and padding are compared at once.
	w := &d.win
	if end := d.off + w.hi - w.lo; w.hi > 0 && end <= len(d.buf) && uint64(len(w.last)) <= uint64(max) &&
		string(d.buf[d.off:end]) == string(d.buf[w.lo:w.hi]) {
		d.off = end
		return w.last
	}
	return d.newString(max)
}

func (d *Decoder) newString(max uint32) string {
	n := d.Uint32()
	lo := d.step(n, max)
	if n == 0 || lo < 0 {
		return ""
	}
	d.win.next(d.buf, lo, lo+int(n))
	d.win.lo, d.win.hi = lo-4, d.off
	return d.win.last
}

// Opaque reads variable-length opaque data of at most max bytes; nil for none.
func (d *Decoder) Opaque(max uint32) []byte {
	n := d.Uint32()
	lo := d.step(n, max)
	if n == 0 || lo < 0 {
		return nil
	}
	hi := lo + int(n)
	if d.Alias {
		return d.buf[lo:hi:hi]
	}
	return append([]byte(nil), d.buf[lo:hi]...)
}

// FixedOpaque fills dst with fixed-length opaque data.
func (d *Decoder) FixedOpaque(dst []byte) {
	lo := d.step(uint32(len(dst)), math.MaxUint32)
	if lo < 0 {
		clear(dst)
		return
	}
	copy(dst, d.buf[lo:])
}

// step steps over n bytes and their padding, and returns where they begin; -1
// where they are more than max, not there, or badly padded.
func (d *Decoder) step(n, max uint32) int {
	whole := (uint64(n) + 3) &^ 3
	lo := d.off
	if n > max || lo > len(d.buf) || whole > uint64(len(d.buf)-lo) {
		d.badLength(n, max)
		return -1
	}
	d.off = lo + int(whole)
	if pad := n & 3; pad != 0 && binary.BigEndian.Uint32(d.buf[d.off-4:])<<(8*pad) != 0 && !d.Lax {
		d.failAt(lo+int(n), ErrPadding)
		return -1
	}
	return lo
}

func (d *Decoder) badLength(n, max uint32) {
	err := fmt.Errorf("length %d, %d bytes left: %w", n, d.Len(), ErrShort)
	if n > max {
		err = fmt.Errorf("length %d, at most %d: %w", n, max, ErrTooLong)
	}
	d.failAt(d.off-4, err)
}

// ArrayLen reads the count of a variable-length array of at most max items,
// each of at least minElem bytes, and fails where the rest of the input cannot
// hold them: what it returns is safe to allocate.
func (d *Decoder) ArrayLen(max uint32, minElem int) int {
	n := d.Uint32()
	if n > max {
		d.failAt(d.off-4, fmt.Errorf("array of %d items, at most %d: %w", n, max, ErrTooLong))
		return 0
	}
	if uint64(n) > uint64(d.Len()/minElem) {
		d.failAt(d.off-4, fmt.Errorf("array of %d items, %d bytes left: %w", n, d.Len(), ErrShort))
		return 0
	}
	d.win.many()
	return int(n)
}

// Enter goes one level deeper into a recursive type, or fails at MaxDepth.
// Where it returned true, Leave comes back.
func (d *Decoder) Enter() bool {
	if d.depth >= MaxDepth {
		d.Fail(DepthError())
	}
	if d.Err() != nil {
		return false
	}
	d.depth++
	return true
}

// Leave undoes an Enter that returned true.
func (d *Decoder) Leave() { d.depth-- }

// Rest returns the bytes that are left, uncopied, and steps over them.
func (d *Decoder) Rest() []byte {
	if d.Err() != nil {
		return nil
	}
	b := d.buf[d.off:]
	d.off = len(d.buf)
	return b
}
