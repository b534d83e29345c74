package master

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/node"
	"starfish/rows"
	"starfish/rpc"
	"starfish/slave"
	"starfish/structs"
	"starfish/vector"
)

func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// realSlaves are slaves of package slave in this process.
type realSlaves struct {
	t    testing.TB
	dir  string
	hop  time.Duration // 0: testHop
	join func(context.Context, string) (*rpc.Client, error)
	mu   sync.Mutex
	at   map[string]string
	ends map[string]func()
}

func (r *realSlaves) dial(ctx context.Context, machine string, _ uint32) (*rpc.Client, error) {
	r.mu.Lock()
	at := r.at[machine]
	r.mu.Unlock()
	if at == "" {
		return nil, fmt.Errorf("%s is down", machine)
	}
	return rpc.Dial(ctx, "tcp", at, rpc.ClientConfig{})
}

func (r *realSlaves) start(addr string) {
	s, err := slave.New(slave.Config{Addr: addr, Port: slave.AnyPort, Master: "127.0.0.1", Data: filepath.Join(r.dir, addr),
		HopTimeout: cmp.Or(r.hop, testHop), JoinInterval: 100 * time.Millisecond, Portmap: node.PortmapperNone, Logger: testLogger(), Dial: r.dial, DialMaster: r.join})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[addr] = s.Addr().String()
	r.ends[addr] = func() { cancel(); require.NoError(r.t, <-done) }
}

func (r *realSlaves) stop(addr string) {
	r.mu.Lock()
	end := r.ends[addr]
	delete(r.ends, addr)
	r.at[addr] = ""
	r.mu.Unlock()
	if end != nil {
		end()
	}
}

// TestRealSlaves runs random queries over slaves of package slave beside an
// oracle, while each of them goes away and comes back.
func TestRealSlaves(t *testing.T) {
	rnd := seeded(t)
	addrs := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	r := &realSlaves{t: t, dir: t.TempDir(), at: map[string]string{}, ends: map[string]func(){}}
	w := newWorld(t, func(c *Config) { c.Dial = r.dial; c.Seed = 1 })
	r.join = func(ctx context.Context, _ string) (*rpc.Client, error) {
		return rpc.Dial(ctx, "tcp", w.at.Load().(string), rpc.ClientConfig{})
	}
	for _, a := range addrs {
		r.start(a)
	}
	t.Cleanup(func() {
		for _, a := range addrs {
			r.stop(a)
		}
	})
	w.serving(addrs...)

	const n = 30
	oracle := make([]*vector.Bitmap, n)
	for id := range oracle {
		b := vector.New()
		for range rnd.IntN(400) {
			b.Add(rnd.Uint32N(3000))
		}
		oracle[id] = b
		w.put(uint64(id), nil, b.Rows(0, 0)...)
	}
	ask := func(times int) {
		t.Helper()
		for range times {
			text, want := randomQuery(rnd, oracle)
			res := w.ask(structs.QueryRequest{Text: structs.QueryText(text), Format: structs.RowBitmapFormat(rnd.IntN(2))})
			require.Equal(t, structs.QUERY_OK, res.Status, "%s: %s", text, res.Failure.Message)
			got, err := rows.Decode(&res.Answer.Rows)
			require.NoError(t, err)
			require.True(t, want.Equal(got), text)
			require.Equal(t, want.Count(), res.Answer.Count)
		}
	}
	ask(100)
	for _, a := range addrs {
		r.stop(a)
		ask(50)
		r.start(a)
		w.serving(a)
		ask(20)
	}
	w.restart()
	w.serving(addrs...)
	ask(50)
	require.Equal(t, structs.QUERY_OK, w.erase(3).Status)
	w.fails("P:3", structs.QUERY_NO_SUCH_VECTOR)
}

// randomQuery is a query and its answer, by the vectors of the oracle.
func randomQuery(rnd *rand.Rand, oracle []*vector.Bitmap) (string, *vector.Bitmap) {
	n := len(oracle)
	if rnd.IntN(4) == 0 {
		id := rnd.IntN(n)
		return fmt.Sprint("P:", id), oracle[id]
	}
	text := "R:"
	var all *vector.Bitmap
	for i := range 1 + rnd.IntN(3) {
		lo := rnd.IntN(n)
		hi := lo + rnd.IntN(n-lo)
		if i > 0 {
			text += "&"
		}
		text += fmt.Sprintf("%d-%d", lo, hi)
		part := vector.OrAll(oracle[lo : hi+1])
		if all == nil {
			all = part
		} else {
			all.And(part)
		}
	}
	return text, all
}
