package local

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// reopened closes the catalog and opens it again; it must show the same.
func reopened(t *testing.T, c opened, path string) opened {
	slaves, members, _ := view(c.Snapshot())
	epoch := c.Snapshot().Epoch()
	require.NoError(t, c.Close())
	c = open(t, path)
	again, membersAgain, _ := view(c.Snapshot())
	for i := range slaves {
		slaves[i].State = catalog.Joining
	}
	require.Equal(t, slaves, again)
	require.Equal(t, members, membersAgain)
	require.Equal(t, epoch, c.Snapshot().Epoch())
	return c
}

func static(addr string) catalog.Slave { return catalog.Slave{Addr: addr, Protocol: 1} }

// records counts what the file has in the bucket of members.
func records(t *testing.T, c opened) (n int) {
	require.NoError(t, c.log.file.View(func(tx *bbolt.Tx) error {
		n = bucket(tx, catalog.Members).Stats().KeyN
		return nil
	}))
	return n
}

func TestClaim(t *testing.T) {
	c, path := cluster(t)
	ctx := t.Context()
	put(t, c, 1, "127.0.0.2", "127.0.0.3")
	old := put(t, c, 2, "127.0.0.2")
	in, err := c.Begin(ctx, catalog.Intent{ID: 50, Holders: []string{"127.0.0.2"}})
	require.NoError(t, err)

	// Nobody gets in by chance: not over known ids, nor over open writes.
	for name, ids := range map[string]catalog.Span{"OursHolds": {First: 0, Last: 1}, "StaticHolds": {First: 95, Last: 200}, "Written": {First: 50, Last: 50}, "WrittenInside": {First: 3, Last: 60}} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, c.AddSlave(ctx, static("d"), []catalog.Span{ids}), catalog.ErrTaken)
			_, err := c.Claim(ctx, static("d"), catalog.Claim{IDs: []catalog.Span{ids}, Known: []uint64{0, 3}, Alone: true})
			require.ErrorIs(t, err, catalog.ErrTaken)
		})
	}
	require.NoError(t, c.Abort(ctx, 50, in.Revision))

	// One more holder.
	rev, err := c.Claim(ctx, static("d"), catalog.Claim{IDs: []catalog.Span{{First: 1, Last: 3}, {First: 99, Last: 99}}, Known: []uint64{1, 2, 99}})
	require.NoError(t, err)
	require.Zero(t, rev)
	m, _ := c.Snapshot().Member(1)
	require.Equal(t, []string{"127.0.0.2", "127.0.0.3", "d"}, m.Holders)
	require.Equal(t, []catalog.Span{{First: 3, Last: 3}}, c.Snapshot().OnlyHeld("d"))
	_, err = c.Begin(ctx, catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}})
	require.ErrorIs(t, err, catalog.ErrStatic)
	c = reopened(t, c, path)

	// The only one: the copies that others have are older than what is noted.
	rev, err = c.Claim(ctx, static("d"), catalog.Claim{IDs: []catalog.Span{{First: 2, Last: 3}, {First: 98, Last: 99}}, Known: []uint64{2, 98, 99}, Alone: true})
	require.NoError(t, err)
	require.Greater(t, rev, old)
	for _, id := range []uint64{2, 3, 98, 99} {
		m, _ := c.Snapshot().Member(id)
		require.Equal(t, []string{"d"}, m.Holders)
	}
	m, _ = c.Snapshot().Member(1)
	require.Equal(t, []string{"127.0.0.2", "127.0.0.3"}, m.Holders, "given up, and others have it")
	require.Equal(t, []catalog.Span{{First: 90, Last: 97}}, c.Snapshot().Spans("c"))
	revs, err := c.Revisions([]uint64{2, 98})
	require.NoError(t, err)
	require.Equal(t, []uint64{rev, rev}, revs)
	c = reopened(t, c, path)
	require.Equal(t, 4, records(t, c), "1, and 2, 98, 99 without holders")

	// Given up: forgotten, and put as new ones.
	require.NoError(t, c.AddSlave(ctx, static("d"), []catalog.Span{{First: 3, Last: 3}}))
	require.Equal(t, 1, records(t, c))
	_, known := c.Snapshot().Member(2)
	require.False(t, known)
	require.Greater(t, put(t, c, 2, "127.0.0.3"), rev)
	c = reopened(t, c, path)

	// Two that share: one may take all.
	_, err = c.Claim(ctx, static("c"), catalog.Claim{IDs: []catalog.Span{{First: 3, Last: 3}}, Known: []uint64{3}})
	require.NoError(t, err)
	_, err = c.Claim(ctx, static("c"), catalog.Claim{IDs: []catalog.Span{{First: 3, Last: 3}}, Known: []uint64{3}, Alone: true})
	require.NoError(t, err)
	require.Empty(t, c.Snapshot().Spans("d"))
	require.EqualValues(t, 3, c.Snapshot().Known())
	reopened(t, c, path)
}

func TestRemove(t *testing.T) {
	c, path := cluster(t)
	ctx := t.Context()
	put(t, c, 1, "127.0.0.2")
	_, err := c.Claim(ctx, static("c"), catalog.Claim{IDs: []catalog.Span{{First: 1, Last: 1}, {First: math.MaxUint64, Last: math.MaxUint64}}, Known: []uint64{1}})
	require.NoError(t, err)
	require.NoError(t, c.AddSlave(ctx, static("z"), []catalog.Span{{First: 7, Last: 7}}))
	epoch := c.Snapshot().Epoch()
	require.ErrorIs(t, c.Remove(ctx, "nobody", true), catalog.ErrUnknownSlave)
	require.ErrorIs(t, c.Remove(ctx, "c", false), catalog.ErrOnlyHolder)
	require.ErrorIs(t, c.Remove(ctx, "127.0.0.2", true), catalog.ErrServed)
	require.Equal(t, epoch, c.Snapshot().Epoch())

	before := c.Snapshot()
	require.NoError(t, c.Remove(ctx, "c", true))
	require.Greater(t, c.Snapshot().Epoch(), epoch)
	_, known := c.Snapshot().Slave("c")
	require.False(t, known)
	m, _ := c.Snapshot().Member(1)
	require.Equal(t, []string{"127.0.0.2"}, m.Holders)
	require.EqualValues(t, 2, c.Snapshot().Known())
	require.EqualValues(t, 3, before.Known(), "a snapshot stays what it was")
	m, _ = before.Member(1)
	require.Equal(t, []string{"127.0.0.2", "c"}, m.Holders)
	c = reopened(t, c, path)
	put(t, c, 1, "127.0.0.2")
	require.ErrorIs(t, c.AddSlave(ctx, static("e"), []catalog.Span{{First: 1, Last: 1}}), catalog.ErrTaken)

	// The last one in the order, and the one with the highest number.
	require.NoError(t, c.Remove(ctx, "z", true))
	require.NotPanics(t, func() { c.Snapshot().UnderReplicated(2); c.Snapshot().Unavailable() })

	// A slave of ours: not with a vector, a slot, or an open write.
	in, err := c.Begin(ctx, catalog.Intent{ID: 9, Pinned: true, Holders: []string{"127.0.0.3"}})
	require.NoError(t, err)
	require.ErrorIs(t, c.Remove(ctx, "127.0.0.3", true), catalog.ErrServed)
	require.NoError(t, c.Abort(ctx, 9, in.Revision))
	require.NoError(t, c.Remove(ctx, "127.0.0.3", false))
	in, err = c.Begin(ctx, catalog.Intent{ID: 9, Holders: []string{"127.0.0.4"}})
	require.NoError(t, err)
	require.NoError(t, c.Abort(ctx, 9, in.Revision))
	require.ErrorIs(t, c.Remove(ctx, "127.0.0.4", true), catalog.ErrServed, "it has a slot")
	_, err = c.Begin(ctx, catalog.Intent{ID: 9, Holders: []string{"127.0.0.3"}})
	require.ErrorIs(t, err, catalog.ErrUnknownSlave)
	c = reopened(t, c, path)
	require.Len(t, c.Snapshot().Slaves(), 2)

	// It comes back as a new one.
	require.NoError(t, c.AddSlave(ctx, catalog.Slave{Addr: "127.0.0.3", Protocol: 2}, nil))
	require.NoError(t, c.AddSlave(ctx, static("c"), []catalog.Span{{First: 90, Last: 90}}))
	put(t, c, 3, "127.0.0.3")
	m, _ = c.Snapshot().Member(3)
	require.Equal(t, []string{"127.0.0.3"}, m.Holders)
	reopened(t, c, path)
}
