package memnet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world runs f with two hosts in virtual time.
func world(t *testing.T, f func(t *testing.T, a, b *Host)) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		f(t, n.Host("a", netip.MustParseAddr("10.0.0.1")), n.Host("b", netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("2001:db8::2")))
	})
}

func accept(t *testing.T, l net.Listener) net.Conn {
	c, err := l.Accept()
	require.NoError(t, err)
	return c
}

func read(t *testing.T, c net.Conn, n int) string {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return string(b)
}

func TestConnection(t *testing.T) {
	world(t, func(t *testing.T, a, b *Host) {
		l, err := b.Listen(t.Context(), "tcp4", "0.0.0.0:700")
		require.NoError(t, err)
		for _, addr := range []string{"b:700", "10.0.0.2:700"} {
			c, err := a.Dial(t.Context(), "tcp", addr)
			require.NoError(t, err)
			s := accept(t, l)
			require.Equal(t, "10.0.0.2:700", c.RemoteAddr().String())
			require.Equal(t, "10.0.0.2:700", s.LocalAddr().String())
			require.Equal(t, c.LocalAddr(), s.RemoteAddr())
			require.Contains(t, c.LocalAddr().String(), "10.0.0.1:")
			_, err = io.WriteString(c, "ping")
			require.NoError(t, err)
			require.Equal(t, "ping", read(t, s, 4))
			_, err = io.WriteString(s, "pong, and the end")
			require.NoError(t, err)
			require.NoError(t, s.Close())
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "pong, and the end", string(got), "what was written before the end arrives before it")
			c.Close()
		}
		require.NoError(t, l.Close())
		require.Error(t, l.Close())
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Dial(t.Context(), "tcp", "b:700")
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	})
}

func TestRefusals(t *testing.T) {
	world(t, func(t *testing.T, a, b *Host) {
		for addr, want := range map[string]error{
			"b:1": unix.ECONNREFUSED, "10.9.9.9:1": unix.EHOSTUNREACH, "127.0.0.1:1": unix.ECONNREFUSED, "[2001:db8::2]:1": unix.ECONNREFUSED,
		} {
			_, err := a.Dial(t.Context(), "tcp", addr)
			require.ErrorIs(t, err, want, addr)
		}
		for _, addr := range []string{"c:1", "b", "b:x", "b:70000"} {
			_, err := a.Dial(t.Context(), "tcp", addr)
			require.Error(t, err, addr)
		}
		_, err := a.Listen(t.Context(), "tcp", "10.0.0.2:1")
		require.ErrorIs(t, err, unix.EADDRNOTAVAIL)
		l, err := a.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, err = a.Listen(t.Context(), "tcp", l.Addr().String())
		require.ErrorIs(t, err, unix.EADDRINUSE)
		_, err = b.Dial(t.Context(), "tcp", l.Addr().String())
		require.ErrorIs(t, err, unix.ECONNREFUSED, "loopback is each host's own")
		c, err := a.Dial(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		l.Close()
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "nobody accepted it")
		c.Close()
	})
}

func TestCutAndHeal(t *testing.T) {
	world(t, func(t *testing.T, a, b *Host) {
		l, err := b.Listen(t.Context(), "tcp", "10.0.0.2:7")
		require.NoError(t, err)
		c, err := a.Dial(t.Context(), "tcp", "b:7")
		require.NoError(t, err)
		s := accept(t, l)

		b.Cut()
		_, err = io.WriteString(c, "lost for now")
		require.NoError(t, err, "the kernel takes it")
		require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err = s.Read(make([]byte, 1))
		require.Error(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err = a.Dial(ctx, "tcp", "b:7")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))

		time.AfterFunc(time.Second, b.Heal)
		require.NoError(t, s.SetReadDeadline(time.Time{}))
		require.Equal(t, "lost for now", read(t, s, 12))
		require.Equal(t, time.Minute+time.Second, time.Since(begin))

		b.Stop()
		stopped, err := a.Dial(t.Context(), "tcp", "b:7")
		require.NoError(t, err, "the kernel of a stopped process takes connections")
		require.NoError(t, stopped.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err = stopped.Read(make([]byte, 1))
		require.Error(t, err)
		b.Heal()
	})
}
