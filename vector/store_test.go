package vector

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, StoreConfig{LockTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreKeepsVectors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "vectors.db")
	s := openStore(t, path)
	big := New()
	big.AddRange(10, 3_000_000)
	vectors := map[uint64]*Bitmap{0: New(), 7: New(1, 2, 70000), 1<<64 - 1: big}
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
	_, err = s.Put(1, 1, New())
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
	put := func(rev uint64, rows ...uint32) (uint64, error) { return s.Put(1, rev, New(rows...)) }
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
	want := New(77)
	var ids []uint64
	var wg sync.WaitGroup
	for i := range uint64(700) {
		rows := New(uint32(i), uint32(i*i), uint32(i%3)<<16)
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
	got := New(77)
	missing, err := s.OrInto(t.Context(), ids, got)
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, before, fmt.Sprint(ids), "the argument is not changed")
	require.True(t, want.Equal(got))

	_, err = s.Delete(30, 2)
	require.NoError(t, err)
	missing, err = s.OrInto(t.Context(), []uint64{30, 3, 1, 30, 5000}, New())
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 30, 5000}, missing)

	// What was read does not change with the store.
	require.NoError(t, s.Close())
	require.True(t, want.Equal(got))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s = openStore(t, s.path)
	_, err = s.OrInto(ctx, ids, New())
	require.ErrorIs(t, err, context.Canceled)
}

func TestStoreReadsAreCopies(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	rows := New()
	for i := range uint32(20000) {
		rows.Add(i * 5)
	}
	for id := range uint64(3) {
		_, err := s.Put(id, 1, rows)
		require.NoError(t, err)
	}
	v, err := s.Get(1)
	require.NoError(t, err)
	sum := New()
	_, err = s.OrInto(t.Context(), []uint64{0, 1, 2}, sum)
	require.NoError(t, err)
	for i := range uint64(50) { // reuse the pages
		_, err := s.Put(i%3, 2+i, New(uint32(i)))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close()) // and unmap them
	require.True(t, v.Rows.Equal(rows))
	require.True(t, sum.Equal(rows))
}

// rawPut changes a record behind the store's back.
func rawPut(t *testing.T, path string, id uint64, change func([]byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(vectorsBucket)
		return b.Put(key(id), change(bytes.Clone(b.Get(key(id)))))
	}))
	require.NoError(t, db.Close())
}

func TestStoreFindsDamage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		heals  bool // the same put again repairs it
	}{
		{"row", func(b []byte) []byte { b[len(b)-1] ^= 4; return b }, true},
		{"revision", func(b []byte) []byte { b[7] ^= 1; return b }, false},
		{"tombstone flag", func(b []byte) []byte { b[31] ^= 1; return b }, false},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, true},
		{"no header", func(b []byte) []byte { return b[:12] }, false},
		{"another vector's record", func([]byte) []byte { return newRecord(8, 3, New(9)) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "v.db")
			s := openStore(t, path)
			for id := range uint64(3) {
				_, err := s.Put(id, 3, New(uint32(id), 60))
				require.NoError(t, err)
			}
			require.NoError(t, s.Close())
			rawPut(t, path, 1, tt.change)
			s = openStore(t, path)
			_, err := s.Get(1)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "vector 1:")
			missing, err := s.OrInto(t.Context(), []uint64{0, 1, 2}, New())
			require.NoError(t, err)
			require.Equal(t, []uint64{1}, missing)
			items, _, err := s.Inventory(0, 10)
			require.NoError(t, err)
			require.Len(t, items, 2)

			_, err = s.Put(1, 3, New(1, 60))
			if !tt.heals {
				require.ErrorIs(t, err, ErrCorrupt)
				return
			}
			require.NoError(t, err)
			items, _, err = s.Inventory(0, 10)
			require.NoError(t, err)
			require.Len(t, items, 3)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	write := func(t *testing.T, data []byte) string {
		path := filepath.Join(t.TempDir(), "v.db")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	t.Run("Locked", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		openStore(t, path)
		_, err := Open(path, StoreConfig{LockTimeout: time.Millisecond})
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorContains(t, err, path)
	})
	t.Run("NotADatabase", func(t *testing.T) {
		_, err := Open(write(t, bytes.Repeat([]byte("text\n"), 5000)), StoreConfig{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("OtherDatabase", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("mine")); return err }))
		require.NoError(t, db.Close())
		_, err = Open(path, StoreConfig{})
		require.ErrorIs(t, err, ErrFormat)
	})
	t.Run("LaterFormat", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		require.NoError(t, openStore(t, path).Close())
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(formatKey, []byte("starfish vectors 2"))
		}))
		require.NoError(t, db.Close())
		_, err = Open(path, StoreConfig{})
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, "starfish vectors 2")
	})
	t.Run("CutShort", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		s := openStore(t, path)
		rows := New()
		for i := range uint32(100000) {
			rows.Add(i * 3)
		}
		_, err := s.Put(1, 1, rows)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, os.Truncate(path, 16384))
		_, err = Open(path, StoreConfig{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("DirectoryIsAFile", func(t *testing.T) {
		_, err := Open(filepath.Join(write(t, nil), "v.db"), StoreConfig{})
		require.ErrorContains(t, err, "vector: making the store's directory")
	})
}

// TestStoreSurvivesDamagedPages: whatever bytes of the file change, the process
// lives and no answer is wrong.
func TestStoreSurvivesDamagedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.db")
	s := openStore(t, path)
	ids := []uint64{}
	for id := range uint64(300) {
		_, err := s.Put(id, 1, New(uint32(id), 1000+uint32(id)))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	require.NoError(t, s.Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		data := bytes.Clone(good)
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			data[rapid.IntRange(0, len(data)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "to")
		}
		path := filepath.Join(t.TempDir(), "v.db")
		require.NoError(rt, os.WriteFile(path, data, 0o600))
		s, err := Open(path, StoreConfig{LockTimeout: time.Millisecond})
		if err != nil {
			return
		}
		defer s.Close()
		for _, id := range ids {
			if v, err := s.Get(id); err == nil && !v.Deleted {
				require.Equal(rt, []uint32{uint32(id), 1000 + uint32(id)}, v.Rows.Rows(0, 0))
			}
		}
		sum := New()
		if missing, err := s.OrInto(context.Background(), ids, sum); err == nil && len(missing) == 0 {
			require.Equal(rt, uint64(600), sum.Count())
		}
		s.Inventory(0, 1000)
	})
}

// TestCrashKeepsWhatWasAcknowledged copies the file while puts run: what was
// acknowledged before the copy began is in it.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "v.db"))
	var mu sync.Mutex
	acked := map[uint64]uint64{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			for rev := uint64(1); ; rev++ {
				select {
				case <-stop:
					return
				default:
				}
				id := w<<8 | rev%5
				held, err := s.Put(id, rev, New(uint32(rev)))
				require.NoError(t, err)
				require.Equal(t, rev, held)
				mu.Lock()
				acked[id] = rev
				mu.Unlock()
			}
		})
	}
	for i := range 5 {
		require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) == 20 }, 10*time.Second, time.Millisecond)
		// A commit between the pages' writes and the copy would tear the copy, not
		// the file: bbolt's own transaction copies what is committed.
		mu.Lock()
		before := map[uint64]uint64{}
		for id, rev := range acked {
			before[id] = rev
		}
		mu.Unlock()
		path := filepath.Join(dir, fmt.Sprint("copy", i))
		require.NoError(t, s.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(path, 0o600) }))
		c := openStore(t, path)
		for id, rev := range before {
			v, err := c.Get(id)
			require.NoError(t, err)
			require.GreaterOrEqual(t, v.Revision, rev)
			require.Equal(t, []uint32{uint32(v.Revision)}, v.Rows.Rows(0, 0))
		}
		require.NoError(t, c.Close())
	}
	close(stop)
	wg.Wait()
}

func TestConcurrentPutsShareCommits(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "v.db"))
	before := s.db.Stats()
	var wg sync.WaitGroup
	for id := range uint64(200) {
		wg.Go(func() {
			_, err := s.Put(id, 1, New(uint32(id)))
			require.NoError(t, err)
		})
	}
	wg.Wait()
	after := s.db.Stats()
	require.Less(t, after.TxStats.GetWrite()-before.TxStats.GetWrite(), int64(400), "far fewer page writes than puts need alone")
}

func TestRecordBytes(t *testing.T) {
	rec := newRecord(7, 3, New(5))
	require.Equal(t, uint64(3), binary.BigEndian.Uint64(rec))
	require.Equal(t, uint64(1), binary.BigEndian.Uint64(rec[8:]))
	require.Equal(t, New(5).AppendRoaring(nil), rec[headerSize:])
	require.Len(t, newRecord(7, 3, nil), headerSize)
}
