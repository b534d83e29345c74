package vector

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func set(rows []uint32) map[uint32]bool {
	m := map[uint32]bool{}
	for _, r := range rows {
		m[r] = true
	}
	return m
}

func sorted(m map[uint32]bool) []uint32 {
	return append([]uint32{}, slices.Sorted(maps.Keys(m))...)
}

// rowsGen draws sets of every container kind: scattered rows, runs, dense blocks.
func rowsGen(t *rapid.T, label string) []uint32 {
	var rows []uint32
	for range rapid.IntRange(0, 4).Draw(t, label+" parts") {
		base := rapid.SampledFrom([]uint32{0, 1, 60, 65530, 1 << 20, 1<<32 - 70000}).Draw(t, label+" base")
		n := rapid.IntRange(0, 6000).Draw(t, label+" n")
		step := rapid.SampledFrom([]uint32{1, 1, 2, 7, 11}).Draw(t, label+" step")
		for i := range n {
			rows = append(rows, base+uint32(i)*step)
		}
	}
	return rows
}

func TestBitmapAgreesWithMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rowsGen(t, "a"), rowsGen(t, "b")
		sa, sb := set(a), set(b)
		or, and := maps.Clone(sa), map[uint32]bool{}
		for r := range sb {
			or[r] = true
			if sa[r] {
				and[r] = true
			}
		}
		x := New(a...)
		x.Or(New(b...))
		require.Equal(t, sorted(or), x.Rows(0, 0))
		require.Equal(t, uint64(len(or)), x.Count())
		require.True(t, x.Equal(OrAll([]*Bitmap{New(a...), New(b...), New(), New(a...)})))
		y := New(a...)
		y.And(New(b...))
		require.Equal(t, sorted(and), append([]uint32{}, y.Rows(0, 0)...))

		back, err := ReadRoaring(x.AppendRoaring(nil))
		require.NoError(t, err)
		require.True(t, back.Equal(x))
		x.Optimize()
		back, err = ReadRoaring(x.AppendRoaring([]byte("abc"))[3:])
		require.NoError(t, err)
		require.True(t, back.Equal(x))

		first := rapid.Uint64Range(0, 1<<33).Draw(t, "first")
		limit := rapid.Uint64Range(0, 9000).Draw(t, "limit")
		want := []uint32{}
		for _, r := range sorted(or) {
			if uint64(r) >= first && (limit == 0 || uint64(len(want)) < limit) {
				want = append(want, r)
			}
		}
		require.Equal(t, want, append([]uint32{}, x.Rows(first, limit)...))
		require.Equal(t, slices.Collect(New(want...).All()), slices.Collect(x.Page(first, limit).All()))
	})
}

func TestBitmapWords(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words []uint64
		rows  []uint32
		word  uint64
		fits  bool
	}{
		{"empty", nil, nil, 0, true},
		{"zeros", []uint64{0, 0, 0}, nil, 0, true},
		{"one word", []uint64{1<<63 | 5}, []uint32{0, 2, 63}, 1<<63 | 5, true},
		{"trailing zeros", []uint64{6, 0, 0}, []uint32{1, 2}, 6, true},
		{"row 64", []uint64{1, 1}, []uint32{0, 64}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := FromWords(tt.words)
			require.NoError(t, err)
			require.True(t, b.Equal(New(tt.rows...)))
			word, fits := b.Word()
			require.Equal(t, tt.fits, fits)
			require.Equal(t, tt.word, word)
			require.Equal(t, int(b.WordCount()), len(b.Words()))
			if n := len(b.Words()); n > 0 {
				require.NotZero(t, b.Words()[n-1])
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		b := New(rapid.SliceOfN(rapid.Uint32Range(0, 200000), 0, 50).Draw(t, "rows")...)
		back, err := FromWords(b.Words())
		require.NoError(t, err)
		require.True(t, back.Equal(b))
	})
	require.True(t, FromWord(1<<40|1).Equal(New(0, 40)))
	require.True(t, FromWord(0).IsEmpty())
}

func TestFromWordsDoesNotKeepItsArgument(t *testing.T) {
	words := make([]uint64, 1024)
	for i := range words {
		words[i] = ^uint64(0)
	}
	b, err := FromWords(words)
	require.NoError(t, err)
	words[0] = 0
	require.Equal(t, uint64(65536), b.Count())
}

func TestHighestRow(t *testing.T) {
	b := New(1<<32 - 1)
	require.Equal(t, []uint32{1<<32 - 1}, b.Rows(1<<32-1, 10))
	require.Empty(t, b.Rows(1<<32, 10))
	require.Equal(t, uint64(MaxWords), b.WordCount())
	b.AddRange(0, 1<<32-1)
	require.Equal(t, uint64(1)<<32, b.Count())
	require.Equal(t, []uint32{1<<32 - 2, 1<<32 - 1}, b.Rows(1<<32-2, 5))
	require.Equal(t, uint64(1)<<32, b.Page(0, 1<<32).Count())
}

// TestOptimizedBytesAreCanonical: the store compares copies by checksum.
func TestOptimizedBytesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rowsGen(t, "rows")
		a := New(rows...)
		words, err := FromWords(New(rows...).Page(0, 0).Clone().wordsBelow(1 << 22))
		require.NoError(t, err)
		high := New(rows...).Page(1<<22, 0)
		b := OrAll([]*Bitmap{high, words})
		c, err := ReadRoaring(a.AppendRoaring(nil))
		require.NoError(t, err)
		for _, x := range []*Bitmap{a, b, c} {
			x.Optimize()
		}
		require.Equal(t, a.AppendRoaring(nil), b.AppendRoaring(nil))
		require.Equal(t, a.AppendRoaring(nil), c.AppendRoaring(nil))
	})
}

func (b *Bitmap) wordsBelow(row uint32) []uint64 {
	words := make([]uint64, row/64)
	for r := range b.All() {
		if r < row {
			words[r/64] |= 1 << (r % 64)
		}
	}
	return words
}

// stream builders for the refusal table; little-endian 16-bit words.
func le(words ...uint16) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint16(b, w)
	}
	return b
}

func TestReadRoaring(t *testing.T) {
	bitmap := func(card uint16, first uint64) []byte {
		b := le(12346, 0, 1, 0, 0, card-1, 16, 0)
		b = binary.LittleEndian.AppendUint64(b, first)
		for range 1023 {
			b = binary.LittleEndian.AppendUint64(b, 0x1111111111111111)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		data []byte
		rows []uint32 // nil: refused
	}{
		{"Empty", le(12346, 0, 0, 0), []uint32{}},
		{"NoBytes", nil, nil},
		{"Array", le(12346, 0, 1, 0, 2, 1, 16, 0, 3, 9), []uint32{2<<16 + 3, 2<<16 + 9}},
		{"RunContainer", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 1, 7, 2)...), []uint32{1, 2, 7, 8, 9}},
		{"RunTouchesNext", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 1, 3, 2)...), nil},
		{"RunOverlapsNext", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 4, 3, 2)...), nil},
		{"RunsDescend", append(append(le(12347, 0), 1), le(0, 4, 2, 7, 2, 1, 1)...), nil},
		{"RunPastTheEnd", append(append(le(12347, 0), 1), le(0, 9, 1, 65530, 9)...), nil},
		{"RunToTheEnd", append(append(le(12347, 0), 1), le(0, 1, 1, 65534, 1)...), []uint32{65534, 65535}},
		{"NoRuns", append(append(le(12347, 0), 1), le(0, 0, 0)...), nil},
		{"RunsOfOtherCardinality", append(append(le(12347, 0), 1), le(0, 5, 2, 1, 1, 7, 2)...), nil},
		{"ArrayUnsorted", le(12346, 0, 1, 0, 2, 1, 16, 0, 9, 3), nil},
		{"ArrayRepeats", le(12346, 0, 1, 0, 2, 1, 16, 0, 9, 9), nil},
		{"ArrayShort", le(12346, 0, 1, 0, 2, 2, 16, 0, 3, 9), nil},
		{"TrailingBytes", le(12346, 0, 1, 0, 2, 0, 16, 0, 3, 9), nil},
		{"WrongOffset", le(12346, 0, 1, 0, 2, 1, 17, 0, 3, 9), nil},
		{"KeysDescend", le(12346, 0, 2, 0, 2, 0, 1, 0, 24, 0, 26, 0, 3, 9), nil},
		{"KeysRepeat", le(12346, 0, 2, 0, 2, 0, 2, 0, 24, 0, 26, 0, 3, 9), nil},
		{"TooManyContainers", le(12346, 0, 1, 1), nil},
		{"HugeCount", le(12346, 0, 0xffff, 0xffff), nil},
		{"Cookie", le(12345, 0, 0, 0), nil},
		{"BitmapOfOtherCardinality", bitmap(16384, 0x1111111111111110), nil},
		{"NotRoaring", []byte("ID: 1 2 3\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := ReadRoaring(tt.data)
			if tt.rows == nil {
				require.ErrorIs(t, err, ErrBitmap)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.rows, append([]uint32{}, b.Rows(0, 0)...))
		})
	}
	b, err := ReadRoaring(bitmap(16384, 0x1111111111111111))
	require.NoError(t, err)
	require.Equal(t, uint64(16384), b.Count())
}

func TestReadRoaringDoesNotKeepItsArgument(t *testing.T) {
	data := New(1, 2, 3).AppendRoaring(nil)
	b, err := ReadRoaring(data)
	require.NoError(t, err)
	clear(data)
	require.Equal(t, []uint32{1, 2, 3}, b.Rows(0, 0))
}

// TestReadRoaringOfManyRuns: comparing all pairs of 32768 runs takes a second a
// container.
func TestReadRoaringOfManyRuns(t *testing.T) {
	data := append(le(12347, 2), 7)
	for key := range uint16(3) {
		data = append(data, le(key, 32767)...)
	}
	for range 3 {
		data = append(data, le(32768)...)
		for i := range uint16(32768) {
			data = append(data, le(2*i, 0)...)
		}
	}
	b, err := ReadRoaring(data)
	require.NoError(t, err)
	require.Equal(t, uint64(3*32768), b.Count())
	b.Optimize()
	back, err := ReadRoaring(b.AppendRoaring(nil))
	require.NoError(t, err)
	require.True(t, back.Equal(b))
}

// FuzzReadRoaring: our walk and roaring's Validate agree on what is a stream,
// and what was read can be used.
func FuzzReadRoaring(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.hex")
	require.NoError(f, err)
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		data, err := hex.DecodeString(string(text[:len(text)-1]))
		require.NoError(f, err, name)
		f.Add(data)
	}
	f.Add(New().AppendRoaring(nil))
	f.Add(New(1, 2, 3, 70000, 1<<32-1).AppendRoaring(nil))
	dense := New()
	for i := range uint32(5000) {
		dense.Add(i * 3)
	}
	f.Add(dense.AppendRoaring(nil))
	runs := New(5)
	runs.AddRange(100, 300000)
	runs.Optimize()
	f.Add(runs.AppendRoaring(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		b, err := ReadRoaring(data)
		var rb roaring.Bitmap
		n, rerr := rb.FromBuffer(data)
		if rerr == nil {
			rerr = rb.Validate()
		}
		if err != nil {
			require.ErrorIs(t, err, ErrBitmap)
			return // ours also refuses wrong offsets, cardinalities and trailing bytes
		}
		require.NoError(t, rerr)
		require.Equal(t, int64(len(data)), n)
		sum := New(1, 100000)
		sum.Or(b)
		require.GreaterOrEqual(t, sum.Count(), b.Count())
		sum.And(b)
		require.True(t, sum.Equal(b))
		back, err := ReadRoaring(b.AppendRoaring(nil))
		require.NoError(t, err)
		require.True(t, back.Equal(b))
	})
}

func TestIDSet(t *testing.T) {
	s := NewIDSet(9, 3, 1<<40)
	s.AddRange(1<<64-3, 1<<64-1)
	s.AddRange(5, 4)
	s.Remove(3)
	require.True(t, s.Contains(1<<64-1))
	require.False(t, s.Contains(3))
	require.Equal(t, uint64(5), s.Count())
	o := s.Clone()
	o.Or(NewIDSet(4))
	o.Add(5)
	var got []uint64
	o.Ascend(5, 1<<64-2, func(id uint64) bool { got = append(got, id); return true })
	require.Equal(t, []uint64{5, 9, 1 << 40, 1<<64 - 3, 1<<64 - 2}, got)
	got = nil
	o.Ascend(0, 1<<64-1, func(id uint64) bool { got = append(got, id); return len(got) < 2 })
	require.Equal(t, []uint64{4, 5}, got)
	require.False(t, s.Contains(4))
}

func BenchmarkOrAll(b *testing.B) {
	for _, density := range []float64{0.001, 0.01, 0.1, 0.5} {
		var all []*Bitmap
		var rbs []*roaring.Bitmap
		var words [][]uint64
		for i := range 100 {
			x := New()
			step := 1 / density
			for r := float64(i % 7); r < 1e6; r += step {
				x.Add(uint32(r))
			}
			all, rbs, words = append(all, x), append(rbs, &x.rb), append(words, x.Words())
		}
		b.Run(fmt.Sprintf("%v/ours", density), func(b *testing.B) {
			for b.Loop() {
				OrAll(all)
			}
		})
		b.Run(fmt.Sprintf("%v/FastOr", density), func(b *testing.B) {
			for b.Loop() {
				roaring.FastOr(rbs...)
			}
		})
		b.Run(fmt.Sprintf("%v/ParOr", density), func(b *testing.B) {
			for b.Loop() {
				roaring.ParOr(0, rbs...)
			}
		})
		b.Run(fmt.Sprintf("%v/words", density), func(b *testing.B) {
			for b.Loop() {
				sum := make([]uint64, 15626)
				for _, w := range words {
					for i, v := range w {
						sum[i] |= v
					}
				}
			}
		})
	}
}
