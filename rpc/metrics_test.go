package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// tally is Metrics as text.
type tally struct {
	mu    sync.Mutex
	calls []string
	drops []string
	conns map[string]int
}

func (m *tally) Called(c *Call, r CallResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := "ok"
	if r.Err != nil {
		err = r.Err.Error()
	}
	m.calls = append(m.calls, fmt.Sprintf("%s %d %s in %d out %d", c.Network, c.Proc, err, r.In, r.Out))
}

func (m *tally) Connected(network string, change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns == nil {
		m.conns = map[string]int{}
	}
	m.conns[network] += change
}

func (m *tally) Dropped(network, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drops = append(m.drops, network+" "+reason)
}

func (m *tally) takeCalls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.calls = nil }()
	return m.calls
}

func (m *tally) allDrops() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.drops)
}

func (m *tally) connected() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.conns)
}

func (m *tally) dropped(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.drops, what)
}

// TestMetricsOfCalls: each call is counted, with its end and its bytes.
func TestMetricsOfCalls(t *testing.T) {
	var m tally
	s := newTestServer(t, ServerConfig{Metrics: &m})
	for _, network := range []string{"tcp", "udp", "unix"} {
		c := dial(t, network, s.listen(t, network), ClientConfig{})
		for _, k := range []struct {
			proc uint32
			want string
		}{
			{procNull, "0 ok in 44 out 24"},
			{procCount, "4 ok in 44 out 32"},
			{procMulti, "3 GARBAGE_ARGS in 44 out 24"},
			{procPanic, fmt.Sprint(procPanic, " SYSTEM_ERR in 44 out 24")},
			{procDenied, fmt.Sprint(procDenied, " AUTH_ERROR: AUTH_TOOWEAK in 44 out 20")},
			{999, "999 PROC_UNAVAIL in 44 out 24"},
		} {
			_, _ = call(t.Context(), c, k.proc, 0, 0, 0, 0) // the refusals are what is counted
			var got []string
			waitFor(t, func() bool { got = append(got, m.takeCalls()...); return len(got) > 0 })
			require.Equal(t, []string{network + " " + k.want}, got)
		}
	}
	require.Equal(t, map[string]int{"tcp": 1, "unix": 1}, m.connected())
	require.NoError(t, s.Close())
	require.Equal(t, map[string]int{"tcp": 0, "unix": 0}, m.connected())
	require.Empty(t, m.allDrops())
}

// TestMetricsOfDrops: what gets no reply has a reason.
func TestMetricsOfDrops(t *testing.T) {
	t.Run("Datagrams", func(t *testing.T) {
		var m tally
		s := newTestServer(t, ServerConfig{Metrics: &m})
		conn := dialRaw(t, "udp", s.listen(t, "udp"))
		send(t, conn, []byte("?"))
		send(t, conn, message(1, procCount, 0, 0, 0, 0))
		readReplyBytes(t, conn)
		send(t, conn, message(1, procCount, 0, 0, 0, 0))
		readReplyBytes(t, conn)
		require.Equal(t, []string{"udp not_call", "udp duplicate"}, m.allDrops())
	})
	for _, c := range []struct {
		name, hex, reason string
	}{
		{"Reply", "80000018" + nullReply, DropNotCall},
		{"TooLong", "ffffffff", DropRecord},
		{"EmptyFragments", strings.Repeat("00000000", maxEmptyFragments+1), DropRecord},
		{"Cut", "80000018 1122", DropRecord},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m tally
			s := newTestServer(t, ServerConfig{Metrics: &m})
			conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
			send(t, conn, unhex(t, c.hex))
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			_, _ = io.ReadAll(conn)
			waitFor(t, func() bool { return m.dropped("tcp " + c.reason) })
		})
	}
	t.Run("Evicted", func(t *testing.T) {
		var m tally
		s := newTestServer(t, ServerConfig{Metrics: &m, MaxConns: 1})
		addr := s.listen(t, "tcp")
		stillServed(t, dialRaw(t, "tcp", addr))
		stillServed(t, dialRaw(t, "tcp", addr))
		require.Equal(t, []string{"tcp evicted"}, m.allDrops())
	})
	t.Run("Times", func(t *testing.T) {
		var m tally
		cfg := testTimes
		cfg.Metrics = &m
		onPipes(t, cfg, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			closedAfter(t, conn)
			require.Equal(t, []string{"pipe idle"}, m.allDrops())
			conn = dial()
			send(t, conn, []byte{0x80, 0, 0, 40, 1})
			closedAfter(t, conn)
			require.Equal(t, []string{"pipe idle", "pipe stalled"}, m.allDrops())
		})
	})
	t.Run("TLS", func(t *testing.T) {
		var m tally
		cfg := newTLSParty(t).serve(TLSOptional)
		cfg.Metrics = &m
		s := newTestServer(t, cfg)
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		send(t, conn, append(record(unhex(t, tlsProbe)), record(unhex(t, nullCall))...))
		_, _ = io.ReadAll(conn)
		waitFor(t, func() bool { return m.dropped("tcp tls") })
		require.Equal(t, []string{"tcp 0 ok in 40 out 32"}, m.takeCalls())
	})
}

type spanKey struct{}

// TestTrace: the hooks see the begin and the end of a call, and hand a context on.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	var events []string
	trace := func(side string) TraceFunc {
		return func(ctx context.Context, prog, vers, proc uint32) (context.Context, func(error)) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf("%s %#x.%d.%d", side, prog, vers, proc))
			return context.WithValue(ctx, spanKey{}, side), func(err error) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, fmt.Sprint(side, " ", errors.Is(err, ErrSystem), " ", err != nil))
			}
		}
	}
	s := newTestServer(t, ServerConfig{Trace: trace("server")})
	s.Register(7, 1, HandlerFunc(func(ctx context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		if ctx.Value(spanKey{}) != "server" || CallFromContext(ctx) != c {
			return nil, errors.New("another context")
		}
		if c.Proc == 2 {
			panic("oh")
		}
		return b, nil
	}))
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{Trace: trace("client"), Timeout: time.Minute})
	require.NoError(t, c.Call(t.Context(), 7, 1, 1, nil, nil))
	require.Equal(t, []string{"client 0x7.1.1", "server 0x7.1.1", "server false false", "client false false"}, events)
	events = nil
	require.ErrorIs(t, c.Call(t.Context(), 7, 1, 2, nil, nil), ErrSystem)
	require.Equal(t, []string{"client 0x7.1.2", "server 0x7.1.2", "server false true", "client true true"}, events)
}
