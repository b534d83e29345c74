package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"starfish/vector"
)

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
		{"another vector's record", func([]byte) []byte { return newRecord(8, 3, vector.New(9)) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "v.db")
			s := openStore(t, path)
			for id := range uint64(3) {
				_, err := s.Put(id, 3, vector.New(uint32(id), 60))
				require.NoError(t, err)
			}
			require.NoError(t, s.Close())
			rawPut(t, path, 1, tt.change)
			s = openStore(t, path)
			_, err := s.Get(1)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "vector 1:")
			absent, err := s.OrInto(t.Context(), []uint64{0, 1, 2}, vector.New())
			require.NoError(t, err)
			require.Equal(t, []Absent{{ID: 1}}, absent, "what is damaged is no tombstone")
			n, first := s.Damaged()
			require.Equal(t, []uint64{1, 1}, []uint64{uint64(n), first})
			items, _, err := s.Inventory(0, 10)
			require.NoError(t, err)
			require.Len(t, items, 2)

			_, err = s.Put(1, 3, vector.New(1, 60))
			if !tt.heals {
				require.ErrorIs(t, err, ErrCorrupt)
				return
			}
			require.NoError(t, err)
			n, _ = s.Damaged()
			require.Zero(t, n, "put anew")
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
		_, err := Open(path, Config{LockTimeout: time.Millisecond})
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorContains(t, err, path)
	})
	t.Run("NotADatabase", func(t *testing.T) {
		_, err := Open(write(t, bytes.Repeat([]byte("text\n"), 5000)), Config{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("OtherDatabase", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("mine")); return err }))
		require.NoError(t, db.Close())
		_, err = Open(path, Config{})
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
		_, err = Open(path, Config{})
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, "starfish vectors 2")
	})
	t.Run("FormatOfADamagedPage", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		require.NoError(t, openStore(t, path).Close())
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(formatKey, bytes.Repeat([]byte{'x'}, 20_000))
		}))
		require.NoError(t, db.Close())
		_, err = Open(path, Config{})
		require.ErrorIs(t, err, ErrFormat)
		require.Less(t, len(err.Error())-len(path), 300)
	})
	t.Run("CutShort", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "v.db")
		s := openStore(t, path)
		rows := vector.New()
		for i := range uint32(100000) {
			rows.Add(i * 3)
		}
		_, err := s.Put(1, 1, rows)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, os.Truncate(path, 16384))
		_, err = Open(path, Config{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("DirectoryIsAFile", func(t *testing.T) {
		_, err := Open(filepath.Join(write(t, nil), "v.db"), Config{})
		require.ErrorContains(t, err, "disk: making the directory")
	})
}

// TestStoreSurvivesDamagedPages: whatever bytes of the file change, the process
// lives and no answer is wrong.
func TestStoreSurvivesDamagedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.db")
	s := openStore(t, path)
	ids := []uint64{}
	for id := range uint64(300) {
		_, err := s.Put(id, 1, vector.New(uint32(id), 1000+uint32(id)))
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
		s, err := Open(path, Config{LockTimeout: time.Millisecond})
		if err != nil {
			return
		}
		defer s.Close()
		for _, id := range ids {
			if v, err := s.Get(id); err == nil && !v.Deleted {
				require.Equal(rt, []uint32{uint32(id), 1000 + uint32(id)}, v.Rows.Rows(0, 0))
			}
		}
		sum := vector.New()
		if missing, err := s.OrInto(context.Background(), ids, sum); err == nil && len(missing) == 0 {
			require.Equal(rt, uint64(600), sum.Count())
		}
		s.Inventory(0, 1000)
	})
}

// TestKillKeepsWhatWasAcknowledged kills a process in the middle of its puts, a
// few times over: what it had acknowledged is there.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.db")
	acked := map[uint64]uint64{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPutForever$")
		cmd.Env = append(os.Environ(), "STARFISH_TEST_STORE="+path, fmt.Sprint("STARFISH_TEST_ROUND=", round))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var id, rev uint64
			if _, err := fmt.Sscanf(lines.Text(), "acked %d %d", &id, &rev); err == nil {
				acked[id] = max(acked[id], rev)
			}
			if n == 40+17*round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait())
		s := openStore(t, path)
		require.NotEmpty(t, acked)
		for id, rev := range acked {
			v, err := s.Get(id)
			require.NoError(t, err)
			require.GreaterOrEqual(t, v.Revision, rev)
			require.True(t, v.Rows.Equal(vector.New(uint32(id), uint32(v.Revision))))
		}
		require.NoError(t, s.Close())
	}
}

// TestPutForever is the process that is killed.
func TestPutForever(t *testing.T) {
	path := os.Getenv("STARFISH_TEST_STORE")
	if path == "" {
		t.Skip("run by TestKillKeepsWhatWasAcknowledged")
	}
	var round uint64
	fmt.Sscan(os.Getenv("STARFISH_TEST_ROUND"), &round)
	s := openStore(t, path)
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				id, rev := w<<8|i%5, round<<32|i
				if _, err := s.Put(id, rev, vector.New(uint32(id), uint32(rev))); err != nil {
					return
				}
				fmt.Printf("acked %d %d\n", id, rev)
			}
		})
	}
	wg.Wait()
}
