package local

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
