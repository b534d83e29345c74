package monitor

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/rpc"
	"starfish/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prog = 0x20000099

// TestServer: what a server reports is what Prometheus shows.
func TestServer(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	names := func(p, _, proc uint32) (string, string) {
		return "test", map[uint32]string{0: "NULL", 1: "ONE"}[proc]
	}
	s := rpc.NewServer(rpc.ServerConfig{Logger: slog.New(slog.DiscardHandler), Metrics: NewRPC(reg, names)})
	s.Register(prog, 1, rpc.HandlerFunc(func(_ context.Context, c *rpc.Call, args *xdr.Decoder, b []byte) ([]byte, error) {
		switch {
		case c.Proc == 1 && args.Len() > 0:
			return b, nil
		case c.Proc == 1:
			return nil, rpc.ErrGarbageArgs
		}
		return nil, rpc.ErrProcUnavail
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := rpc.Dial(t.Context(), "tcp", l.Addr().String(), rpc.ClientConfig{})
	require.NoError(t, err)
	word := xdr.AppendFunc(func(b []byte) ([]byte, error) { return xdr.AppendUint32(b, 7), nil })
	for range 3 {
		require.NoError(t, c.Call(t.Context(), prog, 1, 0, nil, nil))
	}
	require.NoError(t, c.Call(t.Context(), prog, 1, 1, word, nil))
	require.Error(t, c.Call(t.Context(), prog, 1, 1, nil, nil))
	for p := range uint32(50) { // series of the caller's invention
		require.Error(t, c.Call(t.Context(), prog, 1, 100+p, nil, nil))
		require.Error(t, c.Call(t.Context(), prog+1+p, 1, 0, nil, nil))
		require.Error(t, c.Call(t.Context(), prog, 2+p, 0, nil, nil))
	}
	require.Equal(t, []string{
		`starfish_rpc_calls_total{network="tcp",procedure="NULL",program="test",status="SUCCESS",version="1"} 3`,
		`starfish_rpc_calls_total{network="tcp",procedure="ONE",program="test",status="GARBAGE_ARGS",version="1"} 1`,
		`starfish_rpc_calls_total{network="tcp",procedure="ONE",program="test",status="SUCCESS",version="1"} 1`,
		`starfish_rpc_calls_total{network="tcp",procedure="other",program="other",status="PROC_UNAVAIL",version="other"} 50`,
		`starfish_rpc_calls_total{network="tcp",procedure="other",program="other",status="PROG_MISMATCH",version="other"} 50`,
		`starfish_rpc_calls_total{network="tcp",procedure="other",program="other",status="PROG_UNAVAIL",version="other"} 50`,
	}, page(t, reg, "starfish_rpc_calls_total"))
	require.Equal(t, []string{`starfish_rpc_connections{network="tcp"} 1`}, page(t, reg, "starfish_rpc_connections"))
	require.Equal(t, []string{`starfish_rpc_call_seconds_count{procedure="NULL",program="test",version="1"} 3`},
		page(t, reg, `starfish_rpc_call_seconds_count{procedure="NULL"`))
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, <-served)
}

// page returns the lines of the metrics page that begin so.
func page(t *testing.T, reg *prometheus.Registry, begin string) (lines []string) {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, rec.Code)
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, begin) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestBounded: label sets end at maxProcs, whatever the handlers accept.
func TestBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewRPC(reg, nil)
	for proc := range uint32(2 * maxProcs) {
		m.Called(&rpc.Call{Network: "udp", Prog: prog, Vers: 1, Proc: proc}, rpc.CallResult{Took: time.Millisecond, In: 40, Out: 24})
	}
	require.Len(t, page(t, reg, "starfish_rpc_calls_total"), maxProcs+1)
	m.Called(&rpc.Call{Network: "udp"}, rpc.CallResult{Err: &rpc.ReplyError{Stat: rpc.MSG_DENIED, RejectStat: rpc.RPC_MISMATCH}})
	m.Dropped("udp", rpc.DropDuplicate)
	for _, line := range []string{
		`starfish_rpc_calls_total{network="udp",procedure="other",program="other",status="RPC_MISMATCH",version="other"} 1`,
		`starfish_rpc_bytes_total{direction="in",network="udp"} 80000`,
		`starfish_rpc_dropped_total{network="udp",reason="duplicate"} 1`,
	} {
		require.Len(t, page(t, reg, line), 1, line)
	}
}

func BenchmarkCalled(b *testing.B) {
	m := NewRPC(prometheus.NewRegistry(), nil)
	c := &rpc.Call{Network: "tcp", Prog: prog, Vers: 1, Proc: 1}
	b.ReportAllocs()
	for b.Loop() {
		m.Called(c, rpc.CallResult{Took: time.Microsecond, In: 40, Out: 24})
	}
}
