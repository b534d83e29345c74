package vector

import (
	"maps"
	"slices"
	"testing"

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
	for range rapid.IntRange(0, 3).Draw(t, label+" parts") {
		base := rapid.SampledFrom([]uint32{0, 1, 60, 65530, 1 << 20, 1<<32 - 70000}).Draw(t, label+" base")
		n := rapid.SampledFrom([]int{0, 1, 7, 300, 5000}).Draw(t, label+" n")
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
			require.Equal(t, int(b.WordCount(0)), len(b.WordsAt(0)))
			if n := len(b.WordsAt(0)); n > 0 {
				require.NotZero(t, b.WordsAt(0)[n-1])
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		b := New(rapid.SliceOfN(rapid.Uint32Range(0, 200000), 0, 50).Draw(t, "rows")...)
		back, err := FromWords(b.WordsAt(0))
		require.NoError(t, err)
		require.True(t, back.Equal(b))

		first := rapid.Uint64Range(0, 4000).Draw(t, "first")
		all := append(b.WordsAt(0), make([]uint64, 4000)...)[first:]
		for len(all) > 0 && all[len(all)-1] == 0 {
			all = all[:len(all)-1]
		}
		at := b.WordsAt(first)
		require.Equal(t, all, append([]uint64{}, at...))
		require.EqualValues(t, len(all), b.WordCount(first))
		back, err = FromWordsAt(first, at)
		require.NoError(t, err)
		require.True(t, back.Equal(b.Page(64*first, 0)))
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
	require.Equal(t, uint64(MaxWords), b.WordCount(0))
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
		words, err := FromWords(New(rows...).Page(0, 0).Clone().wordsBelow(1 << 17))
		require.NoError(t, err)
		high := New(rows...).Page(1<<17, 0)
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
