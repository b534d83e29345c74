package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
	"starfish/xdr"
)

// hop is the hop timeout of the bubbles, in which the clock moves only when
// everybody waits: there times are exact, however busy the machine is.
const hop = 200 * time.Millisecond

// pipes is a network in memory.
type pipes struct {
	t  *testing.T
	wg sync.WaitGroup // machines that hang

	mu      sync.Mutex
	machine map[string]func(far net.Conn) // takes the other end of a connection
	dials   map[string]int
}

// onPipes runs f in a bubble, with a pool over pipes.
func onPipes(t *testing.T, f func(t *testing.T, n *pipes, p *Pool)) {
	synctest.Test(t, func(t *testing.T) {
		n := &pipes{t: t, machine: map[string]func(net.Conn){}, dials: map[string]int{}}
		p := New(Config{HopTimeout: hop, Dial: n.dial})
		t.Cleanup(func() { p.Close(); n.wg.Wait() })
		f(t, n, p)
	})
}

func (n *pipes) dial(_ context.Context, machine string, _ uint32) (*rpc.Client, error) {
	n.mu.Lock()
	n.dials[machine]++
	accept := n.machine[machine]
	n.mu.Unlock()
	if accept == nil {
		return nil, fmt.Errorf("no machine %s", machine)
	}
	near, far := net.Pipe()
	accept(far)
	return rpc.NewClient(near, rpc.ClientConfig{}), nil
}

func (n *pipes) count(machine string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[machine]
}

func (n *pipes) set(machine string, accept func(net.Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machine[machine] = accept
}

// serve has the machine answer SLAVE_PROG version 1 with h.
func (n *pipes) serve(machine string, h rpc.HandlerFunc) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := rpc.NewServer(rpc.ServerConfig{})
	s.Register(structs.SLAVE_PROG, structs.SLAVE_V1, h)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	n.t.Cleanup(func() { s.Close(); <-done })
	n.set(machine, func(far net.Conn) {
		select {
		case l.conns <- far:
		case <-l.closed:
			far.Close()
		}
	})
}

// hang has the machine take all that is sent and answer nothing, as a stopped
// process does.
func (n *pipes) hang(machine string) {
	n.set(machine, func(far net.Conn) {
		n.wg.Go(func() { _, _ = io.Copy(io.Discard, far) })
	})
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func TestHangingMachineIsBlamedAtTheHopTimeout(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		n.hang("a")
		begin := time.Now()
		requireBlames(t, p.Call(t.Context(), "a", work), "a")
		require.Equal(t, hop, time.Since(begin))
	})
}

// TestSlowMachineIsNotBlamed: it works for many hop timeouts, and answers probes.
func TestSlowMachineIsNotBlamed(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		n.serve("a", func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
			if call.Proc != 0 {
				select {
				case <-time.After(40 * hop):
				case <-ctx.Done():
				}
			}
			return echo(ctx, call, args, reply)
		})
		begin := time.Now()
		require.NoError(t, p.Call(t.Context(), "a", work))
		require.Equal(t, 40*hop, time.Since(begin))
		require.Equal(t, 2, n.count("a"), "calls and probes")

		ctx, cancel := context.WithTimeout(t.Context(), 2*hop)
		defer cancel()
		begin = time.Now()
		err := p.Call(ctx, "a", work)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, errors.As(err, new(*FailedError)))
		require.Equal(t, 2*hop, time.Since(begin))
	})
}

// TestMachineThatStopsWhileItWorks is blamed although it answered before.
func TestMachineThatStopsWhileItWorks(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		n.serve("a", func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
			if call.Proc != 0 {
				<-ctx.Done()
			}
			return reply, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { requireBlames(t, p.Call(t.Context(), "a", work), "a") })
		synctest.Wait()
		require.Equal(t, 1, n.count("a"))
		n.hang("a") // the connection of the probes, which is not made yet
		begin := time.Now()
		wg.Wait()
		require.Equal(t, hop, time.Since(begin))
		require.Equal(t, 2, n.count("a"))
	})
}

// TestCallOnceTakesTurns: a C handler has one call at a time, and is not probed.
func TestCallOnceTakesTurns(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		var running, most, nulls atomic.Int64
		n.serve("a", func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
			if call.Proc == 0 {
				nulls.Add(1)
				return reply, nil
			}
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(hop)
			return echo(ctx, call, args, reply)
		})
		begin := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { require.NoError(t, p.CallOnce(t.Context(), "a", 2*hop, work)) })
		}
		wg.Wait()
		require.Equal(t, 20*hop, time.Since(begin), "one after the other")
		require.EqualValues(t, 1, most.Load(), "calls with a C handler at one time")
		require.Equal(t, 1, n.count("a"))
		require.Zero(t, nulls.Load())
	})
}

func TestCallOnceBlamesAtItsTimeout(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		n.hang("h")
		begin := time.Now()
		requireBlames(t, p.CallOnce(t.Context(), "h", 3*hop, work), "h")
		require.Equal(t, 3*hop, time.Since(begin))
		require.Equal(t, 1, n.count("h"), "no probes")

		ctx, cancel := context.WithTimeout(t.Context(), hop/4)
		defer cancel()
		begin = time.Now()
		require.ErrorIs(t, p.CallOnce(ctx, "h", 3*hop, work), context.DeadlineExceeded)
		require.Equal(t, hop/4, time.Since(begin))
	})
}

// TestTurnsOfAHangingMachine: those that wait for a C handler that hangs do not
// each wait for as long as the first.
func TestTurnsOfAHangingMachine(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		n.hang("a")
		begin := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { requireBlames(t, p.CallOnce(t.Context(), "a", hop, work), "a") })
		}
		wg.Wait()
		require.Equal(t, hop, time.Since(begin), "one after the other takes 50")
		n.serve("a", echo)
		require.NoError(t, p.CallOnce(t.Context(), "a", hop, work), "a blame is no verdict for ever")
	})
}

// TestProbesDoNotGrowWithCalls: hundreds of calls that wait for one machine have
// it probed as often as one does.
func TestProbesDoNotGrowWithCalls(t *testing.T) {
	onPipes(t, func(t *testing.T, n *pipes, p *Pool) {
		var nulls atomic.Int64
		release := make(chan struct{})
		n.serve("a", func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
			if call.Proc == 0 {
				if nulls.Add(1) == 4 {
					close(release)
				}
				return reply, nil
			}
			<-release
			return echo(ctx, call, args, reply)
		})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { require.NoError(t, p.Call(t.Context(), "a", work)) })
		}
		wg.Wait()
		require.EqualValues(t, 4, nulls.Load(), "one every half hop timeout")
	})
}
