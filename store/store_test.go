package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Config{LockTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreKeepsVectors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "vectors.db")
	s := openStore(t, path)
	big := vector.New()
	big.AddRange(10, 3_000_000)
	vectors := map[uint64]*vector.Bitmap{0: vector.New(), 7: vector.New(1, 2, 70000), 1<<64 - 1: big}
	for id, rows := range vectors {
		held, err := s.Put(id, 5, rows)
		require.NoError(t, err)
		require.Equal(t, uint64(5), held)
	}
	held, err := s.Delete(9, 6)
	require.NoError(t, err)
	require.Equal(t, uint64(6), held)
	check := func(s *Store) {
		for id, rows := range vectors {
			v, err := s.Get(id)
			require.NoError(t, err)
			require.Equal(t, uint64(5), v.Revision)
			require.True(t, v.Rows.Equal(rows))
		}
		v, err := s.Get(9)
		require.NoError(t, err)
		require.Equal(t, Vector{Revision: 6, Deleted: true}, v)
		v, err = s.Get(10)
		require.NoError(t, err)
		require.Equal(t, Vector{Deleted: true}, v)
	}
	check(s)
	require.NoError(t, s.Close())
	_, err = s.Put(1, 1, vector.New())
	require.ErrorIs(t, err, ErrClosed)
	s = openStore(t, path)
	check(s)

	items, more, err := s.Inventory(0, 3)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, items, 3)
	require.Equal(t, uint64(3), items[1].Count)
	require.Equal(t, Item{ID: 9, Revision: 6, Deleted: true}, items[2])
	items, more, err = s.Inventory(items[2].ID+1, 3)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, items, 1)
	require.Equal(t, uint64(1<<64-1), items[0].ID)
	require.Less(t, items[0].Bytes, uint64(1000), "runs are stored as runs")
}

func TestStoreRevisions(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	put := func(rev uint64, rows ...uint32) (uint64, error) { return s.Put(1, rev, vector.New(rows...)) }
	for _, step := range []struct {
		name string
		do   func() (uint64, error)
		held uint64
		err  error
		rows []uint32
	}{
		{"first", func() (uint64, error) { return put(10, 1) }, 10, nil, []uint32{1}},
		{"higher", func() (uint64, error) { return put(12, 2) }, 12, nil, []uint32{2}},
		{"lower", func() (uint64, error) { return put(11, 3) }, 12, nil, []uint32{2}},
		{"equal", func() (uint64, error) { return put(12, 2) }, 12, nil, []uint32{2}},
		{"equal with other rows", func() (uint64, error) { return put(12, 4) }, 0, ErrClash, []uint32{2}},
		{"lower delete", func() (uint64, error) { return s.Delete(1, 11) }, 12, nil, []uint32{2}},
		{"equal delete", func() (uint64, error) { return s.Delete(1, 12) }, 0, ErrClash, []uint32{2}},
		{"higher delete", func() (uint64, error) { return s.Delete(1, 13) }, 13, nil, nil},
		{"lower put after delete", func() (uint64, error) { return put(12, 2) }, 13, nil, nil},
		{"equal delete again", func() (uint64, error) { return s.Delete(1, 13) }, 13, nil, nil},
		{"higher put after delete", func() (uint64, error) { return put(14, 5) }, 14, nil, []uint32{5}},
	} {
		held, err := step.do()
		require.ErrorIs(t, err, step.err, step.name)
		if step.err == nil {
			require.Equal(t, step.held, held, step.name)
		}
		v, err := s.Get(1)
		require.NoError(t, err)
		require.Equal(t, step.rows == nil, v.Deleted, step.name)
		if step.rows != nil {
			require.Equal(t, step.rows, v.Rows.Rows(0, 0), step.name)
		}
	}
}

func TestStoreOrInto(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	want := vector.New(77)
	var ids []uint64
	var wg sync.WaitGroup
	for i := range uint64(700) {
		rows := vector.New(uint32(i), uint32(i*i), uint32(i%3)<<16)
		if i%100 == 0 {
			rows.AddRange(uint32(i), uint32(i)+5000)
		}
		want.Or(rows)
		ids = append(ids, i*3, i*3)
		wg.Go(func() {
			_, err := s.Put(i*3, 1, rows)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	before := fmt.Sprint(ids)
	got := vector.New(77)
	absent, err := s.OrInto(t.Context(), ids, got)
	require.NoError(t, err)
	require.Empty(t, absent)
	require.Equal(t, before, fmt.Sprint(ids), "the argument is not changed")
	require.True(t, want.Equal(got))

	_, err = s.Delete(30, 2)
	require.NoError(t, err)
	rest := vector.New()
	absent, err = s.OrInto(t.Context(), []uint64{30, 3, 1, 30, 5000}, rest)
	require.NoError(t, err)
	require.Equal(t, []Absent{{1, 0}, {30, 2}, {5000, 0}}, absent)
	require.Equal(t, []uint32{1, 1 << 16}, rest.Rows(0, 0), "the vector 3, which is there")

	// What was read does not change with the store.
	require.NoError(t, s.Close())
	require.True(t, want.Equal(got))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s = openStore(t, s.file.Path())
	_, err = s.OrInto(ctx, ids, vector.New())
	require.ErrorIs(t, err, context.Canceled)
}

func TestStoreReadsAreCopies(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	rows := vector.New()
	for i := range uint32(20000) {
		rows.Add(i * 5)
	}
	for id := range uint64(3) {
		_, err := s.Put(id, 1, rows)
		require.NoError(t, err)
	}
	v, err := s.Get(1)
	require.NoError(t, err)
	sum := vector.New()
	_, err = s.OrInto(t.Context(), []uint64{0, 1, 2}, sum)
	require.NoError(t, err)
	for i := range uint64(50) { // reuse the pages
		_, err := s.Put(i%3, 2+i, vector.New(uint32(i)))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close()) // and unmap them
	require.True(t, v.Rows.Equal(rows))
	require.True(t, sum.Equal(rows))
}

func TestConcurrentPutsShareCommits(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	before := s.file.Writes()
	var wg sync.WaitGroup
	for id := range uint64(200) {
		wg.Go(func() {
			_, err := s.Put(id, 1, vector.New(uint32(id)))
			require.NoError(t, err)
		})
	}
	wg.Wait()
	require.Less(t, s.file.Writes()-before, int64(400), "far fewer page writes than puts need alone")
}

func TestRecordBytes(t *testing.T) {
	rec := newRecord(7, 3, vector.New(5))
	require.Equal(t, uint64(3), binary.BigEndian.Uint64(rec))
	require.Equal(t, uint64(1), binary.BigEndian.Uint64(rec[8:]))
	require.Equal(t, vector.New(5).AppendRoaring(nil), rec[headerSize:])
	require.Len(t, newRecord(7, 3, nil), headerSize)
}
