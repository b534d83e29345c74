package portmap

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
	"starfish/xdr"
)

// startRpcbind runs Debian's rpcbind until the test ends.
func startRpcbind(t *testing.T) *cpeer.Process {
	t.Helper()
	require.NoError(t, os.MkdirAll("/run/rpcbind", 0o755))
	p := cpeer.Start(t, exec.Command(cpeer.Tool(t, "rpcbind"), "-f", "-w"))
	eventually(t, func() error {
		c, err := target{"unix", DefaultSocket}.connect(context.Background())
		if err == nil {
			c.Close()
		}
		return err
	})
	return p
}

// conversation is what a portmapper answers to a list of requests, in hex, a
// line for each, with what was asked.
func conversation(t *testing.T) string {
	t.Helper()
	at := bench{tcp: "127.0.0.1:111", udp: "127.0.0.1:111", unix: DefaultSocket}
	var text strings.Builder
	ask := func(what, network string, call []byte) {
		if network != "udp" {
			call = withMark(call)
		}
		fmt.Fprintf(&text, "%s %s: %s\n", network, what, hex.EncodeToString(at.roundTrip(t, network, call)))
	}
	rpcb := func(vers, proc, prog, progVers uint32, netid, addr string) []byte {
		b, err := Rpcb{prog, progVers, netid, addr, "forged"}.AppendXDR(request(RPCBPROG, vers, proc))
		require.NoError(t, err)
		return b
	}
	pmap := func(proc uint32, args ...uint32) []byte { return request(PMAP_PROG, PMAP_VERS, proc, args...) }
	dump := func() {
		for vers := uint32(2); vers <= 4; vers++ {
			ask(fmt.Sprint("dump ", vers), "unix", request(PMAP_PROG, vers, RPCBPROC_DUMP))
		}
	}
	const a, b, c = 0x20000011, 0x20000012, 0x20000013
	dump()
	for _, network := range []string{"unix", "tcp", "udp"} {
		for vers := uint32(1); vers <= 5; vers++ {
			ask("null", network, request(PMAP_PROG, vers, 0))
			ask("proc 99", network, request(PMAP_PROG, vers, 99))
		}
		ask("other program", network, request(100001, 4, 0))
		ask("own address", network, rpcb(4, RPCBPROC_GETADDR, PMAP_PROG, 4, "tcp", ""))
		ask("own address", network, rpcb(3, RPCBPROC_GETADDR, PMAP_PROG, 9, "tcp", ""))
		ask("own port", network, pmap(PMAPPROC_GETPORT, PMAP_PROG, 2, 6, 0))
		ask("own port, no protocol", network, pmap(PMAPPROC_GETPORT, PMAP_PROG, 2, 0, 0))
		ask("own port, strange protocol", network, pmap(PMAPPROC_GETPORT, PMAP_PROG, 2, 99, 0))
	}
	ask("set a by root", "unix", rpcb(3, RPCBPROC_SET, a, 1, "tcp", "0.0.0.0.8.1"))
	ask("set a by root, again", "tcp", rpcb(4, RPCBPROC_SET, a, 1, "tcp", "0.0.0.0.8.1"))
	ask("set a, other address", "udp", rpcb(4, RPCBPROC_SET, a, 1, "tcp", "0.0.0.0.8.2"))
	ask("set a 3", "unix", rpcb(4, RPCBPROC_SET, a, 3, "tcp", "0.0.0.0.8.3"))
	ask("set a over udp", "unix", rpcb(4, RPCBPROC_SET, a, 1, "udp", "0.0.0.0.8.4"))
	ask("set a over a strange transport", "unix", rpcb(4, RPCBPROC_SET, a, 1, "bogus", "x"))
	ask("set b by pmap", "udp", pmap(PMAPPROC_SET, b, 1, 6, 2049))
	ask("set b by pmap, strange protocol", "tcp", pmap(PMAPPROC_SET, b, 1, 99, 2049))
	ask("set c over tcp6", "unix", rpcb(4, RPCBPROC_SET, c, 1, "tcp6", "::.8.5"))
	dump()
	for _, network := range []string{"unix", "tcp", "udp"} {
		for vers := uint32(1); vers <= 4; vers++ {
			ask(fmt.Sprint("port of a ", vers), network, pmap(PMAPPROC_GETPORT, a, vers, 6, 0))
			ask(fmt.Sprint("udp port of a ", vers), network, pmap(PMAPPROC_GETPORT, a, vers, 17, 0))
		}
	}
	ask("unset a by a stranger", "tcp", rpcb(4, RPCBPROC_UNSET, a, 1, "tcp", ""))
	ask("unset a 1 by pmap, stranger", "udp", pmap(PMAPPROC_UNSET, a, 1, 0, 0))
	ask("unset b by another unknown", "tcp", rpcb(4, RPCBPROC_UNSET, b, 1, "", ""))
	ask("unset c by root, other transport", "unix", rpcb(4, RPCBPROC_UNSET, c, 1, "udp6", ""))
	ask("unset c by root, any case", "unix", rpcb(3, RPCBPROC_UNSET, c, 1, "TCP6", ""))
	dump()
	ask("unset a 3 by root", "unix", rpcb(3, RPCBPROC_UNSET, a, 3, "", ""))
	ask("unset a 1 by root", "unix", rpcb(3, RPCBPROC_UNSET, a, 1, "", ""))
	ask("unset nothing", "unix", rpcb(3, RPCBPROC_UNSET, a, 1, "", ""))
	ask("unset nothing by pmap", "tcp", pmap(PMAPPROC_UNSET, a, 1, 0, 0))
	dump()
	for _, network := range []string{"unix", "tcp", "udp"} {
		for _, uaddr := range []string{"127.0.0.1.8.1", "::1.8.1", "/run/x", "nonsense", ""} {
			if network != "unix" || strings.HasPrefix(uaddr, "/") { // where rpcbind takes anything for a path
				ask("taddr of "+uaddr, network, xdrCall(t, 4, RPCBPROC_UADDR2TADDR, uaddr))
			}
		}
		for _, taddr := range []string{"\x02\x00\x00\x6f\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00", ""} {
			if network != "unix" {
				ask("uaddr", network, append(request(RPCBPROG, 4, RPCBPROC_TADDR2UADDR, uint32(len(taddr))), xdrCall(t, 0, 0, taddr)[40:]...))
			}
		}
	}
	ask("uaddr of a path", "unix", append(request(RPCBPROG, 4, RPCBPROC_TADDR2UADDR, 9), xdrCall(t, 0, 0, "\x01\x00/run/x\x00")[40:]...))
	ask("addresses of the portmapper", "tcp", rpcb(4, RPCBPROC_GETADDRLIST, PMAP_PROG, 4, "", ""))
	ask("addresses of a", "udp", rpcb(4, RPCBPROC_GETADDRLIST, a, 1, "", ""))
	ask("addresses of nothing", "udp", rpcb(4, RPCBPROC_GETADDRLIST, 99, 1, "", ""))
	for _, network := range []string{"tcp", "udp"} {
		ask("this version", network, rpcb(4, RPCBPROC_GETVERSADDR, PMAP_PROG, 4, "", ""))
		ask("another version", network, rpcb(4, RPCBPROC_GETVERSADDR, PMAP_PROG, 9, "", ""))
	}
	indirect := func(what string, args ...uint32) {
		ask("indirect "+what, "udp", request(RPCBPROG, 4, RPCBPROC_INDIRECT, append(args, 0)...))
	}
	indirect("while off", PMAP_PROG, 4, 0)
	indirect("unknown program", 77, 4, 1)
	indirect("unknown version", PMAP_PROG, 9, 0)
	indirect("to the portmapper", PMAP_PROG, 4, RPCBPROC_GETADDR)
	indirect("to nfs", 100003, 3, 1)
	ask("statistics", "tcp", request(RPCBPROG, 4, RPCBPROC_GETSTAT))
	ask("statistics", "unix", request(RPCBPROG, 4, RPCBPROC_GETSTAT))
	return text.String()
}

func xdrCall(t *testing.T, vers, proc uint32, arg string) []byte {
	b := request(RPCBPROG, vers, proc, uint32(len(arg)))
	return append(b, append([]byte(arg), make([]byte, (4-len(arg)%4)%4)...)...)
}

// The same requests, byte for byte, to rpcbind and then to ours in its place.
func TestSideBySideWithRpcbind(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	theirs := startRpcbind(t)
	want := conversation(t)
	require.NoError(t, theirs.Signal(15))
	require.NoError(t, theirs.Wait(t, peerTimeout))
	_, stop := start(t, Config{SocketPath: DefaultSocket})
	c, err := Local(context.Background()) // as startRpcbind did: calls are counted
	require.NoError(t, err)
	c.Close()
	got := conversation(t)
	require.Equal(t, want, got)
	stop()
	require.NoFileExists(t, DefaultSocket)
}

// Our client side works against rpcbind.
func TestClientWithRpcbind(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	startRpcbind(t)
	ctx := context.Background()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := rpc.NewServer(rpc.ServerConfig{})
	server.Register(0x20000021, 1, rpc.HandlerFunc(nothing))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	defer func() {
		require.NoError(t, server.Close())
		<-done
	}()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	reg := Registration{Prog: 0x20000021, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", port)}

	for _, vers := range []uint32{RPCBVERS4, RPCBVERS, PMAP_VERS} {
		t.Run(fmt.Sprint("version ", vers), func(t *testing.T) {
			c, err := Local(ctx)
			require.NoError(t, err)
			defer c.Close()
			require.Equal(t, DefaultSocket, c.Addr())
			c.vers.Store(vers)
			require.NoError(t, c.Set(ctx, reg))
			require.NoError(t, c.Set(ctx, reg))
			other := reg
			other.Addr = "0.0.0.0.0.1"
			require.ErrorIs(t, c.Set(ctx, other), ErrRefused)
			list, err := c.Dump(ctx)
			require.NoError(t, err)
			reg := reg
			if vers != PMAP_VERS {
				reg.Owner = ownerSuperuser
			}
			require.Contains(t, list, reg)

			tcp, err := Connect(ctx, "tcp", "127.0.0.1:111", rpc.ClientConfig{})
			require.NoError(t, err)
			defer tcp.Close()
			tcp.vers.Store(vers)
			uaddr, err := tcp.GetAddr(ctx, reg.Prog, 1, "tcp")
			require.NoError(t, err)
			at, err := ParseUaddr(uaddr)
			require.NoError(t, err)
			require.Equal(t, port, at.Port())
			if vers != PMAP_VERS { // version 2's UNSET always says TRUE here
				require.ErrorIs(t, tcp.Unset(ctx, reg.Prog, 1, ""), ErrRefused)
			}

			require.NoError(t, c.Unset(ctx, reg.Prog, 1, ""))
			_, err = tcp.GetAddr(ctx, reg.Prog, 1, "tcp")
			require.ErrorIs(t, err, ErrNotRegistered)
		})
	}

	// rpcbind names 127.0.0.1; we dial the host that was asked for.
	c, err := Local(ctx)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Set(ctx, reg))
	addr, err := Lookup(ctx, "tcp", "127.0.0.3", reg.Prog, 1)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("127.0.0.3:%d", port), addr)
}

// A Keeper registers with rpcbind, again after rpcbind has forgotten, in the
// place of a dead program's, and leaves; what it registered C finds.
func TestKeeperWithRpcbind(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	theirs := startRpcbind(t)
	ctx := context.Background()
	port, _ := serveNull(t)
	reg := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", port)}
	c, err := Local(ctx)
	require.NoError(t, err)
	dead := reg
	dead.Addr = "0.0.0.0.80.0"
	require.NoError(t, c.Set(ctx, dead))
	require.NoError(t, c.Close())
	k, stop := keep(t, KeeperConfig{Registrations: []Registration{reg}})
	<-k.Ready()
	found := func() error {
		out, err := tryRun(exec.Command(cpeer.Tool(t, "rpcinfo"), "-T", "tcp", "127.0.0.1", fmt.Sprint(testProg), "1"))
		if err == nil && !strings.Contains(out, "ready and waiting") {
			err = fmt.Errorf("%s", out)
		}
		return err
	}
	require.NoError(t, found())
	require.NoError(t, theirs.Signal(15))
	require.NoError(t, theirs.Wait(t, peerTimeout))
	require.Error(t, found())
	startRpcbind(t)
	eventually(t, found)
	stop()
	require.Error(t, found())
}

// nothing answers every call with nothing.
func nothing(context.Context, *rpc.Call, *xdr.Decoder, []byte) ([]byte, error) { return nil, nil }

// An Auto uses rpcbind while it runs, and serves in its place when it is gone,
// with what was registered.
func TestAutoTakesOverFromRpcbind(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	p := buildPeers(t)
	theirs := startRpcbind(t)
	startServer(t, p)
	changes := make(chan Status, 10)
	auto := runAuto(t, AutoConfig{Interval: 20 * time.Millisecond, Changed: func(s Status) { changes <- s }})
	require.Equal(t, Status{Port: 111}, <-changes)
	require.Equal(t, Status{Port: 111}, auto.Status())
	require.NoError(t, theirs.Signal(15))
	require.NoError(t, theirs.Wait(t, peerTimeout))
	require.Equal(t, Status{Port: 111, Own: true}, <-changes)
	require.Equal(t, "hello\n", run(t, exec.Command(p.client, "127.0.0.3", "tcp", "3", "hello")))
	require.Equal(t, "hello\n", run(t, exec.Command(p.client, "127.0.0.1", "udp", "1", "hello")))
	require.Contains(t, rpcinfo(t), "superuser")
	startServer(t, p)
}

// runAuto runs an Auto until the test ends, and returns when it is ready.
func runAuto(t *testing.T, cfg AutoConfig) *Auto {
	t.Helper()
	a, _ := runAutoUntil(t, cfg)
	return a
}

func runAutoUntil(t *testing.T, cfg AutoConfig) (a *Auto, stop func()) {
	t.Helper()
	a = NewAuto(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = func() {
		cancel()
		if done != nil {
			require.NoError(t, <-done)
			done = nil
		}
	}
	t.Cleanup(stop)
	<-a.Ready()
	return a, stop
}
