package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// writers put without pause, each its own ids, and remember for each id the
// last acknowledged version and the one in flight when all was killed.
type writers struct {
	mu     sync.Mutex
	acked  map[uint64]uint64 // id -> version acknowledged last
	flying map[uint64]uint64 // id -> version whose fate is unknown
	puts   atomic.Int64
}

// vectorOf is version v of a vector: every version has other rows.
func vectorOf(id, v uint64) cluster.Words {
	rnd := rand.New(rand.NewPCG(id, v))
	w := cluster.RandomWords(rnd, 100_000, false)
	w.Set(uint32(v))
	return w.Trim()
}

func (ws *writers) run(ctx context.Context, rnd *rand.Rand, base uint64) {
	c, err := cluster.Dial(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		id := base + rnd.Uint64N(20)
		ws.mu.Lock()
		v := max(ws.acked[id], ws.flying[id]) + 1
		ws.flying[id] = v
		ws.mu.Unlock()
		if c.Put(ctx, id, vectorOf(id, v)) != nil {
			return // killed: the version stays in flight
		}
		ws.mu.Lock()
		ws.acked[id] = v
		delete(ws.flying, id)
		ws.mu.Unlock()
		ws.puts.Add(1)
	}
}

// check compares every vector: the acknowledged version, or the one in flight.
func (ws *writers) check(t *testing.T, c *cluster.Client) {
	t.Helper()
	for id, v := range ws.acked {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
		a, err := c.Query(ctx, fmt.Sprint("P:", id), structs.BITMAP_WORDS)
		cancel()
		require.NoError(t, err, "acknowledged vector %d", id)
		ferr := equal(a, vectorOf(id, v))
		if fv, ok := ws.flying[id]; ok && ferr != nil {
			if ferr = equal(a, vectorOf(id, fv)); ferr == nil {
				ws.acked[id] = fv // it happened
			}
		}
		require.NoError(t, ferr, "vector %d, version %d", id, v)
	}
	for id, fv := range ws.flying {
		if _, ok := ws.acked[id]; !ok {
			ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
			a, err := c.Query(ctx, fmt.Sprint("P:", id), structs.BITMAP_WORDS)
			cancel()
			if err == nil {
				require.NoError(t, equal(a, vectorOf(id, fv)), "vector %d", id)
				ws.acked[id] = fv
			}
		}
	}
	ws.flying = map[uint64]uint64{}
}

func TestKillEverythingWithPutsInFlight(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	rnd := seed(t)
	c := cluster.New(t, cluster.Options{})
	ws := &writers{acked: map[uint64]uint64{}, flying: map[uint64]uint64{}}
	for round := range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		var g sync.WaitGroup
		for i := range 4 {
			g.Go(func() { ws.run(ctx, rand.New(rand.NewPCG(uint64(round), uint64(i))), uint64(i)*1000) })
		}
		// A random moment, at least one put after the start.
		enough := ws.puts.Load() + 1 + rnd.Int64N(30)
		require.Eventually(t, func() bool { return ws.puts.Load() >= enough }, cluster.Wait, time.Millisecond,
			"the puts of round %d end before the kill", round)
		for _, i := range rnd.Perm(len(c.All())) {
			c.All()[i].Kill(t)
		}
		cancel()
		g.Wait()
		for _, p := range c.All() {
			p.Restart(t)
		}
		c.AwaitServing(t)
		cluster.AwaitStatus(t, "no write is unfinished", func(st structs.ClusterStatus) bool { return st.Pending == 0 })
		conn := cluster.MustDial(t)
		ws.check(t, conn)
	}
	t.Logf("%d puts acknowledged over 20 kills, %d vectors", ws.puts.Load(), len(ws.acked))
}

// Between taking a put and answering it a slave, and the master, sync their
// file to disk: a trace of the system calls shows it.
func TestSlaveSyncsBeforeReply(t *testing.T)  { testSync(t, "slave") }
func TestMasterSyncsBeforeReply(t *testing.T) { testSync(t, "master") }

func testSync(t *testing.T, traced string) {
	if !netns.Enter(t) {
		return
	}
	strace := cpeer.Tool(t, "strace")
	trace := filepath.Join(t.TempDir(), "trace")
	start := func(name string, args ...string) {
		if name != traced {
			cluster.Start(t, name, args...)
			return
		}
		cluster.Start(t, strace, append([]string{"-f", "-tt", "-xx", "-s", "64", "-o", trace,
			"-e", "trace=read,write,sendto,recvfrom,fsync,fdatasync,pwrite64",
			cluster.Binary(t, name)}, args...)...)
	}
	dir := t.TempDir()
	start("master", "--data", filepath.Join(dir, "m"), "--replicas", "1")
	start("slave", "--master", "127.0.0.1", "--addr", "127.0.0.2", "--data", filepath.Join(dir, "s"))
	cluster.AwaitStatus(t, "the slave serves", func(st structs.ClusterStatus) bool {
		return len(st.Slaves) == 1 && st.Slaves[0].State == structs.SLAVE_SERVING
	})
	mark := uint64(0x5afe5afe5afe5afe) // found again in the trace
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	require.NoError(t, cluster.MustDial(t).Put(ctx, mark, cluster.Words{1}))
	requireSynced(t, trace)
}

// requireSynced finds the read that carried the mark, then a sync, then the
// write of the SUCCESS reply with the call's xid.
func requireSynced(t *testing.T, trace string) {
	t.Helper()
	f, err := os.Open(trace)
	require.NoError(t, err)
	defer f.Close()
	mark := strings.Repeat(`\x5a\xfe`, 4)
	xid, syncs := "", 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		_, data, _ := strings.Cut(line, `"`)
		switch {
		case xid == "" && strings.Contains(line, "read") && strings.Contains(line, mark):
			// record mark, xid, CALL
			require.GreaterOrEqual(t, len(data), 48)
			xid = data[16:32]
		case xid != "" && strings.Contains(line, "sync(") || xid != "" && strings.Contains(line, "sync resumed"):
			if strings.Contains(line, "= 0") {
				syncs++
			}
		case xid != "" && (strings.Contains(line, "write(") || strings.Contains(line, "sendto(")) && len(data) >= 48 && data[16:32] == xid && strings.HasPrefix(data[32:], `\x00\x00\x00\x01`):
			require.Positive(t, syncs, "the reply left before any sync to disk: %s", line)
			t.Logf("%d syncs between the put and its reply", syncs)
			return
		}
	}
	require.NoError(t, lines.Err())
	require.FailNow(t, "the trace has no reply to the put", "xid %s", xid)
}
