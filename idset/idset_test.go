package idset

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func of(ids ...uint64) *Set {
	s := &Set{}
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		ids  []uint64
		want []byte
	}{
		{nil, nil},
		{[]uint64{0}, []byte{0, 0}},
		{[]uint64{7}, []byte{7, 0}},
		{[]uint64{7, 8, 9}, []byte{7, 2}},
		{[]uint64{7, 8, 10}, []byte{7, 1, 0, 0}},
		{[]uint64{0, 200}, []byte{0, 0, 0xc6, 0x01, 0}},
		{[]uint64{math.MaxUint64}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}},
	} {
		s := of(c.ids...)
		require.Equal(t, c.want, s.Bytes(), "%v", c.ids)
		require.Equal(t, uint64(len(c.ids)), s.Len())
		e, err := Parse(s.Bytes(), 10)
		require.NoError(t, err)
		require.Equal(t, c.ids, slices.Collect(e.All()))
		require.Equal(t, uint64(len(c.ids)), e.Len())
	}
}

func TestASpanTakesAFewBytes(t *testing.T) {
	s := &Set{}
	s.AddSpan(1000, 500_999)
	require.Len(t, s.Bytes(), 5)
	require.Equal(t, uint64(500_000), s.Len())
	s.Add(500_999) // the last one again
	require.Equal(t, uint64(500_000), s.Len())
}

func TestAddOutOfOrderPanics(t *testing.T) {
	require.Panics(t, func() { of(2, 1) })
	require.Panics(t, func() { of(1, 3, 2) })
	require.Panics(t, func() { (&Set{}).AddSpan(2, 1) })
	require.Panics(t, func() { s := of(5); s.AddSpan(5, 6) })
}

func TestParseRefuses(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	for name, data := range map[string][]byte{
		"half a span":         {7},
		"a cut varint":        {0x80},
		"a long varint":       slices.Concat(slices.Repeat([]byte{0x80}, 10), []byte{1, 0}),
		"a span past the end": slices.Concat(huge, []byte{1}),
		"a gap past the end":  slices.Concat([]byte{5, 0}, huge, []byte{0}),
		"after the last id":   slices.Concat(huge, []byte{0, 0, 0}),
		"too many":            {0, 100},
		"too many in spans":   {0, 40, 0, 40, 0, 40},
	} {
		_, err := Parse(data, 100)
		require.ErrorIs(t, err, ErrBytes, name)
	}
	_, err := Parse([]byte{0, 99}, 100)
	require.NoError(t, err)
}

func TestSetsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 50), rapid.Uint64Min(math.MaxUint64-3))).Draw(t, "ids")
		slices.Sort(ids)
		s := of(ids...)
		want := slices.Compact(ids)
		e, err := Parse(s.Bytes(), math.MaxUint64)
		require.NoError(t, err)
		require.Equal(t, uint64(len(want)), e.Len())
		if len(want) > 0 {
			require.Equal(t, want, slices.Collect(e.All()))
		}
		last := uint64(0)
		for first, end := range e.Spans() {
			require.True(t, last == 0 || first > last+1, "spans do not touch")
			last = end
		}
	})
}

// FuzzParse: what is taken is an ascending set of so many ids.
func FuzzParse(f *testing.F) {
	for _, s := range []*Set{of(), of(0), of(1, 2, 3), of(9, 1000, 1<<40)} {
		f.Add(s.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse(data, 1000)
		if err != nil {
			return
		}
		s, n := &Set{}, uint64(0)
		for id := range e.All() {
			s.Add(id)
			n++
		}
		require.Equal(t, n, e.Len())
		require.Equal(t, n, s.Len())
	})
}
