package portmap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/xdr"
)

const testProg = 0x20000031

// serve runs an RPC server on a free loopback port, over TCP and UDP.
func serve(t *testing.T, register func(*rpc.Server)) (port uint16, stop func()) {
	t.Helper()
	socks, err := openSockets(context.Background(), nil, -1)
	require.NoError(t, err)
	server := rpc.NewServer(rpc.ServerConfig{})
	register(server)
	var wg sync.WaitGroup
	for _, ln := range socks.tcp {
		wg.Go(func() { _ = server.Serve(ln) })
	}
	for _, conn := range socks.udp {
		wg.Go(func() { _ = server.ServePacket(conn) })
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			require.NoError(t, server.Close())
			wg.Wait()
		})
	}
	t.Cleanup(stop)
	return socks.port, stop
}

func serveNull(t *testing.T) (port uint16, stop func()) {
	return serve(t, func(s *rpc.Server) { s.Register(testProg, 1, rpc.HandlerFunc(nothing)) })
}

// Portmappers of older days have fewer versions: the search goes from 4 over 3
// to 2, over both transports.
func TestLookupFallsBack(t *testing.T) {
	program, _ := serveNull(t)
	mapper, err := New(Config{Registrations: []Registration{
		{testProg, 1, "tcp", WildcardUaddr("tcp", program), ""},
		{testProg, 1, "udp", WildcardUaddr("udp", program), ""},
	}})
	require.NoError(t, err)
	mapper.registerOwn(nil, false)
	missing := rpc.HandlerFunc(func(context.Context, *rpc.Call, *xdr.Decoder, []byte) ([]byte, error) {
		return nil, rpc.ErrProcUnavail
	})
	for name, register := range map[string]func(*rpc.Server){
		"All": mapper.register,
		"Version3And2": func(s *rpc.Server) {
			RegisterRpcbprogRpcbvers(s, version3{rpcbind{mapper, RPCBVERS}})
			RegisterPmapProgPmapVers(s, version2{mapper})
		},
		"Version2": func(s *rpc.Server) { RegisterPmapProgPmapVers(s, version2{mapper}) },
		"Version4WithoutProcedures": func(s *rpc.Server) {
			s.Register(RPCBPROG, RPCBVERS4, missing)
			RegisterPmapProgPmapVers(s, version2{mapper})
		},
	} {
		for _, network := range []string{"tcp", "udp"} {
			t.Run(name+"/"+network, func(t *testing.T) {
				port, _ := serve(t, register)
				t.Setenv(PortmapEnv, strconv.Itoa(int(port)))
				c, err := Dial(context.Background(), network, "127.0.0.2", testProg, 1, rpc.ClientConfig{})
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.Call(context.Background(), testProg, 1, 0, nil, nil))
				require.Equal(t, netip.MustParseAddr("127.0.0.2"), addrOf(c.RemoteAddr()), "the host that was asked for")

				_, err = Lookup(context.Background(), network, "127.0.0.2", testProg+1, 1)
				require.ErrorIs(t, err, ErrNotRegistered)
				require.ErrorContains(t, err, fmt.Sprintf("127.0.0.2:%d", port))
			})
		}
	}
}

func TestLookupErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusing := ln.Addr().String()
	require.NoError(t, ln.Close())
	t.Setenv(PortmapEnv, refusing)
	_, err = Lookup(ctx, "tcp", "127.0.0.1", testProg, 1)
	require.ErrorIs(t, err, ErrNoPortmapper)
	require.ErrorContains(t, err, refusing)

	_, err = Lookup(ctx, "tcp", "no-such-host.invalid", testProg, 1)
	require.ErrorContains(t, err, "no-such-host.invalid")

	// A portmapper that answers nonsense.
	port, _ := serve(t, func(s *rpc.Server) {
		s.Register(RPCBPROG, RPCBVERS4, rpc.HandlerFunc(func(_ context.Context, call *rpc.Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
			if call.Proc == RPCBPROC_GETADDR {
				return xdr.AppendString(b, "nonsense", 255)
			}
			return nil, nil
		}))
	})
	t.Setenv(PortmapEnv, fmt.Sprintf("127.0.0.1:%d", port))
	_, err = ask(ctx, lookupKey{"tcp", "127.0.0.1", testProg, 1}, netip.MustParseAddr("127.0.0.1"), fmt.Sprintf("127.0.0.1:%d", port))
	require.ErrorIs(t, err, ErrUaddr)
}

func TestEnvAddr(t *testing.T) {
	require.Equal(t, "10.0.0.1:10111", envAddr("10111", "10.0.0.1"))
	require.Equal(t, "[::1]:10111", envAddr("10111", "::1"))
	require.Equal(t, "10.0.0.9:7", envAddr("10.0.0.9:7", "10.0.0.1"))
}

// A Resolver asks once, and again when the program has moved.
func TestResolverRemembers(t *testing.T) {
	ctx := context.Background()
	srv, err := New(Config{})
	require.NoError(t, err)
	reg := srv.reg
	var asked atomic.Int32
	mapper, _ := serve(t, func(s *rpc.Server) {
		RegisterRpcbprogRpcbvers4(s, countingV4{version4{rpcbind{srv, RPCBVERS4}}, &asked})
	})
	t.Setenv(PortmapEnv, strconv.Itoa(int(mapper)))
	first, stop := serveNull(t)
	reg.set(Registration{testProg, 1, "tcp", WildcardUaddr("tcp", first), ""}, false)

	r := NewResolver()
	dial := func() error {
		c, err := r.Dial(ctx, "tcp", "127.0.0.1", testProg, 1, rpc.ClientConfig{})
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Call(ctx, testProg, 1, 0, nil, nil)
	}
	for range 3 {
		require.NoError(t, dial())
	}
	require.EqualValues(t, 1, asked.Load())

	stop()
	require.Error(t, dial(), "gone, and still registered")
	second, _ := serveNull(t)
	require.True(t, reg.unset(testProg, 1, ownerSuperuser))
	reg.set(Registration{testProg, 1, "tcp", WildcardUaddr("tcp", second), ""}, false)
	require.NoError(t, dial())
	require.NoError(t, dial())

	// Moved while the old port was remembered: found in the same Dial.
	asked.Store(0)
	r.ports[lookupKey{"tcp", "127.0.0.1", testProg, 1}] = fmt.Sprintf("127.0.0.1:%d", first)
	require.NoError(t, dial())
	require.EqualValues(t, 1, asked.Load())
	r.Forget("tcp", "127.0.0.1", testProg, 1)
	require.NoError(t, dial())
	require.EqualValues(t, 2, asked.Load())
}

type countingV4 struct {
	version4
	asked *atomic.Int32
}

func (c countingV4) RpcbprocGetaddr(ctx context.Context, arg Rpcb) (string, error) {
	c.asked.Add(1)
	return c.version4.RpcbprocGetaddr(ctx, arg)
}

// The context ends a look-up at a portmapper that accepts and is silent.
func TestLookupEndsWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = ask(ctx, lookupKey{"tcp", "127.0.0.1", testProg, 1}, netip.MustParseAddr("127.0.0.1"), ln.Addr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrNoPortmapper)
}
