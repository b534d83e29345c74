package portmap

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// everywhere opens a socket at the stranger that sends to whom it likes, by the
// cable also where there is no route.
func (s stranger) everywhere(t *testing.T, network string) *net.UDPConn {
	t.Helper()
	var conn net.PacketConn
	require.NoError(t, s.Do(func() (err error) {
		lc := net.ListenConfig{Control: func(n, a string, c syscall.RawConn) error { return bindToDevice("to-test")(n, a, c) }}
		conn, err = lc.ListenPacket(context.Background(), network, ":0")
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UDPConn)
}

// A question that is sent to everybody is answered by the address of the
// interface that it came in on, as rpcbind answers it: instruments are found so.
func TestBroadcast(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := newStranger(t)
	out, err := exec.Command("ip", "addr", "add", "fd07::1/64", "dev", "to-far", "nodad").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = far.Command("ip", "addr", "add", "fd07::2/64", "dev", "to-test", "nodad").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, act := range []string{"del", "add"} { // with the broadcast address that rpcinfo -b sends to
		args := []string{"addr", act, "10.7.0.2/24", "dev", "to-test"}
		if act == "add" {
			args = append(args, "brd", "+")
		}
		out, err = far.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{})
	require.NoError(t, err)
	port := addrPortOf(conn.LocalAddr()).Port()
	server := rpc.NewServer(rpc.ServerConfig{})
	server.Register(testProg, 1, rpc.HandlerFunc(nothing))
	served := make(chan error, 1)
	go func() { served <- server.ServePacket(conn) }()
	defer func() {
		require.NoError(t, server.Close())
		require.NoError(t, <-served)
	}()
	regs := []Registration{{testProg, 1, "udp", WildcardUaddr("udp", port), ownerUnknown}, {testProg, 1, "udp6", WildcardUaddr("udp6", 20480), ownerUnknown}}

	check := func(t *testing.T) {
		u4 := far.everywhere(t, "udp4")
		ask := func(conn *net.UDPConn, to string, call []byte) (reply []byte, from netip.AddrPort) {
			t.Helper()
			at, err := net.ResolveUDPAddr("udp", to)
			require.NoError(t, err)
			_, err = conn.WriteTo(call, at)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(replyTimeout)))
			buf := make([]byte, 9000)
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			require.NoError(t, err, "%s", to)
			return buf[:n], from
		}
		words := func(vs ...uint32) (b []byte) {
			for _, v := range vs {
				b = binary.BigEndian.AppendUint32(b, v)
			}
			return b
		}
		uaddr := func(host string, port uint16) string {
			b, err := Rpcb{RNetid: Uaddr(netip.AddrPortFrom(netip.MustParseAddr(host), port))}.AppendXDR(nil)
			require.NoError(t, err)
			return hex.EncodeToString(b[8 : len(b)-8])
		}
		for _, to := range []string{"10.7.0.1:111", "10.7.0.255:111", "255.255.255.255:111"} {
			is := func(want string, call []byte) {
				t.Helper()
				got, from := ask(u4, to, call)
				require.Equal(t, "10.7.0.1", from.Addr().Unmap().String(), to) // rpcbind answers what it passes on from another port
				require.Equal(t, want, hex.EncodeToString(got[24:]), "%s: %x", to, got)
			}
			is("", request(PMAP_PROG, 2, 0))
			is(hex.EncodeToString(words(uint32(port))), request(PMAP_PROG, 2, PMAPPROC_GETPORT, testProg, 1, 17, 0))
			is(uaddr("10.7.0.1", port), request(RPCBPROG, 3, RPCBPROC_GETADDR, testProg, 1, 0, 0, 0))
			is(uaddr("10.7.0.1", port), request(RPCBPROG, 4, RPCBPROC_GETADDR, testProg, 1, 0, 0, 0))
			is(hex.EncodeToString(words(uint32(port), 0)), request(PMAP_PROG, 2, PMAPPROC_CALLIT, testProg, 1, 0, 0))
			is(uaddr("10.7.0.1", port)+"00000000", request(RPCBPROG, 3, RPCBPROC_CALLIT, testProg, 1, 0, 0))
			is(uaddr("10.7.0.1", port)+"00000000", request(RPCBPROG, 4, RPCBPROC_BCAST, testProg, 1, 0, 0))
			// What fails is silent: the next question's answer comes first.
			for _, silent := range [][]byte{
				request(PMAP_PROG, 2, PMAPPROC_CALLIT, testProg+1, 1, 0, 0), request(PMAP_PROG, 2, PMAPPROC_CALLIT, testProg, 1, 1, 0x3fffffff),
				request(RPCBPROG, 3, RPCBPROC_CALLIT, testProg+1, 1, 0, 0), request(RPCBPROG, 4, RPCBPROC_BCAST, testProg+1, 1, 0, 0),
			} {
				at, err := net.ResolveUDPAddr("udp", to)
				require.NoError(t, err)
				_, err = u4.WriteTo(silent, at)
				require.NoError(t, err)
				is(hex.EncodeToString(words(uint32(port))), request(PMAP_PROG, 2, PMAPPROC_GETPORT, testProg, 1, 17, 0))
			}
		}
		p := cpeer.Start(t, far.Command("stdbuf", "-oL", cpeer.Tool(t, "rpcinfo"), "-b", "536870961", "1"))
		p.WaitFor(t, Uaddr(netip.AddrPortFrom(netip.MustParseAddr("10.7.0.1"), port)), 60*time.Second)
	}
	t.Run("Starfish", func(t *testing.T) {
		_, stop := start(t, Config{RemoteCalls: true, Listen: []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}, Registrations: regs, SocketPath: DefaultSocket})
		defer stop()
		check(t)
		u6 := far.everywhere(t, "udp6")
		at, err := net.ResolveUDPAddr("udp6", "[ff02::1]:111")
		require.NoError(t, err)
		_, err = u6.WriteTo(request(RPCBPROG, 4, RPCBPROC_GETADDR, testProg, 1, 0, 0, 0), at)
		require.NoError(t, err)
		require.NoError(t, u6.SetReadDeadline(time.Now().Add(replyTimeout)))
		buf := make([]byte, 9000)
		n, from, err := u6.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.NotEqual(t, "::", from.Addr().String())
		require.Contains(t, string(buf[:n]), from.Addr().WithZone("").String()+".80.0")
	})
	t.Run("rpcbind", func(t *testing.T) {
		require.NoError(t, exec.Command("mkdir", "-p", "/run/rpcbind").Run())
		cpeer.Start(t, exec.Command(cpeer.Tool(t, "rpcbind"), "-f", "-r", "-i"))
		eventually(t, func() error { return answersAt("127.0.0.1:111") })
		c := from(t, "tcp", 700)
		require.NoError(t, c.Set(t.Context(), regs[0]))
		check(t)
	})
}
