package rpc

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHalfClose: who has sent its calls and closes that direction is answered.
func TestHalfClose(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			s := newTestServer(t, ServerConfig{})
			conn := dialRaw(t, network, s.listen(t, network))
			send(t, conn, append(record(message(1, procBlock)), record(message(2, procNull))...))
			require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
			require.EqualValues(t, 2, xidOf(readReplyBytes(t, conn)))
			<-s.h.entered
			s.h.release <- struct{}{}
			require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// TestContextEnds: with the connection, or the server.
func TestContextEnds(t *testing.T) {
	t.Run("Reset", func(t *testing.T) {
		s := newTestServer(t, ServerConfig{})
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		send(t, conn, record(message(1, procBlock)))
		<-s.h.entered
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-s.h.gone, context.Canceled)
	})
	t.Run("ProtocolError", func(t *testing.T) {
		s := newTestServer(t, ServerConfig{})
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		send(t, conn, record(message(1, procBlock)))
		<-s.h.entered
		send(t, conn, unhex(t, "ffffffff"))
		require.ErrorIs(t, <-s.h.gone, context.Canceled)
	})
	t.Run("Close", func(t *testing.T) {
		s := newTestServer(t, ServerConfig{})
		for _, network := range []string{"tcp", "udp", "unix"} {
			conn := dialRaw(t, network, s.listen(t, network))
			b := record(message(1, procBlock))
			if network == "udp" {
				b = b[markLen:]
			}
			send(t, conn, b)
			<-s.h.entered
		}
		require.NoError(t, s.Close())
		require.Len(t, s.h.gone, 3)
	})
}

// TestShutdown: no more calls are taken, those that run are answered.
func TestShutdown(t *testing.T) {
	for _, network := range []string{"tcp", "udp", "unix"} {
		t.Run(network, func(t *testing.T) {
			s := newTestServer(t, ServerConfig{})
			addr := s.listen(t, network)
			c := dial(t, network, addr, ClientConfig{})
			idle := dial(t, network, addr, ClientConfig{})
			require.NoError(t, idle.Call(t.Context(), testProg, 1, procNull, nil, nil))
			answered := make(chan error, 1)
			go func() { _, err := call(t.Context(), c, procBlock); answered <- err }()
			<-s.h.entered
			down := make(chan error, 1)
			go func() { down <- s.Shutdown(t.Context()) }()
			if network != "udp" {
				<-idle.Done() // it drains
			}
			require.Empty(t, down)
			s.h.release <- struct{}{}
			require.NoError(t, <-answered)
			require.NoError(t, <-down)
			if network != "udp" {
				_, err := net.Dial(network, addr)
				require.Error(t, err)
			}
		})
	}
	t.Run("TimeIsOver", func(t *testing.T) {
		s := newTestServer(t, ServerConfig{})
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		send(t, conn, record(message(1, procBlock)))
		<-s.h.entered
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
		require.ErrorIs(t, <-s.h.gone, context.Canceled)
	})
	t.Run("ServeAfterwards", func(t *testing.T) {
		s := newTestServer(t, ServerConfig{})
		require.NoError(t, s.Shutdown(t.Context()))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.ErrorIs(t, s.Serve(l), ErrClosed)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
}
