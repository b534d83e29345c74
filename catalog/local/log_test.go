package local

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// TestAppend: changes that are appended together are applied in their order, each
// with its verdict, and are on disk and seen by who watches when Append returns.
func TestAppend(t *testing.T) {
	c, path := cluster(t)
	var seen *catalog.Snapshot
	var touched []uint64
	c.log.Watch(func(now *catalog.Snapshot, ids []uint64) { seen, touched = now, ids })
	require.Same(t, c.log.Load(), seen)
	first := put(t, c, 1, "127.0.0.2")
	v, err := c.log.Append(t.Context(),
		catalog.Begin{ID: 2, Holders: []string{"127.0.0.2", "127.0.0.3"}},
		catalog.Finish{ID: 2, Revision: first + 1, InSync: []string{"127.0.0.3"}, Checksum: 5, Count: 6},
		catalog.Abort{ID: 2, Revision: first + 1},
		catalog.Remove{Addr: "127.0.0.4"},
	)
	require.NoError(t, err)
	require.Len(t, v, 4)
	require.Equal(t, catalog.Verdict{Revision: first + 1, Changed: true}, v[0])
	require.NoError(t, v[1].Err)
	require.ErrorIs(t, v[2].Err, catalog.ErrSuperseded)
	require.NoError(t, v[3].Err)
	require.Same(t, c.log.Load(), seen)
	require.Contains(t, touched, uint64(2))
	want := catalog.Written{Revision: first + 1, Checksum: 5, Count: 6, InSync: []string{"127.0.0.3"}}
	require.Equal(t, want, seen.Written(2))
	require.NoError(t, c.Close())
	c = open(t, path)
	require.Equal(t, want, c.Snapshot().Written(2))
	require.Len(t, c.Snapshot().Slaves(), 3)
}

// TestWhatIsAsItWasIsNotWritten: a slave joins again and again.
func TestWhatIsAsItWasIsNotWritten(t *testing.T) {
	c, _ := cluster(t)
	before := c.log.file.Writes()
	require.NoError(t, c.AddSlave(t.Context(), catalog.Slave{Addr: "127.0.0.2", Protocol: 2}, nil))
	require.ErrorIs(t, c.Finish(t.Context(), 1, 1), catalog.ErrSuperseded)
	require.Equal(t, before, c.log.file.Writes())
}

// TestACommitThatFails: its changes are not shown, and the next ones are made of
// what is on disk; what was sighted stays.
func TestACommitThatFails(t *testing.T) {
	c, path := cluster(t)
	ctx := t.Context()
	put(t, c, 1, "127.0.0.2")
	c.SetState("127.0.0.2", catalog.Serving, "")
	c.SetInventory("127.0.0.2", []uint64{1}, 3)
	before := c.Snapshot()
	intents := []byte(catalog.Intents.String())
	require.NoError(t, c.log.file.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(intents) }))
	_, err := c.Begin(ctx, catalog.Intent{ID: 2, Holders: []string{"127.0.0.2"}})
	require.Error(t, err)
	_, err = c.Begin(ctx, catalog.Intent{ID: 3, Holders: []string{"127.0.0.2"}})
	require.Error(t, err, "the file cannot be read again")
	require.Same(t, before, c.Snapshot())

	require.NoError(t, c.log.file.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(intents)
		return err
	}))
	put(t, c, 4, "127.0.0.3")
	s := c.Snapshot()
	require.Empty(t, s.Intents())
	require.Equal(t, before.Known()+1, s.Known())
	require.True(t, s.IsMissing("127.0.0.2", 1))
	sl, _ := s.Slave("127.0.0.2")
	require.Equal(t, catalog.Serving, sl.State)
	require.EqualValues(t, 3, sl.SetAside)
	want := contentOf(t, c)
	require.NoError(t, c.Close())
	got := contentOf(t, open(t, path))
	require.Equal(t, want.Members, got.Members)
	require.Equal(t, want.Revisions, got.Revisions)
}
