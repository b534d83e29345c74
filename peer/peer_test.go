package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/rpc"
	"starfish/structs"
	"starfish/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plenty bounds what a test waits for; events end the waiting long before.
const plenty = 30 * time.Second

// world maps machine names to addresses, and counts dials.
type world struct {
	mu    sync.Mutex
	addrs map[string]string
	dials map[string]int
}

func newWorld() *world { return &world{addrs: map[string]string{}, dials: map[string]int{}} }

func (w *world) set(machine, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs[machine] = addr
}

func (w *world) count(machine string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[machine]
}

func (w *world) dial(ctx context.Context, machine string, vers uint32) (*rpc.Client, error) {
	w.mu.Lock()
	w.dials[machine]++
	addr, ok := w.addrs[machine]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no machine %s", machine)
	}
	return rpc.Dial(ctx, "tcp", addr, rpc.ClientConfig{})
}

func newPool(t *testing.T, w *world) *Pool {
	p := New(Config{HopTimeout: plenty, Dial: w.dial})
	t.Cleanup(p.Close)
	return p
}

// serve answers SLAVE_PROG version 1 with h until the returned function is called.
func serve(t *testing.T, addr string, h rpc.HandlerFunc) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	s := rpc.NewServer(rpc.ServerConfig{})
	s.Register(structs.SLAVE_PROG, structs.SLAVE_V1, h)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	var once sync.Once
	stop = func() { once.Do(func() { s.Close(); <-done }) }
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func echo(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	if call.Proc == 0 {
		return reply, nil
	}
	return xdr.AppendUint64(reply, args.Uint64()+1), nil
}

// hang accepts connections and answers nothing, as a stopped process does.
func hang(t *testing.T) (at string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted = &atomic.Int64{}
	var conns []net.Conn
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
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String(), accepted
}

func work(ctx context.Context, c rpc.Caller) error {
	return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V1, 1, number(41), new(number))
}

type number uint64

func (n number) AppendXDR(b []byte) ([]byte, error) { return xdr.AppendUint64(b, uint64(n)), nil }
func (n *number) DecodeXDR(d *xdr.Decoder) error    { *n = number(d.Uint64()); return d.Err() }

func requireBlames(t *testing.T, err error, machine string) {
	t.Helper()
	var failed *FailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, machine, failed.Machine)
}

func TestCallsShareOneConnection(t *testing.T) {
	w := newWorld()
	at, _ := serve(t, "127.0.0.1:0", echo)
	w.set("a", at)
	p := newPool(t, w)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { require.NoError(t, p.Call(t.Context(), "a", work)) })
	}
	wg.Wait()
	require.Equal(t, 1, w.count("a"))
}

func TestDeadMachineIsBlamed(t *testing.T) {
	w := newWorld()
	at, stop := serve(t, "127.0.0.1:0", echo)
	w.set("a", at)
	p := newPool(t, w)
	require.NoError(t, p.Call(t.Context(), "a", work))
	stop()
	requireBlames(t, p.Call(t.Context(), "a", work), "a")
	requireBlames(t, p.Call(t.Context(), "nowhere", work), "nowhere")
	requireBlames(t, p.Probe(t.Context(), "a"), "a")
}

func TestClosedConnectionIsDialedAgain(t *testing.T) {
	w := newWorld()
	at, stop := serve(t, "127.0.0.1:0", echo)
	w.set("a", at)
	p := newPool(t, w)
	require.NoError(t, p.Call(t.Context(), "a", work))
	require.NoError(t, p.Probe(t.Context(), "a"))
	stop()
	serve(t, at, echo)
	require.NoError(t, p.Call(t.Context(), "a", work))
	require.NoError(t, p.Probe(t.Context(), "a"))
}

func TestRefusalsAreNoFailures(t *testing.T) {
	w := newWorld()
	at, _ := serve(t, "127.0.0.1:0", func(_ context.Context, call *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
		return nil, rpc.ErrSystem
	})
	w.set("a", at)
	p := newPool(t, w)
	for range 3 {
		require.ErrorIs(t, p.Call(t.Context(), "a", work), rpc.ErrSystem)
		require.ErrorIs(t, p.CallOnce(t.Context(), "a", plenty, work), rpc.ErrSystem)
	}
	require.Equal(t, 1, w.count("a"))
}

func TestBadReplyIsItsFailure(t *testing.T) {
	w := newWorld()
	at, _ := serve(t, "127.0.0.1:0", func(_ context.Context, call *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
		return append(reply, 1, 2, 3, 4), nil
	})
	w.set("a", at)
	p := newPool(t, w)
	requireBlames(t, p.Call(t.Context(), "a", work), "a")
	requireBlames(t, p.CallOnce(t.Context(), "a", plenty, work), "a")
}

func TestCloseEndsCalls(t *testing.T) {
	w := newWorld()
	at, _ := hang(t)
	w.set("a", at)
	p := New(Config{HopTimeout: time.Hour, Dial: w.dial})
	errs := make(chan error, 2)
	go func() { errs <- p.Call(context.Background(), "a", work) }()
	go func() { errs <- p.Probe(context.Background(), "a") }()
	require.Eventually(t, func() bool { return w.count("a") == 2 }, plenty, time.Millisecond)
	p.Close()
	require.Error(t, <-errs)
	require.Error(t, <-errs)
	require.ErrorIs(t, p.Call(context.Background(), "a", work), ErrClosed)
	require.ErrorIs(t, p.Probe(context.Background(), "a"), ErrClosed)
}

func TestFailedMachinesAreForgotten(t *testing.T) {
	p := newPool(t, newWorld())
	for i := range 100 {
		require.Error(t, p.Call(t.Context(), fmt.Sprint("m", i), work))
		require.Error(t, p.Probe(t.Context(), fmt.Sprint("m", i)))
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.machines) == 0
	}, plenty, time.Millisecond)
}

func BenchmarkCall(b *testing.B) {
	w := newWorld()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s := rpc.NewServer(rpc.ServerConfig{})
	s.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(echo))
	go s.Serve(l)
	defer s.Close()
	w.set("a", l.Addr().String())
	p := New(Config{Dial: w.dial})
	defer p.Close()
	for b.Loop() {
		if err := p.Call(b.Context(), "a", work); err != nil {
			b.Fatal(err)
		}
	}
}
