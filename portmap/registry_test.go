package portmap

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUaddr(t *testing.T) {
	for _, c := range []struct{ uaddr, hostPort string }{
		{"127.0.0.1.0.111", "127.0.0.1:111"},
		{"0.0.0.0.8.1", "0.0.0.0:2049"},
		{"127.0.0.1.255.255", "127.0.0.1:65535"},
		{"::1.0.111", "[::1]:111"},
		{"::.0.111", "[::]:111"},
		{"fe80::1%eth0.1.0", "[fe80::1%eth0]:256"},
	} {
		addr, err := ParseUaddr(c.uaddr)
		require.NoError(t, err, c.uaddr)
		require.Equal(t, c.hostPort, addr.String())
		require.Equal(t, c.uaddr, Uaddr(addr))
	}
	for _, bad := range []string{"", ".", "..", "1.2", "127.0.0.1", "127.0.0.1.0.256", "127.0.0.1.-1.1",
		"127.0.0.1.0.111 ", "127.0.0.0.0.1.1.1", "host.0.111", "127.0.0.1.0x1.1", "127.0.0.1.+1.1", "/run/rpcbind.sock"} {
		_, err := ParseUaddr(bad)
		require.ErrorIs(t, err, ErrUaddr, bad)
	}
	require.Equal(t, "0.0.0.0.80.0", WildcardUaddr("tcp", 20480))
	require.Equal(t, "::.80.0", WildcardUaddr("udp6", 20480))
}

// What parses is written back to the same address.
func FuzzParseUaddr(f *testing.F) {
	for _, s := range []string{"127.0.0.1.0.111", "::1.255.255", "::.0.0", "1.2.3.4.5", "fe80::1%lo.1.2", "", "...", "1.1.1.1.256.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		addr, err := ParseUaddr(s)
		if err != nil {
			require.ErrorIs(t, err, ErrUaddr)
			return
		}
		again, err := ParseUaddr(Uaddr(addr))
		require.NoError(t, err)
		require.Equal(t, addr, again)
	})
}

func TestMergeUaddr(t *testing.T) {
	for _, c := range []struct{ name, stored, local, want string }{
		{"WildcardBecomesLocal", "0.0.0.0.8.1", "127.0.0.3", "127.0.0.3.8.1"},
		{"MappedLocal", "0.0.0.0.8.1", "::ffff:10.0.0.7", "10.0.0.7.8.1"},
		{"SpecificStays", "10.0.0.9.8.1", "127.0.0.1", "10.0.0.9.8.1"},
		{"IPv6", "::.8.1", "::1", "::1.8.1"},
		{"ZoneIsLeftOut", "::.8.1", "fe80::1%eth0", "fe80::1.8.1"},
		{"OtherFamily", "::.8.1", "127.0.0.1", ""},
		{"Path", "/run/x.sock", "127.0.0.1", "/run/x.sock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, mergeUaddr(c.stored, netip.MustParseAddr(c.local)))
		})
	}
	require.Equal(t, "", mergeUaddr("0.0.0.0.8.1", netip.Addr{}), "no local address: over the unix socket")
}

func m(prog, vers uint32, netid, addr, owner string) Registration {
	return Registration{Prog: prog, Vers: vers, Netid: netid, Addr: addr, Owner: owner}
}

func TestRegistrySet(t *testing.T) {
	r := newRegistry()
	require.True(t, r.set(m(7, 1, "tcp", "0.0.0.0.8.1", "1000"), false))
	require.True(t, r.set(m(7, 1, "tcp", "0.0.0.0.8.1", "unknown"), false), "the same again")
	require.False(t, r.set(m(7, 1, "TCP", "0.0.0.0.8.2", "superuser"), false), "another address")
	require.True(t, r.set(m(7, 1, "udp", "0.0.0.0.8.2", "1000"), false))
	require.True(t, r.set(m(7, 2, "tcp", "0.0.0.0.8.2", "1000"), false))
	require.True(t, r.set(m(7, 1, "bogus", "anything", "1000"), false), "rpcbind keeps unknown netids")

	for name, bad := range map[string]Registration{
		"NoAddress":     m(8, 1, "tcp", "", ""),
		"NoNetid":       m(8, 1, "", "0.0.0.0.8.1", ""),
		"NotAnAddress":  m(8, 1, "tcp", "nonsense", ""),
		"IPv6AsTCP":     m(8, 1, "tcp", "::.8.1", ""),
		"IPv4AsUDP6":    m(8, 1, "udp6", "0.0.0.0.8.1", ""),
		"LongNetid":     m(8, 1, strings.Repeat("n", MaxNetid+1), "x", ""),
		"LongUniversal": m(8, 1, "local", strings.Repeat("/", MaxUaddr+1), ""),
	} {
		t.Run(name, func(t *testing.T) { require.False(t, r.set(bad, false)) })
	}
	require.Len(t, r.all(), 4)
	require.Equal(t, "1000", r.all()[0].Owner, "the first owner stays")
}

func TestRegistryUnset(t *testing.T) {
	fill := func() *registry {
		r := newRegistry()
		for _, e := range []Registration{
			m(7, 1, "tcp", "0.0.0.0.8.1", "1000"),
			m(7, 1, "udp", "0.0.0.0.8.2", "1000"),
			m(7, 2, "tcp", "0.0.0.0.8.1", "1000"),
			m(8, 1, "tcp", "0.0.0.0.8.3", ownerSuperuser),
			m(9, 1, "tcp", "0.0.0.0.8.4", ownerUnknown),
		} {
			require.True(t, r.set(e, false))
		}
		require.True(t, r.set(m(100000, 4, "tcp", "0.0.0.0.0.111", ownerSuperuser), true))
		return r
	}
	for _, c := range []struct {
		name       string
		prog, vers uint32
		owner      string
		netids     []string
		want       bool
		left       int
	}{
		{"Missing", 99, 1, "1000", nil, true, 6},
		{"MissingVersion", 7, 3, "1000", nil, true, 6},
		{"OneNetidAnyCase", 7, 1, "1000", []string{"TCP"}, true, 5},
		{"AllNetids", 7, 1, "1000", nil, true, 4},
		{"Superuser", 7, 1, ownerSuperuser, nil, true, 4},
		{"Stranger", 7, 1, "1001", nil, false, 6},
		{"UnknownIsAStranger", 7, 1, ownerUnknown, nil, false, 6},
		{"StrangerOfSuperuser", 8, 1, "65534", nil, false, 6},
		{"UnknownOfUnknown", 9, 1, ownerUnknown, nil, true, 5},
		{"UidOfUnknown", 9, 1, "65534", nil, false, 6},
		{"ThePortmappersOwn", 100000, 4, ownerSuperuser, nil, false, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fill()
			require.Equal(t, c.want, r.unset(c.prog, c.vers, c.owner, c.netids...))
			require.Len(t, r.all(), c.left)
			indexed := 0
			for _, list := range r.byNetid {
				indexed += len(list)
			}
			require.Equal(t, c.left, indexed)
		})
	}
}

func TestRegistryLookup(t *testing.T) {
	r := newRegistry()
	r.set(m(7, 1, "tcp", "0.0.0.0.8.1", ""), false)
	r.set(m(7, 3, "tcp", "0.0.0.0.8.3", ""), false)
	r.set(m(7, 1, "udp", "0.0.0.0.8.9", ""), false)
	for _, c := range []struct {
		name  string
		vers  uint32
		netid string
		exact bool
		want  string
	}{
		{"Exact", 1, "tcp", true, "0.0.0.0.8.1"},
		{"AnyCase", 1, "Tcp", false, "0.0.0.0.8.1"},
		{"OtherVersion", 2, "tcp", false, "0.0.0.0.8.3"},
		{"OtherVersionExact", 2, "tcp", true, ""},
		{"OtherTransport", 2, "udp", false, "0.0.0.0.8.9"},
		{"NoTransport", 1, "tcp6", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := r.lookup(7, c.vers, c.netid, c.exact)
			require.Equal(t, c.want, got.Addr)
			require.Equal(t, c.want != "", ok)
		})
	}
}

func TestRegistryIsBounded(t *testing.T) {
	r := newRegistry()
	for i := range MaxRegistrations {
		require.True(t, r.set(m(uint32(i), 1, "tcp", "0.0.0.0.8.1", ""), false))
	}
	require.False(t, r.set(m(MaxRegistrations, 1, "tcp", "0.0.0.0.8.1", ""), false))
	require.True(t, r.set(m(5, 1, "tcp", "0.0.0.0.8.1", ""), false), "what is there is still TRUE")
	require.True(t, r.unset(5, 1, ownerSuperuser))
	require.True(t, r.set(m(MaxRegistrations, 1, "tcp", "0.0.0.0.8.1", ""), false))
}

func TestOwnerName(t *testing.T) {
	require.Equal(t, "unknown", ownerName(-1))
	require.Equal(t, "superuser", ownerName(0))
	require.Equal(t, "65534", ownerName(65534))
}
