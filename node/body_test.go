package node_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"starfish/node"
	"starfish/node/memnet"
	"starfish/rpc"
	"starfish/xdr"
)

const prog = 0x20000099

// events is what happened, in its order.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, what)
}

// TestBody: a node is ready when it has settled, or when its patience is over; at
// its end it takes nothing new, finishes what it has, and only then ends the work
// beside the calls.
func TestBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		defer n.Close()
		host, other := n.Host("a", netip.MustParseAddr("10.0.0.1")), n.Host("b", netip.MustParseAddr("10.0.0.2"))
		var seen events
		srv := rpc.NewServer(rpc.ServerConfig{})
		srv.Register(prog, 1, rpc.HandlerFunc(func(ctx context.Context, _ *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
			time.Sleep(time.Minute)
			seen.add("call answered")
			return reply, nil
		}))
		body := node.New(node.Config{
			Name: "test", Network: host, Server: srv, Program: prog, Versions: []uint32{1}, Portmapper: node.PortmapperNone,
			Addrs: []netip.Addr{netip.IPv4Unspecified()}, Port: 700,
			Settle: func(ctx context.Context) { <-ctx.Done() }, Patience: 3 * time.Second, Drain: time.Hour,
		})
		require.Nil(t, body.Addr())
		require.NoError(t, body.Listen(t.Context()))
		require.Equal(t, "0.0.0.0:700", body.Addr().String())
		require.Error(t, node.New(node.Config{Name: "twin", Network: host, Addrs: []netip.Addr{netip.IPv4Unspecified()}, Port: 700}).Listen(t.Context()))

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		begin := time.Now()
		ended := make(chan error, 1)
		go func() {
			ended <- body.Run(ctx, func(ctx context.Context) { <-ctx.Done(); seen.add("work ended") })
		}()
		<-body.Ready()
		require.Equal(t, 3*time.Second, time.Since(begin), "its patience is over")

		conn, err := other.Dial(t.Context(), "tcp", "a:700")
		require.NoError(t, err)
		c := rpc.NewClient(conn, rpc.ClientConfig{Timeout: time.Hour})
		defer c.Close()
		answered := make(chan error, 1)
		go func() { answered <- c.Call(t.Context(), prog, 1, 1, nil, nil) }()
		synctest.Wait() // until the call is being served
		stop()
		synctest.Wait()
		_, err = other.Dial(t.Context(), "tcp", "a:700")
		require.ErrorIs(t, err, unix.ECONNREFUSED, "nothing new")
		require.NoError(t, <-answered, "what it has is finished")
		require.NoError(t, <-ended)
		require.Equal(t, []string{"call answered", "work ended"}, seen.list)
	})
}

// TestBodyCutsOff: a call that takes longer than the drain is cut off.
func TestBodyCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		defer n.Close()
		host := n.Host("a", netip.MustParseAddr("10.0.0.1"))
		srv := rpc.NewServer(rpc.ServerConfig{})
		srv.Register(prog, 1, rpc.HandlerFunc(func(ctx context.Context, _ *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
			<-ctx.Done()
			return reply, nil
		}))
		body := node.New(node.Config{Name: "test", Network: host, Server: srv, Portmapper: node.PortmapperNone,
			Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: 700, Drain: 5 * time.Second})
		require.NoError(t, body.Listen(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- body.Run(ctx) }()
		<-body.Ready()
		conn, err := host.Dial(t.Context(), "tcp", "127.0.0.1:700")
		require.NoError(t, err)
		c := rpc.NewClient(conn, rpc.ClientConfig{Timeout: time.Hour})
		defer c.Close()
		answered := make(chan error, 1)
		go func() { answered <- c.Call(t.Context(), prog, 1, 1, nil, nil) }()
		synctest.Wait()
		begin := time.Now()
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.ErrorIs(t, <-answered, rpc.ErrClosed)
	})
}
