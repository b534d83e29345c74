package portmap

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
)

func TestParseSocket(t *testing.T) {
	for _, c := range []struct{ network, line, want string }{
		{"tcp", "   0: 0200007F:500A 00000000:0000 0A 00000000:00000000 00:00000000", "127.0.0.2:20490"},
		{"tcp", "   0: 0200007F:500A 00000000:0000 01 00000000:00000000 00:00000000", ""},
		{"udp", "   0: 0200007F:500A 00000000:0000 07 00000000:00000000 00:00000000", "127.0.0.2:20490"},
		{"tcp", "   0: 00000000000000000000000001000000:500A 0:0000 0A", "[::1]:20490"},
		{"tcp", "   0: 0000000000000000FFFF00000200007F:500A 0:0000 0A", "127.0.0.2:20490"},
		{"tcp", "  sl  local_address rem_address   st tx_queue rx_queue tr", ""},
		{"tcp", "   0: 0200007F 00000000:0000 0A", ""},
		{"tcp", "   0: 7F:500A 00000000:0000 0A", ""},
		{"tcp", "", ""},
	} {
		got, ok := parseSocket(c.network, strings.Fields(c.line))
		require.Equal(t, c.want != "", ok, c.line)
		if ok {
			require.Equal(t, c.want, got.String())
		}
	}
}

// serveNullAt answers NULL of testProg over TCP at addr until stop.
func serveNullAt(t *testing.T, addr string) (port uint16, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	srv := rpc.NewServer(rpc.ServerConfig{})
	srv.Register(testProg, 1, rpc.HandlerFunc(nothing))
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	stop = func() { srv.Close(); <-done }
	t.Cleanup(stop)
	return ln.Addr().(*net.TCPAddr).AddrPort().Port(), stop
}

// TestAnswersWhereItIs: a wildcard registration may be of a program at any one
// address of the host.
func TestAnswersWhereItIs(t *testing.T) {
	for _, c := range []struct{ listen, netid string }{
		{"127.0.0.2:0", "tcp"}, {"0.0.0.0:0", "tcp"}, {"[::]:0", "tcp"}, {"[::1]:0", "tcp6"}, {"[::]:0", "tcp6"},
	} {
		if c.netid == "tcp6" || c.listen == "[::]:0" {
			if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
				continue // no IPv6 here
			} else {
				ln.Close()
			}
		}
		port, stop := serveNullAt(t, c.listen)
		reg := Registration{Prog: testProg, Vers: 1, Netid: c.netid, Addr: WildcardUaddr(c.netid, port)}
		require.True(t, Answers(t.Context(), reg), "%v", c)
		reg.Vers = 2
		require.False(t, Answers(t.Context(), reg), "%v: another version", c)
		stop()
		reg.Vers = 1
		require.False(t, Answers(t.Context(), reg), "%v: gone", c)
	}
	at := netip.MustParseAddrPort("192.0.2.1:7")
	require.Equal(t, []netip.AddrPort{at}, places("tcp", at), "an address is itself")
}

// TestKeeperLeavesASiblingItsPort: an entry whose program lives at another
// address than loopback's first is not taken, and what keeps failing is told
// again.
func TestKeeperLeavesASiblingItsPort(t *testing.T) {
	s, _ := start(t, Config{Port: -1})
	port, _ := serveNullAt(t, "127.0.0.2:0")
	theirs := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", port), Owner: ownerUnknown}
	require.True(t, s.reg.set(theirs, false))
	rounds := make(chan struct{})
	local := at(s)
	var log bytes.Buffer // read after the end
	_, stop := keep(t, KeeperConfig{
		Registrations: []Registration{{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}},
		Logger:        slog.New(slog.NewTextHandler(&log, nil)),
		Local: func(ctx context.Context) (*Client, error) {
			select {
			case rounds <- struct{}{}:
			case <-ctx.Done():
			}
			return local(ctx)
		},
	})
	for range 2*sayAgain + 4 {
		<-rounds
		require.True(t, knows(s, theirs))
	}
	go func() {
		for range rounds {
		}
	}()
	stop()
	close(rounds)
	require.True(t, knows(s, theirs))
	require.Contains(t, log.String(), theirs.Addr, "it is told where the other one is")
	told := strings.Count(log.String(), "cannot register")
	require.GreaterOrEqual(t, told, 3, "and again while it lasts")
	require.LessOrEqual(t, told, 4, "but not each time")
}
