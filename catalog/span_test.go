package catalog

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// elements lists the ids of spans within a small window at either end.
func elements(spans []Span) (ids []uint64) {
	eachID(spans, func(id uint64) { ids = append(ids, id) })
	return ids
}

func TestSpansAgainstSets(t *testing.T) {
	id := rapid.OneOf(rapid.Uint64Range(0, 30), rapid.Uint64Range(math.MaxUint64-30, math.MaxUint64))
	set := rapid.SliceOfDistinct(id, rapid.ID[uint64])
	of := func(ids []uint64) (spans []Span) {
		for _, id := range ids {
			spans = append(spans, Span{id, id})
		}
		return MergeSpans(spans)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := set.Draw(t, "a"), set.Draw(t, "b")
		sa, sb := of(a), of(b)
		require.EqualValues(t, len(a), CountIDs(sa))
		slices.Sort(a)
		require.Equal(t, len(a), len(elements(sa)))
		left := SubtractSpans(sa, sb)
		want := slices.DeleteFunc(slices.Clone(a), func(id uint64) bool { return slices.Contains(b, id) })
		require.True(t, slices.Equal(want, elements(left)), "%v without %v is %v", sa, sb, left)
		require.True(t, slices.Equal(MergeSpans(left), left), "in order: %v", left)
		require.True(t, slices.Equal(sa, of(a)))
	})
	all := []Span{{0, math.MaxUint64}}
	require.EqualValues(t, uint64(math.MaxUint64), CountIDs(all))
	require.EqualValues(t, uint64(math.MaxUint64), CountIDs([]Span{{0, math.MaxUint64 - 1}, {math.MaxUint64, math.MaxUint64}}))
	require.Empty(t, SubtractSpans(all, all))
	require.Equal(t, []Span{{0, 4}, {6, math.MaxUint64}}, SubtractSpans(all, []Span{{5, 5}}))
}
