package local

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// content is all that a catalog says: what the release that wrote a file in
// testdata showed of it.
type content struct {
	Epoch     uint64
	Slaves    []catalog.Slave
	Members   []catalog.Member
	Intents   []catalog.Intent
	Revisions []uint64            // a member each
	Placed    map[string][]string // ids that nobody has put, with their holders if somebody does
}

func contentOf(t *testing.T, c catalog.Catalog) (out content) {
	s := c.Snapshot()
	out.Epoch = s.Epoch()
	out.Slaves, out.Members, out.Intents = view(s)
	ids := make([]uint64, len(out.Members))
	for i, m := range out.Members {
		ids[i] = m.ID
		out.Members[i].Name = strings.ToValidUTF8(m.Name, "\ufffd") // as in JSON
	}
	var err error
	out.Revisions, err = c.Revisions(ids)
	require.NoError(t, err)
	out.Placed = map[string][]string{}
	for id := uint64(1000); id < 1100; id++ {
		out.Placed[strconv.FormatUint(id, 10)], _, err = s.HoldersFor(id, nil, 1)
		require.NoError(t, err)
	}
	return out
}

// old unpacks a file of testdata.
func old(t *testing.T, format int) (path string, want content) {
	packed, err := os.ReadFile(fmt.Sprintf("testdata/format%d.db.gz", format))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	file, err := io.ReadAll(z)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "catalog.db")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	text, err := os.ReadFile(fmt.Sprintf("testdata/format%d.json", format))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	return path, want
}

// TestOldFormats: files that earlier releases wrote say what they said there, can be
// written to, and are not theirs any more then.
func TestOldFormats(t *testing.T) {
	for old1, last := range map[int]uint32{1: 5, 2: 8} { // the highest number of a slave, also of one that is gone
		t.Run(strconv.Itoa(old1), func(t *testing.T) {
			path, want := old(t, old1)
			c := open(t, path)
			require.Equal(t, want, contentOf(t, c))
			require.NoError(t, c.Close())
			c = open(t, path)
			require.Equal(t, want, contentOf(t, c), "again, as a file of this release")

			require.NoError(t, c.AddSlave(t.Context(), catalog.Slave{Addr: "new", Protocol: 2}, nil))
			require.NoError(t, c.log.file.View(func(tx *bbolt.Tx) error {
				require.Contains(t, string(bucket(tx, catalog.Slaves).Get([]byte("new"))), fmt.Sprintf(`"number":%d,`, last+1))
				require.Equal(t, key64(format), bucket(tx, catalog.Meta).Get(keyFormat), "older releases refuse it")
				return nil
			}))
			require.Greater(t, put(t, c, 1, "new"), uint64(5000), "the counter goes on")
			require.NoError(t, c.Abort(t.Context(), 4, want.Intents[0].Revision))
			require.NoError(t, c.Finish(t.Context(), 200, want.Intents[1].Revision))
			require.NoError(t, c.Remove(t.Context(), "c", true))
			_, known := c.Snapshot().Member(math.MaxUint64)
			require.False(t, known)
			now := contentOf(t, c)
			require.NoError(t, c.Close())
			require.Equal(t, now, contentOf(t, open(t, path)))
		})
	}
}

// TestNewerFile: it is left as it is, and the message says what to do.
func TestNewerFile(t *testing.T) {
	c, path := cluster(t)
	require.NoError(t, c.log.file.Update(func(tx *bbolt.Tx) error { return bucket(tx, catalog.Meta).Put(keyFormat, key64(format+1)) }))
	require.NoError(t, c.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = Open(path, Config{})
	require.ErrorIs(t, err, catalog.ErrNewer)
	require.ErrorContains(t, err, fmt.Sprintf("format %d, this release reads up to %d: start the newer release", format+1, format))
	require.ErrorContains(t, err, path)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
}
