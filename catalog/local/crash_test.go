package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"starfish/catalog"
)

// writeUntilKilled is the process that TestKill kills: it puts and deletes, and
// prints a line for each change that was answered.
func writeUntilKilled(path string) {
	c, err := Open(path, Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := c.AddSlave(ctx, catalog.Slave{Addr: "127.0.0.2", Protocol: 2}, nil); err != nil {
		panic(err)
	}
	var out sync.Mutex
	say := func(what string, id, revision uint64) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, id, revision)
	}
	var wg sync.WaitGroup
	for w := range uint64(8) {
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				id := w*10 + i%10
				in := catalog.Intent{ID: id, Holders: []string{"127.0.0.2"}, Bytes: i}
				if i%7 == 6 {
					in.Op = catalog.Delete
				}
				in, err := c.Begin(ctx, in)
				if err != nil {
					panic(err)
				}
				say("begin", id, in.Revision)
				if err := c.Finish(ctx, id, in.Revision); err != nil {
					panic(err)
				}
				say(map[catalog.Op]string{catalog.Put: "put", catalog.Delete: "delete"}[in.Op], id, in.Revision)
			}
		})
	}
	wg.Wait()
}

// A process is killed at several moments. What it had answered is there.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	var highest uint64
	for round := range 4 {
		last := map[uint64]string{} // the last change of each id that was answered
		revision := map[uint64]uint64{}
		begun := map[uint64]uint64{}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CATALOG_TEST_WRITER="+path)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if n == 150+37*round {
				require.NoError(t, cmd.Process.Kill())
			}
			var what string
			var id, rev uint64
			_, err := fmt.Sscan(lines.Text(), &what, &id, &rev)
			if err != nil {
				break // cut short by the kill
			}
			require.True(t, what != "begin" || rev > begun[id])
			if highest = max(highest, rev); what == "begin" {
				begun[id] = rev
			} else {
				last[id], revision[id] = what, rev
			}
		}
		_ = cmd.Wait()

		c := open(t, path)
		s := c.Snapshot()
		for id, what := range last {
			_, known := s.Member(id)
			in, pending := s.Pending(id)
			if begun[id] > revision[id] {
				// A later write was begun: it is open, or it was finished unheard.
				require.True(t, !pending || in.Revision == begun[id], "id %d", id)
				if pending {
					require.Equal(t, what == "put", known, "id %d", id)
				}
				continue
			}
			// A begin that nobody heard of does not change what is known.
			require.Equal(t, what == "put", known, "id %d", id)
		}
		require.NotEmpty(t, last)
		require.Greater(t, put(t, c, 1000, "127.0.0.2"), highest, "the counter never goes back")
		require.NoError(t, c.Close())
	}
}

// The catalog against a model, with restarts.
func TestAgainstModel(t *testing.T) {
	addrs := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "catalog")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "catalog.db")
		c, err := Open(path, Config{})
		require.NoError(t, err)
		defer func() { c.Close() }()
		ctx := context.Background()
		for _, a := range addrs {
			require.NoError(t, c.AddSlave(ctx, catalog.Slave{Addr: a, Protocol: 2}, nil))
		}
		members := map[uint64]catalog.Intent{}
		intents := map[uint64]catalog.Intent{}
		var revision uint64
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			id := rapid.Uint64Range(0, 3).Draw(t, "id")
			in, pending := intents[id]
			switch rapid.SampledFrom([]string{"begin", "begin", "finish", "finish", "abort", "reopen"}).Draw(t, "step") {
			case "begin":
				in, err := c.Begin(ctx, catalog.Intent{
					ID: id, Op: catalog.Op(rapid.IntRange(0, 1).Draw(t, "op")), Bytes: rapid.Uint64Range(0, 1<<32-1).Draw(t, "bytes"), Pinned: true,
					Holders: rapid.SliceOfNDistinct(rapid.SampledFrom(addrs), 1, 3, rapid.ID[string]).Draw(t, "holders"),
				})
				require.NoError(t, err)
				require.Greater(t, in.Revision, revision)
				revision = in.Revision
				intents[id] = in
			case "finish":
				err := c.Finish(ctx, id, in.Revision)
				require.Equal(t, pending, err == nil)
				if delete(intents, id); !pending {
					break
				}
				if members[id] = in; in.Op == catalog.Delete {
					delete(members, id)
				}
			case "abort":
				err := c.Abort(ctx, id, in.Revision)
				require.Equal(t, pending, err == nil)
				delete(intents, id)
			case "reopen":
				require.NoError(t, c.Close())
				c, err = Open(path, Config{})
				require.NoError(t, err)
			}
			s := c.Snapshot()
			require.EqualValues(t, len(members), s.Known())
			require.Len(t, s.Intents(), len(intents))
			held := map[string]uint64{}
			for id, want := range members {
				m, ok := s.Member(id)
				require.True(t, ok)
				require.Equal(t, want.Bytes, m.Bytes)
				require.ElementsMatch(t, want.Holders, m.Holders)
				for _, h := range m.Holders {
					held[h]++
				}
			}
			for _, sl := range s.Slaves() {
				require.Equal(t, held[sl.Addr], sl.Members)
			}
			for id, want := range intents {
				in, ok := s.Pending(id)
				require.True(t, ok)
				require.Equal(t, want.Revision, in.Revision)
				require.Equal(t, want.Holders, in.Holders)
			}
		}
	})
}
