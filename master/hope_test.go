package master

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/node"
	"starfish/rpc"
	"starfish/structs"
)

// pausing is a catalog of which one Snapshot is given out late.
type pausing struct {
	catalog.Catalog
	pause atomic.Pointer[func()]
}

func (c *pausing) Snapshot() *catalog.Snapshot {
	snap := c.Catalog.Snapshot()
	if f := c.pause.Swap(nil); f != nil {
		(*f)()
	}
	return snap
}

// pipes is a listener without a socket.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { close(l.done); return nil }

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestVerdictBesideThePlan: the plan is made while the only holder is in doubt, and
// the verdict is there before the query asks for it. It counts all the same.
func TestVerdictBesideThePlan(t *testing.T) {
	const addr = "10.0.0.1"
	for name, text := range map[string]string{"range": "R:1", "point": "P:1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fake{addr: addr, protocol: 2, store: map[uint64]stored{}, instance: 1, fleet: &fleet{t: t}}
				l := &pipes{make(chan net.Conn), make(chan struct{})}
				srv := rpc.NewServer(rpc.ServerConfig{Logger: testLogger()})
				structs.RegisterSlaveProgSlaveV1(srv, fakeV1{s})
				structs.RegisterSlaveProgSlaveV2(srv, fakeV2{s})
				served := make(chan struct{})
				go func() { defer close(served); srv.Serve(l) }()
				defer func() { srv.Close(); <-served }()

				cat := &pausing{}
				m, err := New(Config{Data: t.TempDir(), Portmap: node.PortmapperNone, Logger: testLogger(),
					wrap: func(c catalog.Catalog) catalog.Catalog { cat.Catalog = c; return cat },
					Dial: func(context.Context, string, uint32) (*rpc.Client, error) {
						ours, theirs := net.Pipe()
						l.conns <- theirs
						return rpc.NewClient(ours, rpc.ClientConfig{}), nil
					}})
				require.NoError(t, err)
				defer m.Close()
				require.NoError(t, cat.AddSlave(t.Context(), catalog.Slave{Addr: addr, Protocol: 2}, nil))
				m.health.Watch(addr)
				require.NoError(t, m.health.AwaitVerdict(t.Context(), addr))
				put, err := v2{m}.MasterPut(t.Context(), structs.PutRequest{Id: 1, Rows: bitmap(t, structs.BITMAP_ROARING, 5)})
				require.NoError(t, err)
				require.Equal(t, structs.QUERY_OK, put.Status, put.Failure.Message)

				entered, release := s.stopAt("inventory")
				m.health.Blame(addr, "a call was lost")
				<-entered // the visit that decides
				verdict := m.health.Doubt(addr)
				pause := func() {
					close(release)
					<-verdict
					synctest.Wait()
				}
				cat.pause.Store(&pause)
				resp, err := v2{m}.MasterQuery(t.Context(), structs.QueryRequest{Text: structs.QueryText(text), Format: structs.BITMAP_WORDS})
				require.NoError(t, err)
				require.Equal(t, structs.QUERY_OK, resp.Status, resp.Failure.Message)
				require.Equal(t, []uint64{32}, resp.Answer.Rows.Words)
				require.Nil(t, cat.pause.Load(), "the plan was made before the verdict")
			})
		})
	}
}

// TestWriteThatWaitsForADeadSlave: a query of a vector whose unfinished write only a
// dead slave may have is refused as soon as that is known, whatever its deadline,
// and what the refusal advises helps.
func TestWriteThatWaitsForADeadSlave(t *testing.T) {
	const long = time.Hour // the client's own patience is shorter
	for _, tt := range []struct {
		name    string
		holders []string
		took    bool // the dead slave has it
		restart bool
	}{
		{"only taker", three[1:2], false, false},
		{"only taker, which has it", three[1:2], true, false},
		{"one of two takers", three[:2], false, false},
		{"one of two takers, which has it", three[:2], true, false},
		{"after a restart of the master", three[:2], true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.settle = 1 }, three...)
			w.put(7, three[:2], 1)
			w.put(8, three[2:], 2)
			dead := w.slaves[three[1]]
			dead.stop()
			w.state(catalog.Down, three[1])
			in, err := w.m.cat.Begin(w.ctx(), catalog.Intent{ID: 7, Holders: tt.holders, Pinned: true})
			require.NoError(t, err)
			if tt.took {
				dead.set(7, in.Revision, 3)
			}
			w.m.writes.Wake()
			if tt.restart {
				w.restart()
			}
			for _, text := range []string{"P:7", "R:7-8", "R:8&7"} {
				f := w.failsIn(text, structs.QUERY_UNAVAILABLE, long)
				require.Equal(t, []uint64{7}, f.Vectors, text)
				require.Equal(t, []structs.MachineName{structs.MachineName(three[1])}, f.FailedMachines, text)
				require.Contains(t, f.Message, "start "+three[1]+" again", text)
				require.NotContains(t, f.Message, "put the vector anew", "it would be refused")
			}
			require.Equal(t, structs.QUERY_UNAVAILABLE, w.tryPut(7, nil, 4).Status)
			require.Equal(t, []uint32{2}, w.rows("R:8"))

			dead.start() // as advised
			want := []uint32{1}
			if tt.took {
				want = []uint32{3}
			}
			w.serving(three...)
			require.Equal(t, want, w.rows("P:7"), "a slave that is back is waited for")
			w.put(7, nil, 4)
			require.Equal(t, []uint32{4}, w.rows("P:7"))
		})
	}
}

// TestAdviceHelps: what a query that is refused advises can be done.
func TestAdviceHelps(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(7, three[:2], 1)
	for _, a := range three[:2] {
		w.slaves[a].stop()
		w.state(catalog.Down, a)
	}
	f := w.fails("P:7", structs.QUERY_UNAVAILABLE)
	require.Contains(t, f.Message, fmt.Sprintf("start %s or %s again, or put the vector anew, with --on", three[0], three[1]))
	w.put(7, three[2:], 2)
	require.Equal(t, []uint32{2}, w.rows("P:7"))

	w.slaves[three[2]].drop(7)
	f = w.fails("P:7", structs.QUERY_UNAVAILABLE)
	require.Contains(t, f.Message, three[2]+" (does not have it); put the vector anew")
	w.put(7, nil, 3)
	require.Equal(t, []uint32{3}, w.rows("P:7"))
	for _, a := range three[:2] {
		w.slaves[a].start()
	}
}
