package portmap

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/tests/netns"
	"starfish/xdr"
)

// counting is a Metrics that counts refusals.
type counting struct {
	noMetrics
	mu      sync.Mutex
	refused map[string]int
}

func (c *counting) Refused(reason string) {
	c.mu.Lock()
	if c.refused == nil {
		c.refused = make(map[string]int)
	}
	c.refused[reason]++
	c.mu.Unlock()
}

func (c *counting) Dropped(_, reason string) { c.Refused(reason) }

func (c *counting) of(reason string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused[reason]
}

// stranger is a host at the other end of a cable.
type stranger struct{ *netns.Host }

func newStranger(t *testing.T) stranger {
	t.Helper()
	far := netns.NewHost(t, "far")
	netns.Link(t, nil, "10.7.0.1/24", far, "10.7.0.2/24")
	return stranger{far}
}

// dial opens a socket there.
func (s stranger) dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	var conn net.Conn
	require.NoError(t, s.Do(func() (err error) {
		conn, err = net.DialTimeout(network, addr, peerTimeout)
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(replyTimeout)))
	return conn
}

func ask1(t *testing.T, conn net.Conn, network string, call []byte) []byte {
	t.Helper()
	if network != "udp" {
		call = withMark(call)
	}
	_, err := conn.Write(call)
	require.NoError(t, err)
	return readReply(t, conn, network)
}

// Whoever forges a source address gains nothing by us: an answer over UDP to
// another host is at most three times as long as the call. This host, and who
// asks over TCP, gets everything.
func TestAmplification(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	var regs []Registration
	for i := range uint32(100) {
		regs = append(regs, Registration{0x20000000 + i, 1, "tcp", "0.0.0.0.80.0", ownerUnknown})
	}
	var metrics counting
	start(t, Config{Listen: []netip.Addr{netip.MustParseAddr("10.7.0.1")}, Registrations: regs, Metrics: &metrics, Rate: -1})
	udp, tcp := far.dial(t, "udp", "10.7.0.1:111"), far.dial(t, "tcp", "10.7.0.1:111")
	local, err := net.Dial("udp", "127.0.0.1:111")
	require.NoError(t, err)
	defer local.Close()
	require.NoError(t, local.SetDeadline(time.Now().Add(replyTimeout)))

	const tooLong = 4
	refused := 0
	for vers := uint32(PMAP_VERS); vers <= RPCBVERS4; vers++ {
		for proc := range highest[vers-PMAP_VERS] + 2 {
			if proc == RPCBPROC_CALLIT {
				continue // fails, and is silent
			}
			for _, args := range [][]uint32{nil, {PMAP_PROG, 4, 6, 0}, {PMAP_PROG, 4, 0, 0, 0}, {0x20000001, 1, 0, 0, 0}, {0}} {
				call := request(RPCBPROG, vers, proc, args...)
				what := fmt.Sprintf("version %d procedure %d %v", vers, proc, args)
				got := ask1(t, udp, "udp", call)
				require.LessOrEqual(t, len(got), MaxAmplification*len(call), what)
				if proc == RPCBPROC_DUMP || vers == RPCBVERS4 && proc == RPCBPROC_GETSTAT {
					require.Equal(t, []byte{0, 0, 0, 3}, got[20:], "%s: PROC_UNAVAIL", what)
					require.Greater(t, len(ask1(t, tcp, "tcp", call)), MaxAmplification*len(call), what)
					require.Greater(t, len(ask1(t, local, "udp", call)), MaxAmplification*len(call), what)
					refused++
				}
			}
		}
	}
	require.Equal(t, tooLong*5, refused)
	require.Equal(t, refused, metrics.of(RefusedAmplification))
}

// GETADDR names the address on which the caller reached us, of several, over
// IPv4 and IPv6; a registration at one address keeps it.
func TestMergedAddresses(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	netns.AddAddr(t, nil, "to-far", "10.7.0.9/24")
	for _, ip := range []struct {
		host      *netns.Host
		addr, dev string
	}{{nil, "fd07::1/64", "to-far"}, {nil, "fd07::9/64", "to-far"}, {far.Host, "fd07::2/64", "to-test"}} {
		out, err := ip.host.Command("ip", "addr", "add", ip.addr, "dev", ip.dev, "nodad").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var regs []Registration
	for _, netid := range []string{"tcp", "udp", "tcp6", "udp6"} {
		regs = append(regs, Registration{testProg, 1, netid, WildcardUaddr(netid, 20480), ownerUnknown})
	}
	regs = append(regs, Registration{testProg, 2, "tcp", "10.9.9.9.80.0", ownerUnknown},
		Registration{testProg, 2, "udp6", "fd09::9.80.0", ownerUnknown})
	start(t, Config{Registrations: regs, Listen: []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}})
	for _, host := range []string{"10.7.0.1", "10.7.0.9", "fd07::1", "fd07::9"} {
		for _, network := range []string{"tcp", "udp"} {
			c := &Client{rpc: rpc.NewClient(far.dial(t, network, net.JoinHostPort(host, "111")), rpc.ClientConfig{})}
			c.vers.Store(RPCBVERS4)
			for vers := uint32(RPCBVERS); vers <= RPCBVERS4; vers++ {
				got, err := c.rpcbind(vers).RpcbprocGetaddr(t.Context(), Rpcb{RProg: testProg, RVers: 1, RAddr: "127.0.0.1.0.111"})
				require.NoError(t, err)
				require.Equal(t, host+".80.0", got, "%s, whatever the caller says", network)
			}
			v4 := NewRpcbprogRpcbvers4Client(c.rpc)
			list, err := v4.RpcbprocGetaddrlist(t.Context(), Rpcb{RProg: testProg, RVers: 1})
			require.NoError(t, err)
			require.Equal(t, host+".80.0", list.RpcbEntryMap.RMaddr)
			require.Equal(t, host+".80.0", list.RpcbEntryNext.RpcbEntryMap.RMaddr)
			require.Nil(t, list.RpcbEntryNext.RpcbEntryNext)
			want := map[string]string{"tcp10.7.0.1": "10.9.9.9.80.0", "tcp10.7.0.9": "10.9.9.9.80.0",
				"udpfd07::1": "fd09::9.80.0", "udpfd07::9": "fd09::9.80.0"}[network+host]
			got, err := v4.RpcbprocGetversaddr(t.Context(), Rpcb{RProg: testProg, RVers: 2})
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.NoError(t, c.Close())
		}
	}
}

// One source that calls without end is answered at its rate, and does not keep
// this host or another source from being served.
func TestRateOfOneSource(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	netns.AddAddr(t, far.Host, "to-test", "10.7.0.3/24")
	var metrics counting
	start(t, Config{Listen: []netip.Addr{netip.MustParseAddr("10.7.0.1")}, Metrics: &metrics, Rate: 5})
	null, dump := request(PMAP_PROG, PMAP_VERS, 0), request(PMAP_PROG, PMAP_VERS, PMAPPROC_DUMP)
	conn := far.dial(t, "tcp", "10.7.0.1:111")
	served := 0
	const calls = 300
	for range calls {
		if got := ask1(t, conn, "tcp", dump); len(got) > 28 {
			served++
		}
	}
	require.Equal(t, calls-served, metrics.of(RefusedRate))
	require.GreaterOrEqual(t, served, 20)
	require.Less(t, served, 200, "a burst of 20, and 5 a second")

	// Look-ups do not amplify: many clients of one host may start at once.
	lookups := [][]byte{null, request(PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT, PMAP_PROG, 2, 6, 0), request(RPCBPROG, RPCBVERS4, RPCBPROC_GETADDR, PMAP_PROG, 4, 0, 0, 0)}
	udp := far.dial(t, "udp", "10.7.0.1:111")
	for range 60 {
		for _, call := range lookups {
			got := ask1(t, conn, "tcp", call)
			require.Zero(t, got[27], "%x", got)
			got = ask1(t, udp, "udp", call)
			require.Zero(t, got[23], "%x", got)
		}
	}

	for range calls { // over loopback there is no bound
		require.NoError(t, answersAt("127.0.0.1:111"))
	}
	var other net.Conn
	require.NoError(t, far.Do(func() (err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 7, 0, 3)}, Timeout: peerTimeout}
		other, err = d.Dial("tcp", "10.7.0.1:111")
		return err
	}))
	defer other.Close()
	got := ask1(t, other, "tcp", null)
	require.Zero(t, got[len(got)-1])
}

func answersAt(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	c, err := target{"tcp", addr}.connect(ctx)
	if err == nil {
		c.Close()
	}
	return err
}

// from makes a client that calls from a source port, over loopback.
func from(t *testing.T, network string, port int) *Client {
	t.Helper()
	var d net.Dialer
	if port != 0 {
		ip := net.IPv4(127, 0, 0, 1)
		d.LocalAddr = &net.TCPAddr{IP: ip, Port: port}
		if network == "udp" {
			d.LocalAddr = &net.UDPAddr{IP: ip, Port: port}
		}
	}
	conn, err := d.Dial(network, "127.0.0.1:111")
	require.NoError(t, err)
	c := &Client{rpc: rpc.NewClient(conn, rpc.ClientConfig{}), addr: "127.0.0.1:111"}
	c.vers.Store(RPCBVERS4)
	t.Cleanup(func() { c.Close() })
	return c
}

// A port below 1024 takes root: uid 0 on the socket, or a source port below
// 1024.
func TestReservedPorts(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	ctx := context.Background()
	var metrics counting
	s, stop := start(t, Config{SocketPath: DefaultSocket, Metrics: &metrics})
	low := func(vers uint32) Registration {
		return Registration{Prog: testProg, Vers: vers, Netid: "tcp", Addr: "0.0.0.0.3.255"}
	}
	for i, network := range []string{"tcp", "udp"} {
		vers := uint32(10 * i)
		require.ErrorIs(t, from(t, network, 0).Set(ctx, low(vers)), ErrRefused, network)
		root := from(t, network, 700+i)
		require.NoError(t, root.Set(ctx, low(vers+1)), network)
		got, _ := s.reg.lookup(testProg, vers+1, "tcp", true)
		require.Equal(t, ownerSuperuser, got.Owner, "only root has such a source port")
		require.ErrorIs(t, from(t, network, 0).Unset(ctx, testProg, vers+1, ""), ErrRefused)
		old := from(t, network, 710+i)
		old.vers.Store(PMAP_VERS)
		require.NoError(t, old.Set(ctx, low(vers+2)), "version 2")
		old = from(t, network, 0)
		old.vers.Store(PMAP_VERS)
		require.ErrorIs(t, old.Set(ctx, low(vers+3)), ErrRefused, "version 2")
		require.NoError(t, from(t, network, 0).Set(ctx, Registration{Prog: testProg, Vers: vers + 4, Netid: "tcp", Addr: "0.0.0.0.4.0"}), "port 1024")
	}
	require.Equal(t, 4, metrics.of(RefusedPort))
	unix, err := Local(ctx)
	require.NoError(t, err)
	defer unix.Close()
	require.Equal(t, DefaultSocket, unix.Addr())
	require.NoError(t, unix.Set(ctx, low(20)))
	stop()

	// -i lifts it.
	start(t, Config{Insecure: true})
	require.NoError(t, from(t, "tcp", 0).Set(ctx, low(1)))
	require.NoError(t, from(t, "udp", 0).Set(ctx, low(2)))
}

// -i does not let other hosts register.
func TestInsecureIsForThisHost(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	start(t, Config{Insecure: true, Listen: []netip.Addr{netip.IPv4Unspecified()}})
	for _, network := range []string{"tcp", "udp"} {
		c := &Client{rpc: rpc.NewClient(far.dial(t, network, "10.7.0.1:111"), rpc.ClientConfig{}), addr: "10.7.0.1:111"}
		c.vers.Store(RPCBVERS4)
		require.ErrorIs(t, c.Set(context.Background(), Registration{Prog: 7, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}), rpc.AuthError(rpc.AUTH_TOOWEAK))
		require.NoError(t, c.Close())
	}
}

// Where any user may bind low ports they prove nothing.
func TestReservedSources(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	const sysctl = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	require.EqualValues(t, 1024, reservedSources())
	if err := os.WriteFile(sysctl, []byte("600"), 0); errors.Is(err, os.ErrPermission) {
		t.Skip("the setting cannot be changed here")
	}
	s, _ := start(t, Config{})
	ctx := context.Background()
	r := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}
	require.NoError(t, from(t, "tcp", 700).Set(ctx, r))
	got, _ := s.reg.lookup(testProg, 1, "tcp", true)
	require.Equal(t, ownerUnknown, got.Owner)
}

// A call that is passed on comes from the address that its caller reached us
// by, never from loopback; of what fails only INDIRECT learns.
func TestRemoteCalls(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{})
	require.NoError(t, err)
	callers := make(chan string, 10)
	server := rpc.NewServer(rpc.ServerConfig{})
	echo := rpc.HandlerFunc(func(_ context.Context, call *rpc.Call, args *xdr.Decoder, b []byte) ([]byte, error) {
		callers <- addrOf(call.Remote).String()
		if call.Proc == 9 {
			return nil, rpc.ErrGarbageArgs
		}
		return append(b, args.Rest()...), nil
	})
	regs := []Registration{}
	port := addrPortOf(conn.LocalAddr()).Port()
	for _, prog := range []uint32{testProg, progNFS, progSlave, progMount} {
		server.Register(prog, 1, echo)
		regs = append(regs, Registration{prog, 1, "udp", WildcardUaddr("udp", port), ownerUnknown})
	}
	served := make(chan error, 1)
	go func() { served <- server.ServePacket(conn) }()
	defer func() {
		require.NoError(t, server.Close())
		require.NoError(t, <-served)
	}()
	var metrics counting
	start(t, Config{RemoteCalls: true, Metrics: &metrics, Listen: []netip.Addr{netip.IPv4Unspecified()}, Registrations: regs, Rate: -1})
	udp := far.dial(t, "udp", "10.7.0.1:111")
	words := func(vs ...uint32) string {
		var b []byte
		for _, v := range vs {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return hex.EncodeToString(b)
	}
	ask := func(vers, proc uint32, args ...uint32) string {
		t.Helper()
		return hex.EncodeToString(ask1(t, udp, "udp", request(RPCBPROG, vers, proc, args...))[8:])
	}
	silent := func(vers, proc uint32, args ...uint32) {
		t.Helper()
		before := metrics.of(rpc.DropSilent)
		_, err := udp.Write(request(RPCBPROG, vers, proc, args...))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return metrics.of(rpc.DropSilent) == before+1 }, replyTimeout, time.Millisecond)
		ask(2, 0) // whose answer is the next that comes
	}
	const accepted = "000000000000000000000000" // MSG_ACCEPTED, AUTH_NONE
	tooWeak := words(1, 1, 5)
	uaddr := xdr.AppendUint32(nil, 0)
	uaddr, err = xdr.AppendString(uaddr, fmt.Sprintf("10.7.0.1.%d.%d", port>>8, port&0xff), 255)
	require.NoError(t, err)

	require.Equal(t, accepted+words(0, uint32(port), 4, 77), ask(2, PMAPPROC_CALLIT, testProg, 1, 5, 4, 77))
	for _, p := range []struct{ vers, proc uint32 }{{3, RPCBPROC_CALLIT}, {4, RPCBPROC_BCAST}, {4, RPCBPROC_INDIRECT}} {
		require.Equal(t, accepted+hex.EncodeToString(uaddr)+words(4, 77), ask(p.vers, p.proc, testProg, 1, 5, 4, 77))
	}
	require.Equal(t, accepted+hex.EncodeToString(uaddr)+words(0), ask(4, RPCBPROC_INDIRECT, progNFS, 1, 0, 0), "NULL may always be called")
	require.Equal(t, accepted+hex.EncodeToString(uaddr)+words(0), ask(4, RPCBPROC_INDIRECT, progMount, 1, 2, 0), "and mountd's list")
	for range 6 {
		require.Equal(t, "10.7.0.1", <-callers, "not loopback, which would be trusted")
	}
	for _, c := range [][]uint32{{progNFS, 1, 1}, {progSlave, 1, 4}, {progMount, 1, mountMnt}, {PMAP_PROG, 4, RPCBPROC_SET}, {PMAP_PROG, 2, PMAPPROC_UNSET}} {
		require.Equal(t, tooWeak, ask(4, RPCBPROC_INDIRECT, append(c, 0)...), "%v", c)
		silent(2, PMAPPROC_CALLIT, append(c, 0)...)
		silent(3, RPCBPROC_CALLIT, append(c, 0)...)
	}
	require.Equal(t, 15, metrics.of(RefusedForward))
	for _, c := range [][]uint32{{testProg, 1, 9, 0}, {testProg, 2, 1, 0}, {testProg + 1, 1, 1, 0}, {testProg, 1, 1, 0x3fffffff}} {
		silent(2, PMAPPROC_CALLIT, c...)
		silent(3, RPCBPROC_CALLIT, c...)
		silent(4, RPCBPROC_BCAST, c...)
	}

	require.Equal(t, accepted+words(5), ask(4, RPCBPROC_INDIRECT, testProg, 1, 9, 0), "its GARBAGE_ARGS is not ours")
	require.Equal(t, accepted+words(2, 1, 1), ask(4, RPCBPROC_INDIRECT, testProg, 2, 1, 0))
	require.Equal(t, accepted+words(1), ask(4, RPCBPROC_INDIRECT, testProg+1, 1, 1, 0))
	require.Equal(t, accepted+words(4), ask(4, RPCBPROC_INDIRECT, testProg, 1, 1, 0x3fffffff))
}
