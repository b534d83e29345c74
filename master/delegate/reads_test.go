package delegate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReads(t *testing.T) {
	var r reads
	isPast := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	require.True(t, isPast(r.past()), "nobody reads")
	r.erased(1)
	a := r.begin()
	require.False(t, r.erasedSince(a, 1), "before it began")
	r.erased(2)
	b := r.begin()
	waitsAB := r.past()
	c := r.begin()
	require.True(t, r.erasedSince(a, 2))
	require.False(t, r.erasedSince(b, 2))
	r.erased(3)
	for _, q := range []*reading{a, b, c} {
		require.True(t, r.erasedSince(q, 3))
		require.False(t, r.erasedSince(q, 0))
	}
	waitsAll := r.past()
	r.end(b)
	require.False(t, isPast(waitsAB))
	r.end(a)
	require.True(t, isPast(waitsAB))
	require.False(t, isPast(waitsAll), "c began after the first wait and before this one")
	require.Equal(t, []uint64{3}, r.deletes, "nobody needs the other one")
	require.True(t, r.erasedSince(c, 3))
	r.end(c)
	require.True(t, isPast(waitsAll))
	require.Empty(t, r.deletes)
	require.Empty(t, r.deleted)
	require.Zero(t, r.open.Len())
}
