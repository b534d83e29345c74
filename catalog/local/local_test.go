package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"starfish/catalog"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("CATALOG_TEST_WRITER"); path != "" {
		writeUntilKilled(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// opened is a catalog and its log.
type opened struct {
	catalog.Catalog
	log *Log
}

func open(t testing.TB, path string) opened {
	l, err := OpenLog(path, Config{})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return opened{catalog.Over(l), l}
}

// cluster opens a new catalog with three slaves and a static one.
func cluster(t testing.TB) (c opened, path string) {
	path = filepath.Join(t.TempDir(), "data", "catalog.db")
	c = open(t, path)
	for i, addr := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		s := catalog.Slave{Addr: addr, Protocol: 2}
		if p := int32(i - 1); i > 0 {
			s.Priority = &p
		}
		require.NoError(t, c.AddSlave(t.Context(), s, nil))
	}
	require.NoError(t, c.AddSlave(t.Context(), catalog.Slave{Addr: "c", Protocol: 1}, []catalog.Span{{First: 90, Last: 99}}))
	return c, path
}

// put begins and finishes a put.
func put(t testing.TB, c catalog.Catalog, id uint64, holders ...string) uint64 {
	in, err := c.Begin(context.Background(), catalog.Intent{ID: id, Holders: holders, Bytes: id})
	require.NoError(t, err)
	require.NoError(t, c.Finish(context.Background(), id, in.Revision))
	return in.Revision
}

// view is all that a snapshot shows.
func view(s *catalog.Snapshot) (slaves []catalog.Slave, members []catalog.Member, intents []catalog.Intent) {
	s.Ascend(0, math.MaxUint64, func(m catalog.Member) bool {
		members = append(members, m)
		return true
	})
	return s.Slaves(), members, s.Intents()
}

func TestRestart(t *testing.T) {
	c, path := cluster(t)
	ctx := t.Context()
	put(t, c, 1, "127.0.0.2", "127.0.0.3")
	put(t, c, math.MaxUint64, "127.0.0.4")
	put(t, c, 2, "127.0.0.4")
	in, err := c.Begin(ctx, catalog.Intent{ID: 3, Holders: []string{"127.0.0.3", "127.0.0.2"}, Pinned: true, Name: "Land=\xff", Bytes: 77})
	require.NoError(t, err)
	require.NoError(t, c.Finish(ctx, 3, in.Revision))
	in, err = c.Begin(ctx, catalog.Intent{ID: 2, Op: catalog.Delete, Holders: []string{"127.0.0.4"}})
	require.NoError(t, err)
	require.NoError(t, c.Finish(ctx, 2, in.Revision))
	open1, err := c.Begin(ctx, catalog.Intent{ID: 4, Holders: []string{"127.0.0.2"}, Pinned: true, Name: "A=B", Bytes: 5})
	require.NoError(t, err)
	open2, err := c.Begin(ctx, catalog.Intent{ID: 1, Op: catalog.Delete, Holders: []string{"127.0.0.2", "127.0.0.3"}})
	require.NoError(t, err)
	c.Confirm(4, open1.Revision, "127.0.0.2")
	c.SetState("127.0.0.2", catalog.Serving, "")
	c.SetInventory("127.0.0.2", []uint64{1}, 4)
	before := c.Snapshot()
	slaves, members, intents := view(before)
	placed, _, err := before.HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	c = open(t, path)
	after := c.Snapshot()
	slaves2, members2, intents2 := view(after)
	require.Equal(t, members, members2)
	require.Len(t, members, 13)
	require.Equal(t, before.Epoch(), after.Epoch())
	placed2, _, err := after.HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.Equal(t, placed, placed2)
	for i := range slaves {
		want := slaves[i]
		want.State, want.Missing, want.SetAside = catalog.Joining, 0, 0
		require.Equal(t, want, slaves2[i])
	}
	for i := range intents {
		want := intents[i]
		want.Confirmed, want.Seen = nil, true
		require.Equal(t, want, intents2[i])
	}
	require.NoError(t, c.Abort(ctx, 1, open2.Revision))
	require.NoError(t, c.Finish(ctx, 4, open1.Revision))
	require.Greater(t, put(t, c, 5, "127.0.0.2"), open2.Revision)
	m, ok := c.Snapshot().Member(4)
	require.True(t, ok)
	require.Equal(t, catalog.Member{ID: 4, Name: "A=B", Bytes: 5, Holders: []string{"127.0.0.2"}, Pinned: true}, m)
}

func TestSlotKeepsItsSlaves(t *testing.T) {
	c, path := cluster(t)
	put(t, c, 7, "127.0.0.4") // the first of its slot
	sibling := uint64(8)
	for catalog.Slot(sibling) != catalog.Slot(7) {
		sibling++
	}
	for range 2 {
		holders, pinned, err := c.Snapshot().HoldersFor(sibling, nil, 2)
		require.NoError(t, err)
		require.False(t, pinned)
		require.Equal(t, []string{"127.0.0.4"}, holders)
		require.NoError(t, c.AddSlave(t.Context(), catalog.Slave{Addr: "127.0.0.9", Protocol: 2}, nil))
		require.NoError(t, c.Close())
		c = open(t, path)
	}
	pinned, err := c.Begin(t.Context(), catalog.Intent{ID: 500, Pinned: true, Holders: []string{"127.0.0.9"}})
	require.NoError(t, err)
	require.NoError(t, c.Finish(t.Context(), 500, pinned.Revision))
	other := uint64(501)
	for catalog.Slot(other) != catalog.Slot(500) {
		other++
	}
	holders, _, err := c.Snapshot().HoldersFor(other, nil, 1)
	require.NoError(t, err)
	require.Equal(t, catalog.Place(other, c.Snapshot().Slaves(), 1), holders, "a pin decides for nobody else")
}

func TestRefusals(t *testing.T) {
	c, _ := cluster(t)
	ctx := t.Context()
	for name, x := range map[string]struct {
		in catalog.Intent
		is error
	}{
		"NoHolders":    {catalog.Intent{ID: 1}, catalog.ErrInvalid},
		"UnknownSlave": {catalog.Intent{ID: 1, Holders: []string{"127.0.0.2", "nobody"}}, catalog.ErrUnknownSlave},
		"StaticSlave":  {catalog.Intent{ID: 1, Holders: []string{"c"}}, catalog.ErrStatic},
		"StaticVector": {catalog.Intent{ID: 95, Holders: []string{"127.0.0.2"}}, catalog.ErrStatic},
		"LongName":     {catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}, Name: string(make([]byte, 513))}, catalog.ErrInvalid},
		"NoSuchOp":     {catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}, Op: 7}, catalog.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Begin(ctx, x.in)
			require.ErrorIs(t, err, x.is)
		})
	}
	in, err := c.Begin(ctx, catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}})
	require.NoError(t, err)
	newer, err := c.Begin(ctx, catalog.Intent{ID: 1, Holders: []string{"127.0.0.3"}})
	require.NoError(t, err)
	require.Greater(t, newer.Revision, in.Revision)
	require.ErrorIs(t, c.Finish(ctx, 1, in.Revision), catalog.ErrSuperseded)
	require.ErrorIs(t, c.Abort(ctx, 1, in.Revision), catalog.ErrSuperseded)
	require.NoError(t, c.Finish(ctx, 1, newer.Revision))
	require.ErrorIs(t, c.Finish(ctx, 1, newer.Revision), catalog.ErrSuperseded)
	require.ErrorIs(t, c.AddSlave(ctx, catalog.Slave{Addr: "127.0.0.3", Protocol: 1}, []catalog.Span{{First: 1, Last: 1}}), catalog.ErrProtocol)
	require.ErrorIs(t, c.AddSlave(ctx, catalog.Slave{Addr: "x y", Protocol: 2}, nil), catalog.ErrInvalid)

	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Begin(done, catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}})
	if err != nil { // a commit that wins the race is right as well
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Begin(ctx, catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}})
	require.ErrorIs(t, err, catalog.ErrClosed)
	require.EqualValues(t, 11, c.Snapshot().Known(), "the last view stays")
}

func TestEpochAndChanged(t *testing.T) {
	c, _ := cluster(t)
	ctx := t.Context()
	epoch, changed := c.Snapshot().Epoch(), c.Changed()
	require.EqualValues(t, 4, epoch)
	require.NoError(t, c.AddSlave(ctx, catalog.Slave{Addr: "127.0.0.2", Protocol: 2}, nil))
	require.NoError(t, c.AddSlave(ctx, catalog.Slave{Addr: "c", Protocol: 1}, []catalog.Span{{First: 95, Last: 99}, {First: 90, Last: 94}}))
	c.SetState("127.0.0.2", catalog.Joining, "")
	select {
	case <-changed:
		t.Fatal("nothing changed")
	default:
	}
	c.SetState("127.0.0.2", catalog.Serving, "")
	<-changed
	p := int32(3)
	require.NoError(t, c.AddSlave(ctx, catalog.Slave{Addr: "127.0.0.2", Protocol: 2, Priority: &p}, nil))
	require.Equal(t, epoch+1, c.Snapshot().Epoch())
	s, _ := c.Snapshot().Slave("127.0.0.2")
	require.EqualValues(t, 3, *s.Priority)
	require.Equal(t, catalog.Serving, s.State)
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	bolt := func(name string, f func(tx *bbolt.Tx) error) string {
		path := filepath.Join(dir, name)
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(f))
		require.NoError(t, db.Close())
		return path
	}
	changed := func(name string, f func(tx *bbolt.Tx) error) string {
		return bolt(name, func(tx *bbolt.Tx) error { return errors.Join(create(tx), f(tx)) })
	}
	for name, x := range map[string]struct {
		path string
		is   error
	}{
		"Text":          {file("text", []byte("these are no vectors\n")), catalog.ErrForeign},
		"Zeros":         {file("zeros", make([]byte, 1<<16)), catalog.ErrForeign},
		"Another":       {bolt("another", func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("vectors")); return err }), catalog.ErrForeign},
		"Newer":         {changed("newer", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Meta).Put(keyFormat, key64(format+1)) }), catalog.ErrNewer},
		"NoFormat":      {changed("noformat", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Meta).Delete(keyFormat) }), catalog.ErrForeign},
		"NoRevision":    {changed("norevision", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Meta).Delete([]byte("revision")) }), catalog.ErrForeign},
		"NoBucket":      {changed("nobucket", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(catalog.Intents.String())) }), catalog.ErrForeign},
		"DamagedMember": {changed("member", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Members).Put(key64(1), []byte{0, 1, 200}) }), catalog.ErrForeign},
		"StrangeHolder": {changed("holder", func(tx *bbolt.Tx) error {
			return bucket(tx, catalog.Members).Put(key64(1), []byte{0, 0, 1, 9})
		}), catalog.ErrForeign},
		"DamagedIntent": {changed("intent", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Intents).Put(key64(1), nil) }), catalog.ErrForeign},
		"DamagedSlot":   {changed("slot", func(tx *bbolt.Tx) error { return bucket(tx, catalog.SlotSlaves).Put([]byte{0xff, 0xff}, []byte{0}) }), catalog.ErrForeign},
		"DamagedSlave":  {changed("slave", func(tx *bbolt.Tx) error { return bucket(tx, catalog.Slaves).Put([]byte("a"), []byte("{")) }), catalog.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(x.path, Config{})
			require.ErrorIs(t, err, x.is)
			require.ErrorContains(t, err, x.path)
		})
	}
	t.Run("Locked", func(t *testing.T) {
		path := filepath.Join(dir, "locked")
		open(t, path)
		_, err := Open(path, Config{LockTimeout: time.Millisecond})
		require.ErrorIs(t, err, catalog.ErrLocked)
	})
	t.Run("CreatedAndNotFilled", func(t *testing.T) {
		open(t, bolt("unfilled", func(*bbolt.Tx) error { return nil }))
		open(t, file("empty", nil))
	})
}

// Writers of the same and of other ids, with readers beside them.
func TestManyAtOnce(t *testing.T) {
	c, path := cluster(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			s := c.Snapshot()
			n := uint64(0)
			s.Ascend(0, math.MaxUint64, func(catalog.Member) bool { n++; return true })
			require.Equal(t, s.Known(), n)
			s.UnderReplicated(2)
			s.Unavailable()
		}
	})
	var mu sync.Mutex
	revisions := map[uint64]bool{}
	var writers sync.WaitGroup
	for w := range uint64(16) {
		writers.Go(func() {
			for i := range uint64(10) {
				id := w*100 + i%5
				if i%2 == 0 {
					id = 1000000 + i // with all the others
				}
				in, err := c.Begin(ctx, catalog.Intent{ID: id, Holders: []string{fmt.Sprintf("127.0.0.%d", 2+w%3)}})
				require.NoError(t, err)
				mu.Lock()
				require.False(t, revisions[in.Revision])
				revisions[in.Revision] = true
				mu.Unlock()
				c.Confirm(id, in.Revision, in.Holders[0])
				c.SetState(in.Holders[0], catalog.State(i%3), "")
				if err := c.Finish(ctx, id, in.Revision); err != nil {
					require.ErrorIs(t, err, catalog.ErrSuperseded)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	wg.Wait()
	_, members, intents := view(c.Snapshot())
	require.NoError(t, c.Close())
	_, members2, intents2 := view(open(t, path).Snapshot())
	require.Equal(t, members, members2)
	require.Equal(t, len(intents), len(intents2))
}

// A slave may hold a revision of another catalog: the new one is above it, and
// the counter stays there, also after a restart.
func TestRevisionAboveASlaves(t *testing.T) {
	c, path := cluster(t)
	first := put(t, c, 1, "127.0.0.2")
	in, err := c.Begin(t.Context(), catalog.Intent{ID: 2, Holders: []string{"127.0.0.2"}, Revision: first + 1000})
	require.NoError(t, err)
	require.Equal(t, first+1001, in.Revision)
	_, err = c.Begin(t.Context(), catalog.Intent{ID: 3, Holders: []string{"127.0.0.2"}, Revision: math.MaxUint64})
	require.ErrorIs(t, err, catalog.ErrInvalid)
	require.NoError(t, c.Close())
	require.Equal(t, first+1002, put(t, open(t, path), 4, "127.0.0.2"))
}
