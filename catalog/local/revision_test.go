package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
)

// TestRevisions: those of the last finished puts, also after a restart.
func TestRevisions(t *testing.T) {
	c, path := cluster(t)
	first := put(t, c, 5, "127.0.0.2")
	other := put(t, c, 7, "127.0.0.3")
	again := put(t, c, 5, "127.0.0.3")
	require.Greater(t, again, first)
	gone := put(t, c, 8, "127.0.0.2")
	del, err := c.Begin(t.Context(), catalog.Intent{ID: 8, Op: catalog.Delete, Holders: []string{"127.0.0.2"}})
	require.NoError(t, err)
	require.NoError(t, c.Finish(t.Context(), 8, del.Revision))
	require.Greater(t, del.Revision, gone)
	_, err = c.Begin(t.Context(), catalog.Intent{ID: 7, Holders: []string{"127.0.0.2"}}) // not finished
	require.NoError(t, err)
	ids := []uint64{0, 5, 6, 7, 8, 95, ^uint64(0)}
	want := []uint64{0, again, 0, other, 0, 0, 0} // 95 is a static slave's
	for range 2 {
		got, err := c.Revisions(ids)
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = c.Revisions(nil)
		require.NoError(t, err)
		require.Empty(t, got)
		require.NoError(t, c.Close())
		c = open(t, path)
	}
}
