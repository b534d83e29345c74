package local

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// TestDamagedFile: a file that is cut short, or has lost a page, is an error, or is
// read for what it is; it never ends the process.
func TestDamagedFile(t *testing.T) {
	c, path := cluster(t)
	const n = 40
	for id := range uint64(n) { // a commit each
		_, err := c.Begin(t.Context(), catalog.Intent{ID: id, Holders: []string{"127.0.0.2"}, Name: "Kind=of a long name"})
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	try := func(data []byte) (intents int, err error) {
		broken := filepath.Join(t.TempDir(), "catalog.db")
		require.NoError(t, os.WriteFile(broken, data, 0o600))
		c, err := Open(broken, Config{})
		if err == nil {
			intents = len(c.Snapshot().Intents())
			_, _ = c.Begin(t.Context(), catalog.Intent{ID: 1, Holders: []string{"127.0.0.2"}}) // may fail, too
			_ = c.Close()
		}
		return intents, err
	}
	page := os.Getpagesize()
	for size := page; size <= len(whole); size += page {
		if intents, err := try(whole[:size]); err == nil { // the end of the file is not in use
			require.Equal(t, n, intents, "%d of %d bytes", size, len(whole))
		}
	}
	for at := 2 * page; at < len(whole); at += page { // the first two are checksummed by bbolt
		b := bytes.Clone(whole)
		clear(b[at : at+page])
		_, _ = try(b) // one that is not in use does no harm
	}
}

// TestFlippedBits: a file with another bit is refused, or says what it said before.
// The first two pages are left alone: bbolt has a checksum of each, and where the
// newer one is damaged it goes on with the state of one commit before.
func TestFlippedBits(t *testing.T) {
	c, path := cluster(t)
	for id := range uint64(300) {
		put(t, c, 1000+id, "127.0.0.2")
	}
	_, err := c.Begin(t.Context(), catalog.Intent{ID: 1005, Holders: []string{"127.0.0.2"}})
	require.NoError(t, err)
	want := contentOf(t, c)
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(3, 3))
	refused := 0
	for range 500 {
		data := bytes.Clone(whole)
		first := 2 * os.Getpagesize()
		at := first + rnd.IntN(len(data)-first)
		data[at] ^= 1 << rnd.IntN(8)
		broken := filepath.Join(t.TempDir(), "catalog.db")
		require.NoError(t, os.WriteFile(broken, data, 0o600))
		c, err := Open(broken, Config{})
		if err != nil {
			require.ErrorIs(t, err, catalog.ErrForeign)
			refused++
			continue
		}
		require.Equal(t, want, contentOf(t, c), "byte %d", at)
		require.NoError(t, c.Close())
	}
	require.Greater(t, refused, 10)
}

// TestRecordsThatNoCommitWrote: one that was lost, and one that came.
func TestRecordsThatNoCommitWrote(t *testing.T) {
	for name, change := range map[string]func(*bbolt.Bucket) error{
		"lost":      func(members *bbolt.Bucket) error { return members.Delete(key64(7)) },
		"came":      func(members *bbolt.Bucket) error { return members.Put(key64(9), bytes.Clone(members.Get(key64(7)))) },
		"as it was": func(members *bbolt.Bucket) error { return members.Put(key64(7), bytes.Clone(members.Get(key64(7)))) },
	} {
		t.Run(name, func(t *testing.T) {
			c, path := cluster(t)
			put(t, c, 7, "127.0.0.2")
			require.NoError(t, c.Close())
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return change(bucket(tx, catalog.Members)) }))
			require.NoError(t, db.Close())
			again, err := Open(path, Config{})
			if name == "as it was" {
				require.NoError(t, err)
				require.NoError(t, again.Close())
				return
			}
			require.ErrorIs(t, err, catalog.ErrForeign)
			require.ErrorContains(t, err, "the sum over its records")
		})
	}
}

// TestDamageIsToldShortly: a damaged page can show a key of any length, and the
// error is a line for people all the same.
func TestDamageIsToldShortly(t *testing.T) {
	c, path := cluster(t)
	require.NoError(t, c.Close())
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return bucket(tx, catalog.SlotSlaves).Put(bytes.Repeat([]byte{0xab}, 20_000), []byte{1})
	}))
	require.NoError(t, db.Close())
	_, err = Open(path, Config{})
	require.ErrorIs(t, err, catalog.ErrForeign)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "damaged: slots abab")
	require.ErrorContains(t, err, "20000 bytes")
	require.Less(t, len(err.Error())-len(path), 300)
}
