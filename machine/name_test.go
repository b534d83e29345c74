package machine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"127.0.0.2", "127.0.0.2"},
		{"::1", "::1"},
		{"2001:DB8:0:0::0001", "2001:db8::1"},
		{"::ffff:10.0.0.7", "10.0.0.7"},
		{"Host-A.example.ORG.", "host-a.example.org"},
		{"host_1", "host_1"},
		{"7up", "7up"},
		{strings.Repeat("a", MaxName), strings.Repeat("a", MaxName)},
	} {
		n, err := Parse(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, n.String())
		again, err := Parse(n.String())
		require.NoError(t, err)
		require.True(t, n == again, "%s", c.in)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"", "empty"},
		{".", "empty"},
		{"..", "empty part"},
		{".a", "empty part"},
		{"a..b", "empty part"},
		{"127.0.0.1:20480", "leave it away"},
		{"[::1]:111", "leave it away"},
		{"host:1", "leave it away"},
		{"0.0.0.0", "reach"},
		{"::", "reach"},
		{"::ffff:0.0.0.0", "reach"},
		{"224.0.0.1", "reach"},
		{"::ffff:239.1.2.3", "reach"},
		{"ff02::1", "reach"},
		{"255.255.255.255", "reach"},
		{"\xff\xfe", "neither"},
		{"h\u00f6st", "neither"},
		{"fe80::1%eth0", "zone"},
		{"127.1", "complete"},
		{"010.0.0.1", "complete"},
		{"1", "complete"},
		{"a b", "neither"},
		{"a/b", "neither"},
		{"a\x00", "neither"},
		{"host:", "neither"},
		{"[::1]", "neither"},
		{strings.Repeat("a", MaxName+1), "at most"},
	} {
		_, err := Parse(c.in)
		require.ErrorIs(t, err, ErrName, c.in)
		require.ErrorContains(t, err, c.says, c.in)
	}
}

func TestCompare(t *testing.T) {
	want := []string{"10.0.0.9", "10.0.0.10", "127.0.0.1", "::1", "2001:db8::1", "alpha", "beta"}
	names := make([]Name, len(want))
	for i, s := range want {
		names[len(want)-1-i] = MustParse(s)
	}
	slices.SortFunc(names, Compare)
	for i, n := range names {
		require.Equal(t, want[i], n.String())
	}
}

func TestCompareIsAnOrder(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) Name {
		return MustParse(rapid.SampledFrom([]string{"10.0.0.9", "10.0.0.10", "::1", "2001:db8::a", "a", "b", "a.b"}).Draw(t, "name"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		require.Equal(t, a == b, Compare(a, b) == 0)
		require.Equal(t, Compare(a, b), -Compare(b, a))
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 {
			require.LessOrEqual(t, Compare(a, c), 0)
		}
	})
}

func TestFromAddr(t *testing.T) {
	require.True(t, FromAddr(netip.MustParseAddr("::ffff:10.0.0.7")) == MustParse("10.0.0.7"))
	require.True(t, FromAddr(netip.MustParseAddr("fe80::1%eth0")) == MustParse("fe80::1"))
	require.True(t, FromAddr(netip.Addr{}).IsZero())
}

// FuzzParse: what is taken has one spelling, which is taken again, and is short
// enough for the wire.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::1", "Host.", "a:1", "fe80::1%x", "127.1", "İstanbul", "a\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			require.True(t, n.IsZero())
			return
		}
		require.LessOrEqual(t, len(n.String()), MaxName)
		again, err := Parse(n.String())
		require.NoError(t, err)
		require.True(t, n == again)
	})
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"Host.Example.": "host.example", "0:0:0:0:0:0:0:1": "::1", "::ffff:127.0.0.2": "127.0.0.2", "no name": "no name", "": "",
	} {
		require.Equal(t, want, Canonical(in))
	}
}
