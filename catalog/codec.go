package catalog

import (
	"encoding/binary"
	"errors"
)

// maxName is the longest LEVEL=MEMBER, MAX_NAME of structs.x.
const maxName = 512

var (
	errShort    = errors.New("cut short")
	errTrailing = errors.New("bytes behind the end")
	errSpelling = errors.New("a number or a flag that no release writes so")
	errLong     = errors.New("a text that is too long")
)

// reader takes changes and records apart. It takes only what append wrote: one
// content has one spelling, so that two copies of a log can be compared byte by
// byte. After a fault everything it gives is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	r.b = nil
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	switch {
	case n <= 0:
		r.fail(errShort)
		return 0
	case n > 1 && r.b[n-1] == 0:
		r.fail(errSpelling)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// uint32 is a uvarint that fits.
func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if v > 1<<32-1 {
		r.fail(errSpelling)
		return 0
	}
	return uint32(v)
}

func (r *reader) fixed64() uint64 {
	if len(r.b) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(errShort)
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bool() bool {
	c := r.byte()
	if c > 1 {
		r.fail(errSpelling)
	}
	return c == 1
}

func (r *reader) text(most int) string {
	n := r.uvarint()
	switch {
	case n > uint64(len(r.b)):
		r.fail(errShort)
		return ""
	case n > uint64(most):
		r.fail(errLong)
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// list reads a count and that many things of at least size bytes each.
func list[T any](r *reader, size int, one func() T) []T {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail(errShort)
	}
	if n == 0 || r.err != nil {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = one()
	}
	return out
}

func (r *reader) addrs() []string {
	return list(r, 1, func() string { return r.text(maxAddr) })
}

func (r *reader) numbers() []uint32 { return list(r, 1, r.uint32) }

func (r *reader) spans() []Span {
	return list(r, 2, func() Span { return Span{r.uvarint(), r.uvarint()} })
}

// end says whether all was well and nothing is left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errTrailing
	}
	return r.err
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendAddrs(b []byte, addrs []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(addrs)))
	for _, a := range addrs {
		b = appendText(b, a)
	}
	return b
}

func appendNumbers(b []byte, numbers []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(numbers)))
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func appendSpans(b []byte, spans []Span) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	for _, s := range spans {
		b = binary.AppendUvarint(binary.AppendUvarint(b, s.First), s.Last)
	}
	return b
}
