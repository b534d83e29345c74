package local

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

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

// TestFormat1: a file without revisions is read, and marked as no longer one.
func TestFormat1(t *testing.T) {
	c, path := cluster(t)
	put(t, c, 5, "127.0.0.2")
	require.NoError(t, c.Close())
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketMeta).Put(keyFormat, key64(1)),
			tx.Bucket(bucketMembers).Put(key64(5), []byte{1, 7, 1, 1, 'a'}), // pinned, 7 bytes, slave 1, name
		)
	}))
	require.NoError(t, db.Close())
	c = open(t, path)
	m, ok := c.Snapshot().Member(5)
	require.True(t, ok)
	require.Equal(t, catalog.Member{ID: 5, Name: "a", Bytes: 7, Holders: []string{"127.0.0.2"}, Pinned: true}, m)
	got, err := c.Revisions([]uint64{5})
	require.NoError(t, err)
	require.Equal(t, []uint64{0}, got)
	require.NoError(t, c.Close())
	db, err = bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		require.Equal(t, key64(format), tx.Bucket(bucketMeta).Get(keyFormat))
		return nil
	}))
}
