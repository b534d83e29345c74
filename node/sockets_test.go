package node

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
)

func TestOwnAddresses(t *testing.T) {
	all := &sockets{addrs: []netip.Addr{netip.IPv4Unspecified()}}
	require.True(t, all.owns(netip.MustParseAddr("127.0.0.77")))
	require.False(t, all.owns(netip.MustParseAddr("::1")))
	require.False(t, all.owns(netip.MustParseAddr("192.0.2.1")))
	ifaces, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, i := range ifaces {
		ip, _ := netip.AddrFromSlice(i.(*net.IPNet).IP)
		require.Equal(t, ip.Unmap().Is4(), all.owns(ip.Unmap()))
	}
	one := &sockets{addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}
	require.False(t, one.owns(netip.MustParseAddr("127.0.0.3")), "a sibling at the same port")
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestDistinct(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1 ::1":                 "127.0.0.1 ::1",
		"127.0.0.1 127.0.0.1":           "127.0.0.1",
		"127.0.0.1 0.0.0.0 ::1":         "0.0.0.0 ::1",
		"127.0.0.1 ::1 ::":              "127.0.0.1 ::",
		"::ffff:127.0.0.1 127.0.0.1":    "127.0.0.1",
		"::ffff:0.0.0.0 127.0.0.1 ::1":  "0.0.0.0 ::1",
		"0.0.0.0 0.0.0.0 127.0.0.2 ::2": "0.0.0.0 ::2",
	} {
		require.Equal(t, addrs(strings.Fields(want)...), distinct(addrs(strings.Fields(in)...)), in)
	}
}

func TestListenRefuses(t *testing.T) {
	open := func(port int, at ...string) (*sockets, error) {
		return listen(t.Context(), &Config{Name: "slave", Network: System, Addrs: addrs(at...), Port: port, InUse: "another slave? say --port"})
	}
	_, err := open(AnyPort, "192.0.2.1")
	require.ErrorContains(t, err, "slave: listen: ")
	require.ErrorContains(t, err, "not one of this host")
	s, err := open(AnyPort, "127.0.0.2")
	require.NoError(t, err)
	defer s.close()
	_, err = open(int(s.port), "127.0.0.2")
	require.ErrorContains(t, err, "another slave? say --port")
	other, err := open(int(s.port), "127.0.0.3", "127.0.0.3")
	require.NoError(t, err, "a sibling with its own address")
	other.close()
}

// An address that a host need not have is left out, and only that one.
func TestListenOptional(t *testing.T) {
	cfg := &Config{Name: "master", Network: System, Addrs: addrs("127.0.0.2", "2001:db8::1"), Optional: addrs("2001:db8::1"), Port: AnyPort}
	s, err := listen(t.Context(), cfg)
	require.NoError(t, err)
	defer s.close()
	require.Equal(t, addrs("127.0.0.2"), s.addrs)
	n := &Node{cfg: Config{Program: 7, Versions: []uint32{1, 2}}, socks: s}
	var netids []string
	for _, r := range n.registrations() {
		netids = append(netids, r.Netid)
	}
	require.Equal(t, []string{"tcp", "udp", "tcp", "udp"}, netids)
	cfg.Optional = nil
	_, err = listen(t.Context(), cfg)
	require.Error(t, err)
}

func TestCallers(t *testing.T) {
	may := NewCallers([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")})
	for from, want := range map[net.Addr]bool{
		&net.TCPAddr{IP: net.ParseIP("127.3.0.1")}:          true,
		&net.UDPAddr{IP: net.ParseIP("::1")}:                true,
		&net.UDPAddr{IP: net.ParseIP("::ffff:127.0.0.1")}:   true,
		&net.TCPAddr{IP: net.ParseIP("10.1.2.3")}:           true,
		&net.TCPAddr{IP: net.ParseIP("10.2.2.3")}:           false,
		&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "x"}: false,
		&net.UnixAddr{Name: "/s"}:                           true,
		nil:                                                 false,
	} {
		call := &rpc.Call{Remote: from}
		require.Equal(t, want, rpc.Access(may.rules, call) == rpc.AUTH_OK, from)
		require.Equal(t, want && (from == nil || !strings.HasPrefix(from.String(), "10.")), rpc.Access(NewCallers(nil).rules, call) == rpc.AUTH_OK, from)
	}
	require.True(t, may.Allow(t.Context()), "called within the process")
}
