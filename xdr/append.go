package xdr

import (
	"encoding/binary"
	"math"
	"slices"
)

// AppendUint32 appends an unsigned int.
func AppendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendInt32 appends an int.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendUint64 appends an unsigned hyper.
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendInt64 appends a hyper.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendInt8 appends a char or int8_t, which takes the 4 bytes of an int.
func AppendInt8(b []byte, v int8) []byte { return AppendInt32(b, int32(v)) }

// AppendUint8 appends a u_char or uint8_t, which takes 4 bytes.
func AppendUint8(b []byte, v uint8) []byte { return AppendUint32(b, uint32(v)) }

// AppendInt16 appends a short or int16_t, which takes 4 bytes.
func AppendInt16(b []byte, v int16) []byte { return AppendInt32(b, int32(v)) }

// AppendUint16 appends a u_short or uint16_t, which takes 4 bytes.
func AppendUint16(b []byte, v uint16) []byte { return AppendUint32(b, uint32(v)) }

// AppendFloat32 appends a float.
func AppendFloat32(b []byte, v float32) []byte { return AppendUint32(b, math.Float32bits(v)) }

// AppendFloat64 appends a double.
func AppendFloat64(b []byte, v float64) []byte { return AppendUint64(b, math.Float64bits(v)) }

// AppendQuad appends a quadruple.
func AppendQuad(b []byte, v [16]byte) []byte { return append(b, v[:]...) }

// AppendBool appends a bool, or the flag before an optional item.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0, 0, 0, 1)
	}
	return append(b, 0, 0, 0, 0)
}

// AppendString appends a string. One of more than max bytes is ErrTooLong and
// leaves b as it is.
func AppendString(b []byte, s string, max uint32) ([]byte, error) {
	if uint64(len(s)) > uint64(max) {
		return b, LengthError("string", len(s), max)
	}
	n := len(b)
	end := n + 4 + (len(s)+3)&^3
	if end > cap(b) {
		b = slices.Grow(b, end-n)
	}
	b = b[:end]
	binary.BigEndian.PutUint32(b[end-4:], 0) // the padding, before what is not
	binary.BigEndian.PutUint32(b[n:], uint32(len(s)))
	copy(b[n+4:], s)
	return b, nil
}

// AppendOpaque appends variable-length opaque data. More than max bytes are
// ErrTooLong and leave b as it is.
func AppendOpaque(b, v []byte, max uint32) ([]byte, error) {
	if uint64(len(v)) > uint64(max) {
		return b, LengthError("opaque", len(v), max)
	}
	b = AppendUint32(b, uint32(len(v)))
	return AppendFixedOpaque(b, v), nil
}

var zeros [3]byte

// AppendFixedOpaque appends fixed-length opaque data: v and its padding.
func AppendFixedOpaque(b, v []byte) []byte {
	b = appendBytes(b, v)
	return append(b, zeros[:-len(v)&3]...)
}

// chunk is how much is copied at once: from 1 MiB on, Go's copy goes around the
// caches, which takes longer where the memory is used again and again.
const chunk = 256 << 10

// appendBytes is append for what may be long.
func appendBytes(b, v []byte) []byte {
	for len(v) >= 4*chunk && cap(b)-len(b) >= len(v) {
		b = append(b, v[:chunk]...)
		v = v[chunk:]
	}
	return append(b, v...)
}

// AppendArrayLen appends the count of a variable-length array. More than max
// items are ErrTooLong and leave b as it is.
func AppendArrayLen(b []byte, n int, max uint32) ([]byte, error) {
	if uint64(n) > uint64(max) {
		return b, LengthError("array", n, max)
	}
	return AppendUint32(b, uint32(n)), nil
}
