package master

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/catalog"
	"starfish/node"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; events end the waiting long before.
const patience = 30 * time.Second

// world is a master that runs, its slaves and a client.
type world struct {
	*fleet
	t      testing.TB
	cfg    Config
	m      *Master
	client *structs.MasterProgMasterV2Client
	conn   *rpc.Client
	at     atomic.Value // host:port of the master
	end    func()
}

func testLogger() *slog.Logger {
	if os.Getenv("MASTER_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// newWorld starts a master and slaves at these addresses, which serve.
func newWorld(t testing.TB, change func(*Config), addrs ...string) *world {
	w := &world{fleet: newFleet(t, addrs...), t: t}
	w.cfg = Config{Data: t.TempDir(), Port: AnyPort, HopTimeout: testHop, ProbeInterval: 50 * time.Millisecond,
		Logger: testLogger(), Dial: w.dial, Portmap: node.PortmapperNone}
	if change != nil {
		change(&w.cfg)
	}
	w.run()
	t.Cleanup(func() { w.end() })
	for _, a := range addrs {
		w.join(a)
	}
	w.serving(addrs...)
	return w
}

// run starts the master, until w.end.
func (w *world) run() {
	m, err := New(w.cfg)
	require.NoError(w.t, err)
	w.m = m
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	ended := false
	w.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		err := <-done
		w.conn.Close()
		require.NoError(w.t, err)
	}
	select {
	case <-m.Ready():
	case <-time.After(patience):
		require.FailNow(w.t, "the master is not ready")
	}
	w.at.Store(m.Addr().String())
	w.conn, err = rpc.Dial(ctx, "tcp", m.Addr().String(), rpc.ClientConfig{})
	require.NoError(w.t, err)
	w.client = structs.NewMasterProgMasterV2Client(w.conn)
}

func (w *world) restart() {
	w.end()
	w.run()
}

func (w *world) join(addr string) structs.JoinAnswer {
	w.t.Helper()
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: structs.MachineName(addr), Protocol: 2, Instance: w.slaves[addr].instance})
	require.NoError(w.t, err)
	require.Equal(w.t, structs.QUERY_OK, r.Status, r.Failure.Message)
	return r.Answer
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// await waits until ok is true of the catalog's snapshot.
func (w *world) await(what string, ok func(*catalog.Snapshot) bool) {
	w.t.Helper()
	end := time.After(patience)
	for {
		changed := w.m.cat.Changed()
		if ok(w.m.cat.Snapshot()) {
			return
		}
		select {
		case <-changed:
		case <-end:
			require.FailNow(w.t, "waited in vain until "+what, "%+v", w.m.status())
		}
	}
}

func (w *world) state(st catalog.State, addrs ...string) {
	w.t.Helper()
	w.await("it is "+st.String(), func(s *catalog.Snapshot) bool {
		for _, a := range addrs {
			if sl, ok := s.Slave(a); !ok || sl.State != st {
				return false
			}
		}
		return true
	})
}

func (w *world) serving(addrs ...string) { w.t.Helper(); w.state(catalog.Serving, addrs...) }

func (w *world) finished() {
	w.t.Helper()
	w.await("no write is open", func(s *catalog.Snapshot) bool { return len(s.Intents()) == 0 })
}

func bitmap(t testing.TB, format structs.RowBitmapFormat, r ...uint32) structs.RowBitmap {
	b, err := rows.Encode(vector.New(r...), format)
	require.NoError(t, err)
	return b
}

func (w *world) tryPut(id uint64, on []string, r ...uint32) structs.PutResponse {
	w.t.Helper()
	req := structs.PutRequest{Id: id, Rows: bitmap(w.t, structs.BITMAP_ROARING, r...)}
	for _, a := range on {
		req.Holders = append(req.Holders, structs.MachineName(a))
	}
	res, err := w.client.MasterPut(w.ctx(), req)
	require.NoError(w.t, err)
	return res
}

func (w *world) put(id uint64, on []string, r ...uint32) uint64 {
	w.t.Helper()
	res := w.tryPut(id, on, r...)
	require.Equal(w.t, structs.QUERY_OK, res.Status, res.Failure.Message)
	return res.Revision
}

func (w *world) ask(req structs.QueryRequest) structs.QueryResponse {
	w.t.Helper()
	res, err := w.client.MasterQuery(w.ctx(), req)
	require.NoError(w.t, err)
	return res
}

// rows asks and returns the rows.
func (w *world) rows(text string) []uint32 {
	w.t.Helper()
	res := w.ask(structs.QueryRequest{Text: structs.QueryText(text), Format: structs.BITMAP_ROARING})
	require.Equal(w.t, structs.QUERY_OK, res.Status, "%s: %s", text, res.Failure.Message)
	b, err := rows.Decode(&res.Answer.Rows)
	require.NoError(w.t, err)
	require.Equal(w.t, res.Answer.Count, b.Count())
	return b.Rows(0, 0)
}

// fails asks for a failure.
func (w *world) fails(text string, want structs.QueryStatus) structs.QueryFailure {
	w.t.Helper()
	return w.failsIn(text, want, 0)
}

func (w *world) failsIn(text string, want structs.QueryStatus, deadline time.Duration) structs.QueryFailure {
	w.t.Helper()
	res := w.ask(structs.QueryRequest{Text: structs.QueryText(text), DeadlineMs: uint32(deadline.Milliseconds())})
	require.Equal(w.t, want, res.Status, "%s: %s", text, res.Failure.Message)
	return res.Failure
}

var three = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
