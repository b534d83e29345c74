package local

import (
	"bytes"
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
