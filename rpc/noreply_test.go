package rpc

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// A handler that says ErrNoReply leaves its caller without one, and the calls
// that come after are served: none of its slots is lost.
func TestNoReply(t *testing.T) {
	m := &silences{}
	srv := NewServer(ServerConfig{MaxCalls: 2, MaxCallsPerConn: 2, Metrics: m})
	srv.Register(7, 1, HandlerFunc(func(_ context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		if c.Proc == 2 {
			return nil, ErrNoReply
		}
		return b, nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	uc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	done := make(chan error, 2)
	go func() { done <- srv.Serve(ln) }()
	go func() { done <- srv.ServePacket(uc) }()
	for network, addr := range map[string]string{"tcp": ln.Addr().String(), "udp": uc.LocalAddr().String()} {
		c, err := Dial(t.Context(), network, addr, ClientConfig{Retransmit: 5 * time.Millisecond})
		require.NoError(t, err)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			require.ErrorIs(t, c.Call(ctx, 7, 1, 2, nil, nil), context.DeadlineExceeded)
			cancel()
			require.NoError(t, c.Call(t.Context(), 7, 1, 1, nil, nil), network)
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, srv.Close())
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, map[string]int{"tcp": 5, "udp": 5}, m.silent)
}

type silences struct {
	noMetrics
	mu     sync.Mutex
	silent map[string]int
}

func (s *silences) Dropped(network, reason string) {
	if reason != DropSilent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = map[string]int{}
	}
	s.silent[network]++
}

// A socket of both families answers a broadcast, too, though the kernel does not
// tell it the address of the interface.
func TestBroadcastToBothFamilies(t *testing.T) {
	uc, err := net.ListenUDP("udp", &net.UDPAddr{})
	require.NoError(t, err)
	srv := NewServer(ServerConfig{})
	srv.Register(7, 1, HandlerFunc(func(_ context.Context, _ *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		return b, nil
	}))
	done := make(chan error, 1)
	go func() { done <- srv.ServePacket(uc) }()
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer client.Close()
	call := appendCall(nil, 1, 7, 1, 1, OpaqueAuth{}, OpaqueAuth{})
	_, err = client.WriteTo(call, &net.UDPAddr{IP: net.IPv4(127, 255, 255, 255), Port: uc.LocalAddr().(*net.UDPAddr).Port})
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, _, err = client.ReadFrom(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, srv.Close())
	require.NoError(t, <-done)
}

// A server sends no more than the client's bound, or that of the one call.
func TestMaxReply(t *testing.T) {
	srv := NewServer(ServerConfig{})
	srv.Register(7, 1, HandlerFunc(func(_ context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		return append(b, make([]byte, c.Proc)...), nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	c, err := Dial(t.Context(), "tcp", ln.Addr().String(), ClientConfig{MaxReply: 1024})
	require.NoError(t, err)
	const header = 24
	call := func(ctx context.Context, n int) error { return c.Call(ctx, 7, 1, uint32(n), nil, nil) }
	require.NoError(t, call(t.Context(), 1024-header))
	require.NoError(t, call(WithMaxReply(t.Context(), 1<<20), 1<<20-header))
	require.ErrorIs(t, call(t.Context(), 1024-header+4), ErrTooLong, "the bound of the one call was its own")
	require.NoError(t, call(t.Context(), 1), "the connection lives")
	require.ErrorIs(t, call(t.Context(), 1<<20), ErrTooLong)
	require.ErrorIs(t, c.Err(), ErrTooLong)
	require.NoError(t, c.Close())

	c, err = Dial(t.Context(), "tcp", ln.Addr().String(), ClientConfig{MaxReply: 1024})
	require.NoError(t, err)
	require.ErrorIs(t, call(t.Context(), 64<<20-header), ErrTooLong)
	require.NoError(t, c.Close())
	require.NoError(t, srv.Close())
	require.NoError(t, <-done)
}
