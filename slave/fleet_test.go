package slave

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/node"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testHop = 300 * time.Millisecond

// plenty is the hop timeout where all answer, which a busy machine has to be let.
const plenty = time.Minute

// fleet is some slaves in this process with a master that only answers joins.
// Every slave has its own address and port; dial stands in for portmappers.
type fleet struct {
	t      testing.TB
	slaves map[string]*Slave

	mu       sync.Mutex
	at       map[string]string // machine to address of its socket
	dials    map[string]int
	machines []structs.ClusterMachine
	joins    atomic.Int64
	told     atomic.Pointer[structs.JoinRequest] // the last join
	master   string

	structs.MasterProgMasterV2Handler // nil: only MasterJoin is served
}

func newFleet(t testing.TB, addrs ...string) *fleet {
	f := &fleet{t: t, slaves: map[string]*Slave{}, at: map[string]string{}, dials: map[string]int{}}
	srv := rpc.NewServer(quiet())
	structs.RegisterMasterProgMasterV2(srv, f)
	f.master = f.listen("127.0.0.1:0", srv)
	for _, a := range addrs {
		f.member(a, 2)
	}
	for _, a := range addrs {
		f.start(Config{Addr: a})
	}
	return f
}

func quiet() rpc.ServerConfig { return rpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)} }

// listen serves srv until the end of the test.
func (f *fleet) listen(addr string, srv *rpc.Server) string {
	l, err := net.Listen("tcp", addr)
	require.NoError(f.t, err)
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	f.t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

func (f *fleet) MasterJoin(_ context.Context, req structs.JoinRequest) (structs.JoinResponse, error) {
	f.told.Store(&req)
	f.joins.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return structs.JoinResponse{Answer: structs.JoinAnswer{Machines: f.machines}}, nil
}

func (f *fleet) member(addr string, protocol uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines = append(f.machines[:len(f.machines):len(f.machines)], structs.ClusterMachine{Addr: structs.MachineName(addr), Protocol: protocol})
}

func (f *fleet) place(machine, at string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[machine] = at
}

func (f *fleet) dial(ctx context.Context, machine string, _ uint32) (*rpc.Client, error) {
	f.mu.Lock()
	f.dials[machine]++
	at, ok := f.at[machine]
	f.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("nothing at %s", machine)
	}
	return rpc.Dial(ctx, "tcp", at, rpc.ClientConfig{})
}

func (f *fleet) dialed(machine string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials[machine]
}

// start runs a slave until the end of the test, or the returned stop.
func (f *fleet) start(cfg Config) (s *Slave, stop func()) {
	f.t.Helper()
	if cfg.Data == "" {
		cfg.Data = filepath.Join(f.t.TempDir(), cfg.Addr)
	}
	cfg.Port, cfg.Portmap = AnyPort, node.PortmapperNone
	if cfg.HopTimeout == 0 {
		cfg.HopTimeout = testHop
	}
	cfg.JoinInterval = time.Hour // what a test needs to know sooner, it needs a refresh for
	cfg.Logger = slog.New(slog.DiscardHandler)
	if cfg.Master == "" {
		cfg.Master = "master"
	} else if cfg.Master == "-" {
		cfg.Master = ""
	}
	cfg.Dial = f.dial
	cfg.DialMaster = func(ctx context.Context, _ string) (*rpc.Client, error) {
		return rpc.Dial(ctx, "tcp", f.master, rpc.ClientConfig{})
	}
	s, err := New(cfg)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		require.NoError(f.t, err)
	}
	f.place(cfg.Addr, s.Addr().String())
	f.slaves[cfg.Addr] = s
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(f.t, <-done)
		})
	}
	f.t.Cleanup(stop)
	return s, stop
}

// put stores rows as id on a slave, behind its back.
func (f *fleet) put(addr string, id uint64, rows ...uint32) {
	f.t.Helper()
	_, err := f.slaves[addr].store.Put(id, 1, vector.New(rows...))
	require.NoError(f.t, err)
}

func (f *fleet) client(network, addr string) *rpc.Client {
	f.t.Helper()
	c, err := rpc.Dial(f.t.Context(), network, f.slaves[addr].Addr().String(), rpc.ClientConfig{})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (f *fleet) v1(addr string) *structs.SlaveProgSlaveV1Client {
	return structs.NewSlaveProgSlaveV1Client(f.client("tcp", addr))
}

func (f *fleet) v2(addr string) *structs.SlaveProgSlaveV2Client {
	return structs.NewSlaveProgSlaveV2Client(f.client("tcp", addr))
}

// hang is a machine that accepts connections and answers nothing, like a
// stopped process.
func (f *fleet) hang(machine string) *atomic.Int64 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	var conns []net.Conn
	var accepted atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			conns = append(conns, c)
		}
	}()
	f.t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	f.place(machine, l.Addr().String())
	return &accepted
}

// item is one element of a list in a test.
type item struct {
	machine string
	id      uint64
}

func list(nodes ...item) structs.MachineVecList {
	var head structs.MachineVecList
	for i := len(nodes) - 1; i >= 0; i-- {
		head = &structs.MachineVecNode{MachineAddr: nodes[i].machine, Vector: structs.VecT(nodes[i].id), Next: head}
	}
	return head
}

func words(t testing.TB, r structs.RowBitmap) *vector.Bitmap {
	t.Helper()
	b, err := rows.Decode(&r)
	require.NoError(t, err)
	return b
}

func machineNames(names ...string) []structs.MachineName {
	var out []structs.MachineName
	for _, n := range names {
		out = append(out, structs.MachineName(n))
	}
	return out
}
