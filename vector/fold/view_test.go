package fold

import (
	"context"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"
)

// words is little-endian 16-bit words.
func words(all ...uint16) (b []byte) {
	for _, w := range all {
		b = le.AppendUint16(b, w)
	}
	return b
}

// run is a stream of one container, key 0, of runs.
func run(rows uint16, rest ...uint16) []byte {
	return append(append(words(cookieRuns, 0), 1), words(append([]uint16{0, rows - 1}, rest...)...)...)
}

func TestParse(t *testing.T) {
	bitmap := make([]byte, bitmapBytes)
	for _, tt := range []struct {
		name string
		data []byte
		rows int // -1: refused
	}{
		{"Empty", words(cookieNoRuns, 0, 0, 0), 0},
		{"NoBytes", nil, -1},
		{"HalfCookie", words(cookieNoRuns), -1},
		{"NoCount", words(cookieNoRuns, 0), -1},
		{"OtherCookie", words(12345, 0, 0, 0), -1},
		{"CookieNoRunsWithMore", words(cookieNoRuns, 1, 0, 0), -1},
		{"TooManyContainers", words(cookieNoRuns, 0, 1, 1), -1},
		{"HugeCount", words(cookieNoRuns, 0, 0xffff, 0xffff), -1},
		{"HeaderShort", words(cookieNoRuns, 0, 1, 0, 2, 1, 16), -1},
		{"Array", words(cookieNoRuns, 0, 1, 0, 2, 1, 16, 0, 3, 9), 2},
		{"ArrayUnsorted", words(cookieNoRuns, 0, 1, 0, 2, 1, 16, 0, 9, 3), 2},
		{"ArrayRepeats", words(cookieNoRuns, 0, 1, 0, 2, 1, 16, 0, 9, 9), 2},
		{"ArrayShort", words(cookieNoRuns, 0, 1, 0, 2, 2, 16, 0, 3, 9), -1},
		{"TrailingBytes", words(cookieNoRuns, 0, 1, 0, 2, 0, 16, 0, 3, 9), -1},
		{"WrongOffset", words(cookieNoRuns, 0, 1, 0, 2, 1, 17, 0, 3, 9), -1},
		{"OffsetOfBillions", words(cookieNoRuns, 0, 1, 0, 2, 1, 16, 0xffff, 3, 9), -1},
		{"Keys", words(cookieNoRuns, 0, 2, 0, 2, 0, 3, 0, 24, 0, 26, 0, 3, 9), 2},
		{"KeysDescend", words(cookieNoRuns, 0, 2, 0, 2, 0, 1, 0, 24, 0, 26, 0, 3, 9), -1},
		{"KeysRepeat", words(cookieNoRuns, 0, 2, 0, 2, 0, 2, 0, 24, 0, 26, 0, 3, 9), -1},
		{"Bitmap", append(words(cookieNoRuns, 0, 1, 0, 2, 4096, 16, 0), bitmap...), 4097},
		{"BitmapShort", append(words(cookieNoRuns, 0, 1, 0, 2, 4096, 16, 0), bitmap[1:]...), -1},
		{"Run", run(5, 2, 1, 1, 7, 2), 5},
		{"RunTouchesNext", run(5, 2, 1, 1, 3, 2), -1},
		{"RunOverlapsNext", run(5, 2, 1, 4, 3, 2), -1},
		{"RunsDescend", run(5, 2, 7, 2, 1, 1), -1},
		{"RunPastTheEnd", run(10, 1, 65530, 9), -1},
		{"RunPastTheEndByOne", run(2, 1, 65535, 1), -1},
		{"RunToTheEnd", run(2, 1, 65534, 1), 2},
		{"NoRuns", run(1, 0), -1},
		{"RunsOfOtherCardinality", run(6, 2, 1, 1, 7, 2), -1},
		{"RunsShort", run(5, 3, 1, 1, 7, 2), -1},
		{"NoNumberOfRuns", run(5), -1},
		{"NoRunFlags", words(cookieRuns, 0), -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Parse(tt.data)
			if tt.rows < 0 {
				require.ErrorIs(t, err, ErrBytes)
				require.Equal(t, View{}, v)
				return
			}
			require.NoError(t, err)
			require.Equal(t, uint64(tt.rows), v.Rows())
		})
	}
}

// TestParseTakesNothingShorter: all that is cut off is missed.
func TestParseTakesNothingShorter(t *testing.T) {
	for _, s := range shapes {
		b := roaring.BitmapOf(1<<32-1, 5<<16)
		s.fill(b, 7<<16, rng(9))
		b.RunOptimize()
		data, _ := serialize(t, b)
		for cut := 0; cut < len(data); cut += 1 + cut/100 {
			_, err := Parse(data[:cut])
			require.ErrorIs(t, err, ErrBytes, "%s cut at %d of %d", s.name, cut, len(data))
		}
	}
}

// TestFind is about streams with and without offsets, and the empty ones.
func TestFind(t *testing.T) {
	require.Zero(t, View{}.Len())
	_, ok := View{}.Find(0)
	require.False(t, ok)
	g := NewGather(1)
	g.Add(0, View{})
	count, err := g.Count(t.Context(), 0, Keys)
	require.NoError(t, err)
	require.Zero(t, count)
	for n := range 6 {
		for _, runs := range []bool{false, true} {
			b := roaring.New()
			for i := range uint64(n) {
				b.AddRange(i<<17, i<<17+i+1)
				if runs {
					b.AddRange(i<<17+1000, i<<17+2000)
				}
			}
			b.RunOptimize()
			_, v := serialize(t, b)
			require.Equal(t, n, v.Len())
			for i := range n {
				c, ok := v.Find(uint16(2 * i))
				require.True(t, ok)
				require.Equal(t, v.At(i), c)
				want := i + 1
				if runs {
					want += 1000
				}
				require.Equal(t, want, c.Rows)
				require.Equal(t, runs, c.Kind == Run && len(c.Data) == runBytes(2))
				_, ok = v.Find(uint16(2*i + 1))
				require.False(t, ok)
			}
		}
	}
}

// frame is one of one record: range 1, key 5, rows.
func frame(rows, kind uint16, rest ...uint16) []byte {
	b := le.AppendUint32(nil, frameCookie)
	return append(b, words(append([]uint16{1, 0, 1, 5, rows - 1, kind}, rest...)...)...)
}

func TestParseFrame(t *testing.T) {
	two := func(rng, key, rng2, key2 uint16) []byte {
		b := le.AppendUint32(nil, frameCookie)
		return append(b, words(2, 0, rng, key, 0, 0, 8, rng2, key2, 0, 0, 9)...)
	}
	bitmap := make([]byte, bitmapBytes)
	for _, tt := range []struct {
		name string
		data []byte
		ok   bool
	}{
		{"Nothing", nil, false},
		{"NoRecord", append(le.AppendUint32(nil, frameCookie), 0, 0, 0, 0), true},
		{"OtherCookie", append(le.AppendUint32(nil, frameCookie+1), 0, 0, 0, 0), false},
		{"Array", frame(2, 0, 8, 9), true},
		{"ArrayShort", frame(3, 0, 8, 9), false},
		{"ArrayLong", frame(1, 0, 8, 9), false},
		{"ArrayOf4097", append(frame(4097, 0), make([]byte, 2*4097)...), false},
		{"Bitmap", append(frame(3, 1), bitmap...), true},
		{"BitmapShort", append(frame(3, 1), bitmap[2:]...), false},
		{"Run", frame(5, 2, 2, 1, 1, 7, 2), true},
		{"RunPastTheEnd", frame(10, 2, 1, 65530, 9), false},
		{"RunsOfOtherCardinality", frame(4, 2, 2, 1, 1, 7, 2), false},
		{"NoNumberOfRuns", frame(4, 2), false},
		{"OtherKind", frame(2, 3, 8, 9), false},
		{"KindOf16Bits", frame(2, 256, 8, 9), false},
		{"RecordMissing", append(le.AppendUint32(nil, frameCookie), 1, 0, 0, 0), false},
		{"RecordsMissing", append(le.AppendUint32(nil, frameCookie), 255, 255, 255, 255), false},
		{"RangeTwice", two(1, 5, 1, 5), true},
		{"RangesAscend", two(0, 5, 1, 5), true},
		{"RangesDescend", two(1, 5, 0, 5), false},
		{"KeysAscend", two(1, 5, 0, 6), true},
		{"KeysDescend", two(0, 6, 0, 5), false},
		{"RangeTooHigh", two(0, 5, 2, 5), false},
		{"KeyTooLow", two(0, 4, 0, 5), false},
		{"KeyTooHigh", two(0, 5, 0, 7), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFrame(tt.data, 2, 5, 7)
			if !tt.ok {
				require.ErrorIs(t, err, ErrBytes)
				require.Equal(t, Frame{}, f)
				return
			}
			require.NoError(t, err)
			for cut := range len(tt.data) {
				_, err := ParseFrame(tt.data[:cut], 2, 5, 7)
				require.ErrorIs(t, err, ErrBytes)
			}
			g := NewGather(2)
			g.AddFrame(f)
			_, err = g.Append(t.Context(), nil, 0, Keys)
			require.NoError(t, err)
		})
	}
	f, err := ParseFrame(frame(2, 0, 8, 9), 2, 5, 7)
	require.NoError(t, err)
	require.Panics(t, func() { NewGather(1).AddFrame(f) })
}

// TestLegKeepsContainers: what is smaller than a bitmap goes out as it came in;
// small arrays are gathered; and what is larger is one container.
func TestLegKeepsContainers(t *testing.T) {
	r := rng(11)
	a, b, tiny := roaring.New(), roaring.New(), roaring.New()
	scatter(a, 0, r, 1000, 1<<16)
	b.AddRange(500, 900)
	b.RunOptimize()
	scatter(tiny, 0, r, 5, 1<<16)
	g := gather(t, [][]*roaring.Bitmap{{a, b, tiny, tiny}})
	kinds := func() (kinds []Kind, sizes []int) {
		data, next, err := g.Leg(context.Background(), nil, 0, 1, LegBytes)
		require.NoError(t, err)
		require.Equal(t, 1, next)
		f, err := ParseFrame(data, 1, 0, 1)
		require.NoError(t, err)
		for off := frameHead; off < len(data); {
			_, c, err := f.record(off)
			require.NoError(t, err)
			kinds, sizes = append(kinds, c.Kind), append(sizes, len(c.Data))
			off += recordHead + len(c.Data)
		}
		return kinds, sizes
	}
	got, sizes := kinds()
	require.Equal(t, []Kind{Array, Run, Array}, got)
	require.Equal(t, []int{2 * int(a.GetCardinality()), runBytes(1), 2 * int(tiny.GetCardinality())}, sizes)
	for range 4 {
		more := roaring.New()
		scatter(more, 0, r, 2000, 1<<16)
		_, v := serialize(t, more)
		g.Add(0, v)
	}
	got, sizes = kinds()
	require.Equal(t, []Kind{Bitmap}, got)
	require.Equal(t, []int{bitmapBytes}, sizes)
}

// TestBitmapOfFewRows: only a frame can have one.
func TestBitmapOfFewRows(t *testing.T) {
	bitmap := make([]byte, bitmapBytes)
	bitmap[0], bitmap[100], bitmap[bitmapBytes-1] = 1, 1, 1
	f, err := ParseFrame(append(frame(3, 1), bitmap...), 2, 5, 7)
	require.NoError(t, err)
	g := NewGather(2)
	g.AddFrame(f)
	g.AddRows(1, 5<<16|7)
	g.AddRows(0, 5<<16|7, 5<<16|800, 5<<16|801)
	count, err := g.Count(t.Context(), 0, Keys)
	require.NoError(t, err)
	require.Equal(t, uint64(2), count)
}
