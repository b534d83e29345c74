package xdr_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// primitives are values with their bytes on the wire.
var primitives = []struct {
	name  string
	bytes []byte
	enc   func(b []byte) ([]byte, error)
	dec   func(d *xdr.Decoder) any
	want  any
}{
	{"unsigned", []byte{0xfe, 0xdc, 0xba, 0x98},
		func(b []byte) ([]byte, error) { return xdr.AppendUint32(b, 0xfedcba98), nil },
		func(d *xdr.Decoder) any { return d.Uint32() }, uint32(0xfedcba98)},
	{"int", []byte{0xff, 0xff, 0xff, 0xfe},
		func(b []byte) ([]byte, error) { return xdr.AppendInt32(b, -2), nil },
		func(d *xdr.Decoder) any { return d.Int32() }, int32(-2)},
	{"char", []byte{0xff, 0xff, 0xff, 0x80},
		func(b []byte) ([]byte, error) { return xdr.AppendInt8(b, -128), nil },
		func(d *xdr.Decoder) any { return d.Int8() }, int8(-128)},
	{"unsigned char", []byte{0, 0, 0, 0xff},
		func(b []byte) ([]byte, error) { return xdr.AppendUint8(b, 255), nil },
		func(d *xdr.Decoder) any { return d.Uint8() }, uint8(255)},
	{"short", []byte{0xff, 0xff, 0x80, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendInt16(b, -32768), nil },
		func(d *xdr.Decoder) any { return d.Int16() }, int16(-32768)},
	{"unsigned short", []byte{0, 0, 0xff, 0xff},
		func(b []byte) ([]byte, error) { return xdr.AppendUint16(b, 65535), nil },
		func(d *xdr.Decoder) any { return d.Uint16() }, uint16(65535)},
	{"unsigned hyper", []byte{1, 2, 3, 4, 5, 6, 7, 8},
		func(b []byte) ([]byte, error) { return xdr.AppendUint64(b, 0x0102030405060708), nil },
		func(d *xdr.Decoder) any { return d.Uint64() }, uint64(0x0102030405060708)},
	{"hyper", []byte{0x80, 0, 0, 0, 0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendInt64(b, math.MinInt64), nil },
		func(d *xdr.Decoder) any { return d.Int64() }, int64(math.MinInt64)},
	{"float", []byte{0x3f, 0x80, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendFloat32(b, 1), nil },
		func(d *xdr.Decoder) any { return d.Float32() }, float32(1)},
	{"double", []byte{0xc0, 0, 0, 0, 0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendFloat64(b, -2), nil },
		func(d *xdr.Decoder) any { return d.Float64() }, float64(-2)},
	{"quadruple", []byte{0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendQuad(b, [16]byte{0x3f, 0xff}), nil },
		func(d *xdr.Decoder) any { return d.Quad() }, [16]byte{0x3f, 0xff}},
	{"true", []byte{0, 0, 0, 1},
		func(b []byte) ([]byte, error) { return xdr.AppendBool(b, true), nil },
		func(d *xdr.Decoder) any { return d.Bool() }, true},
	{"false", []byte{0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendBool(b, false), nil },
		func(d *xdr.Decoder) any { return d.Bool() }, false},
	{"string", []byte{0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o', 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendString(b, "hello", 5) },
		func(d *xdr.Decoder) any { return d.String(5) }, "hello"},
	{"string without padding", []byte{0, 0, 0, 4, 'f', 'o', 'u', 'r'},
		func(b []byte) ([]byte, error) { return xdr.AppendString(b, "four", 255) },
		func(d *xdr.Decoder) any { return d.String(255) }, "four"},
	{"empty string", []byte{0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendString(b, "", 0) },
		func(d *xdr.Decoder) any { return d.String(0) }, ""},
	{"opaque", []byte{0, 0, 0, 2, 1, 2, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendOpaque(b, []byte{1, 2}, 2) },
		func(d *xdr.Decoder) any { return d.Opaque(2) }, []byte{1, 2}},
	{"empty opaque", []byte{0, 0, 0, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendOpaque(b, nil, 2) },
		func(d *xdr.Decoder) any { return d.Opaque(2) }, []byte(nil)},
	{"fixed opaque", []byte{7, 8, 9, 0},
		func(b []byte) ([]byte, error) { return xdr.AppendFixedOpaque(b, []byte{7, 8, 9}), nil },
		func(d *xdr.Decoder) any { var a [3]byte; d.FixedOpaque(a[:]); return a }, [3]byte{7, 8, 9}},
}

func TestPrimitives(t *testing.T) {
	for _, p := range primitives {
		t.Run(p.name, func(t *testing.T) {
			b, err := p.enc(nil)
			require.NoError(t, err)
			require.Equal(t, p.bytes, b)
			dirty := append(make([]byte, 0, 64), strings.Repeat("\xff", 64)...)
			b, err = p.enc(dirty[:3])
			require.NoError(t, err)
			require.Equal(t, p.bytes, b[3:], "into a buffer that was used before")

			d := xdr.NewDecoder(p.bytes)
			require.Equal(t, p.want, p.dec(d))
			require.NoError(t, d.Err())
			require.Zero(t, d.Len())
			require.Equal(t, len(p.bytes), d.Offset())
		})
	}
}

func TestTruncatedAtEveryByte(t *testing.T) {
	for _, p := range primitives {
		for n := range len(p.bytes) {
			d := xdr.NewDecoder(p.bytes[:n])
			p.dec(d)
			require.ErrorIs(t, d.Err(), xdr.ErrShort, "%s, %d bytes", p.name, n)
			var e *xdr.Error
			require.ErrorAs(t, d.Err(), &e)
			require.LessOrEqual(t, e.Offset, n)
			require.Zero(t, d.Len())
			require.Zero(t, d.Uint32(), "after an error")
		}
	}
}

func TestBoundExceededByOne(t *testing.T) {
	b, err := xdr.AppendString([]byte{9}, "abc", 2)
	require.ErrorIs(t, err, xdr.ErrTooLong)
	require.Equal(t, []byte{9}, b)
	b, err = xdr.AppendOpaque([]byte{9}, []byte("abc"), 2)
	require.ErrorIs(t, err, xdr.ErrTooLong)
	require.Equal(t, []byte{9}, b)
	b, err = xdr.AppendArrayLen([]byte{9}, 3, 2)
	require.ErrorIs(t, err, xdr.ErrTooLong)
	require.Equal(t, []byte{9}, b)

	three := []byte{0, 0, 0, 3, 'a', 'b', 'c', 0}
	for name, read := range map[string]func(d *xdr.Decoder){
		"string": func(d *xdr.Decoder) { require.Empty(t, d.String(2)) },
		"opaque": func(d *xdr.Decoder) { require.Nil(t, d.Opaque(2)) },
		"array":  func(d *xdr.Decoder) { require.Zero(t, d.ArrayLen(2, 1)) },
	} {
		d := xdr.NewDecoder(three)
		read(d)
		require.ErrorIs(t, d.Err(), xdr.ErrTooLong, name)
		require.ErrorContains(t, d.Err(), "at most 2", name)
	}
}

// A length word alone must cost nothing, whatever it says.
func TestHugeLengthAllocatesNothing(t *testing.T) {
	for _, n := range []uint32{math.MaxUint32, math.MaxUint32 - 1, math.MaxUint32 - 2, math.MaxUint32 - 3, 1 << 31, 1<<31 - 1, 0x7fffffd0, 0x3fffffff} {
		b := append(xdr.AppendUint32(nil, n), make([]byte, 16)...)
		for name, read := range map[string]func(d *xdr.Decoder){
			"string":               func(d *xdr.Decoder) { require.Empty(t, d.String(math.MaxUint32)) },
			"opaque":               func(d *xdr.Decoder) { require.Nil(t, d.Opaque(math.MaxUint32)) },
			"array of 4 bytes":     func(d *xdr.Decoder) { require.Zero(t, d.ArrayLen(math.MaxUint32, 4)) },
			"array of many bytes":  func(d *xdr.Decoder) { require.Zero(t, d.ArrayLen(math.MaxUint32, 1<<30)) },
			"array of single byte": func(d *xdr.Decoder) { require.Zero(t, d.ArrayLen(math.MaxUint32, 1)) },
		} {
			got := allocated(func() {
				d := xdr.NewDecoder(b)
				read(d)
				require.ErrorIs(t, d.Err(), xdr.ErrShort, "%s, length %d", name, n)
			})
			require.Less(t, got, uint64(64<<10), "%s, length %d", name, n)
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestStrictAndLax(t *testing.T) {
	for _, c := range []struct {
		name   string
		bytes  []byte
		read   func(d *xdr.Decoder) any
		lax    any
		err    error
		offset int
	}{
		{"bool 2", []byte{0, 0, 0, 2}, func(d *xdr.Decoder) any { return d.Bool() }, true, xdr.ErrBool, 0},
		{"list flag 2", []byte{0, 0, 0, 2}, func(d *xdr.Decoder) any { return d.More() }, true, xdr.ErrBool, 0},
		{"char 128", []byte{0, 0, 0, 128}, func(d *xdr.Decoder) any { return d.Int8() }, int8(-128), xdr.ErrRange, 0},
		{"unsigned char 300", []byte{0, 0, 1, 44}, func(d *xdr.Decoder) any { return d.Uint8() }, uint8(44), xdr.ErrRange, 0},
		{"short -32769", []byte{0xff, 0xff, 0x7f, 0xff}, func(d *xdr.Decoder) any { return d.Int16() }, int16(32767), xdr.ErrRange, 0},
		{"unsigned short 70000", []byte{0, 1, 0x11, 0x70}, func(d *xdr.Decoder) any { return d.Uint16() }, uint16(4464), xdr.ErrRange, 0},
		{"first padding byte", []byte{0, 0, 0, 1, 'a', 1, 0, 0}, func(d *xdr.Decoder) any { return d.String(9) }, "a", xdr.ErrPadding, 5},
		{"last padding byte", []byte{0, 0, 0, 1, 'a', 0, 0, 1}, func(d *xdr.Decoder) any { return d.String(9) }, "a", xdr.ErrPadding, 5},
		{"one padding byte", []byte{0, 0, 0, 3, 1, 2, 3, 4}, func(d *xdr.Decoder) any { return d.Opaque(9) }, []byte{1, 2, 3}, xdr.ErrPadding, 7},
		{"fixed opaque", []byte{1, 2, 3, 4}, func(d *xdr.Decoder) any { var a [2]byte; d.FixedOpaque(a[:]); return a }, [2]byte{1, 2}, xdr.ErrPadding, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := xdr.NewDecoder(c.bytes)
			c.read(d)
			var e *xdr.Error
			require.ErrorAs(t, d.Err(), &e)
			require.ErrorIs(t, e, c.err)
			require.Equal(t, c.offset, e.Offset)

			d.Lax = true
			d.Reset(c.bytes)
			require.Equal(t, c.lax, c.read(d))
			require.NoError(t, d.Err())
		})
	}
}

// A string that is the one before again is held to its own bound.
func TestSameStringAgain(t *testing.T) {
	same := []byte{0, 0, 0, 3, 'a', 'b', 'c', 0}
	b := append(append(append([]byte{}, same...), same...), same[:6]...)
	d := xdr.NewDecoder(b)
	require.Equal(t, "abc", d.String(3))
	require.Equal(t, "abc", d.String(3))
	require.Empty(t, d.String(3))
	require.ErrorIs(t, d.Err(), xdr.ErrShort)
	d.Reset(b)
	require.Equal(t, "abc", d.String(3))
	require.Empty(t, d.String(2))
	require.ErrorIs(t, d.Err(), xdr.ErrTooLong)
	b[15] = 1 // padding of the second
	d.Reset(b)
	require.Equal(t, "abc", d.String(3))
	require.Empty(t, d.String(3))
	require.ErrorIs(t, d.Err(), xdr.ErrPadding)
}

// Long opaque data are copied in parts, and are all there.
func TestLongOpaque(t *testing.T) {
	for _, n := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<18 + 3, 1 << 22} {
		v := make([]byte, n)
		for i := range v {
			v[i] = byte(i >> 3 * i)
		}
		b, err := xdr.AppendOpaque([]byte("in front"), v, math.MaxUint32)
		require.NoError(t, err)
		require.Len(t, b, 8+4+(n+3)&^3)
		d := xdr.NewDecoder(b[8:])
		require.True(t, string(v) == string(d.Opaque(math.MaxUint32)), n)
		require.NoError(t, d.Err())
	}
}

func TestFirstErrorStays(t *testing.T) {
	d := xdr.NewDecoder([]byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3})
	require.True(t, d.Bool())
	require.False(t, d.Bool())
	first := d.Err()
	d.Fail(errors.New("another"))
	require.Zero(t, d.Uint64())
	require.Zero(t, d.ArrayLen(9, 4))
	require.Empty(t, d.String(9))
	require.Nil(t, d.Rest())
	require.False(t, d.Enter())
	require.False(t, d.More())
	require.Equal(t, first, d.Err())
	require.EqualError(t, first, "xdr: byte 4: bool 2: neither 0 nor 1")
}

func TestOpaqueIsCopiedUnlessAlias(t *testing.T) {
	b := []byte{0, 0, 0, 4, 1, 2, 3, 4}
	d := xdr.NewDecoder(b)
	v := d.Opaque(4)
	b[4] = 9
	require.Equal(t, []byte{1, 2, 3, 4}, v)
	d.Alias = true
	d.Reset(b)
	v = d.Opaque(4)
	b[4] = 8
	require.Equal(t, []byte{8, 2, 3, 4}, v)
	require.Equal(t, 4, cap(v), "append to it must not write into the input")
}

func TestDepth(t *testing.T) {
	d := xdr.NewDecoder(make([]byte, 4))
	for range xdr.MaxDepth {
		require.True(t, d.Enter())
	}
	d.Leave()
	require.True(t, d.Enter())
	require.False(t, d.Enter())
	require.ErrorIs(t, d.Err(), xdr.ErrDepth)
}

func TestRest(t *testing.T) {
	d := xdr.NewDecoder([]byte{0, 0, 0, 1, 2, 3})
	require.Equal(t, uint32(1), d.Uint32())
	require.Equal(t, []byte{2, 3}, d.Rest())
	require.Zero(t, d.Len())
	require.Empty(t, d.Rest())
	require.NoError(t, d.Err())
	d.Uint32()
	require.ErrorIs(t, d.Err(), xdr.ErrShort)
	var zero xdr.Decoder
	require.NoError(t, zero.Err())
	require.Zero(t, zero.Len())
}

// word is a value of one unsigned int.
type word struct{ v uint32 }

func (w word) AppendXDR(b []byte) ([]byte, error) { return xdr.AppendUint32(b, w.v), nil }
func (w *word) DecodeXDR(d *xdr.Decoder) error    { w.v = d.Uint32(); return d.Err() }

func TestMarshal(t *testing.T) {
	b, err := xdr.Marshal(word{7})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 7}, b)
	var w word
	require.NoError(t, xdr.Unmarshal(b, &w))
	require.Equal(t, word{7}, w)
	require.ErrorIs(t, xdr.Unmarshal(append(b, 0), &w), xdr.ErrTrailing)
	require.ErrorIs(t, xdr.Unmarshal(b[:3], &w), xdr.ErrShort)

	_, err = xdr.Marshal(xdr.AppendFunc(func(b []byte) ([]byte, error) { return xdr.AppendString(b, "long", 3) }))
	require.ErrorIs(t, err, xdr.ErrTooLong)
	var s string
	require.NoError(t, xdr.Unmarshal([]byte{0, 0, 0, 1, 'x', 0, 0, 0}, xdr.DecodeFunc(func(d *xdr.Decoder) error {
		s = d.String(1)
		return d.Err()
	})))
	require.Equal(t, "x", s)
}
