package portmap

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSocketsAnswerOnEveryLoopbackAddress(t *testing.T) {
	s, err := openSockets(context.Background(), nil, -1)
	require.NoError(t, err)
	defer s.close()
	for _, host := range []string{"127.0.0.1", "127.0.0.3", "127.9.9.9"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(int(s.port))))
		require.NoError(t, err, host)
		conn.Close()
	}
}

func TestEndpoints(t *testing.T) {
	lo := endpoint{netip.MustParseAddr("0.0.0.0"), "lo", true}
	any4 := endpoint{netip.MustParseAddr("0.0.0.0"), "", true}
	lo6 := endpoint{netip.MustParseAddr("::1"), "", false}
	any6 := endpoint{netip.MustParseAddr("::"), "", true}
	one := endpoint{netip.MustParseAddr("192.0.2.1"), "", true}
	for _, c := range []struct {
		name   string
		device string
		listen []string
		want   []endpoint
	}{
		{"Default", "lo", nil, []endpoint{lo, lo6}},
		{"LoopbackIsThere", "lo", []string{"127.0.0.7", "::1"}, []endpoint{lo, lo6}},
		{"Everything4", "lo", []string{"0.0.0.0", "192.0.2.1"}, []endpoint{any4, lo6}},
		{"Everything", "lo", []string{"0.0.0.0", "::"}, []endpoint{any4, any6}},
		{"One", "lo", []string{"192.0.2.1"}, []endpoint{lo, one, lo6}},
		{"NoDevice", "", []string{"127.0.0.1", "127.0.0.7", "192.0.2.1"},
			[]endpoint{{loopback4, "", true}, {netip.MustParseAddr("127.0.0.7"), "", true}, one, lo6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var listen []netip.Addr
			for _, s := range c.listen {
				listen = append(listen, netip.MustParseAddr(s))
			}
			require.Equal(t, c.want, endpoints(listen, c.device))
		})
	}
}

func TestNoSuchDevice(t *testing.T) {
	s := &sockets{}
	require.ErrorIs(t, s.openEndpoints(context.Background(), []endpoint{{loopback4, "no-such-device", true}}), errDevice)
	require.Empty(t, s.tcp)
}

func TestSocketFile(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "rpcbind.sock")

	first, err := ListenUnix(ctx, path)
	require.NoError(t, err)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o666, info.Mode())

	_, err = ListenUnix(ctx, path)
	require.ErrorIs(t, err, ErrInUse, "somebody answers on it")

	// A file left behind by a process that was killed.
	require.NoError(t, first.Listener.Close())
	second, err := ListenUnix(ctx, path)
	require.NoError(t, err)

	// Another process has put its own socket in our place: it stays.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, second.Close())
	require.FileExists(t, path)

	_, err = ListenUnix(ctx, path)
	require.ErrorContains(t, err, "no socket")

	require.NoError(t, os.Remove(path))
	third, err := ListenUnix(ctx, path)
	require.NoError(t, err)
	require.NoError(t, third.Close())
	require.NoFileExists(t, path)
}
