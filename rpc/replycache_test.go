package rpc

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// TestSentAgain: a call over UDP that is sent again runs once, and its reply is
// the same to the byte.
func TestSentAgain(t *testing.T) {
	var runs atomic.Uint32
	counter := HandlerFunc(func(_ context.Context, c *Call, args *xdr.Decoder, b []byte) ([]byte, error) {
		n := runs.Add(1)
		if c.Proc == 2 {
			return nil, ErrGarbageArgs
		}
		return xdr.AppendUint32(b, n), nil
	})
	start := func(t *testing.T, cfg ServerConfig) (net.Conn, *testServer) {
		s := newTestServer(t, cfg)
		s.Register(7, 1, counter)
		runs.Store(0)
		return dialRaw(t, "udp", s.listen(t, "udp")), s
	}
	ask := func(t *testing.T, conn net.Conn, xid, proc uint32, args ...byte) []byte {
		send(t, conn, append(appendCall(nil, xid, 7, 1, proc, OpaqueAuth{}, OpaqueAuth{}), args...))
		return readReplyBytes(t, conn)
	}
	t.Run("SameBytes", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{})
		first := ask(t, conn, 5, 1)
		require.Equal(t, success(5, 0, 0, 0, 1), first)
		for range 3 {
			require.Equal(t, first, ask(t, conn, 5, 1))
		}
		require.EqualValues(t, 1, runs.Load())
	})
	t.Run("Refusal", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{})
		require.Equal(t, ask(t, conn, 5, 2), ask(t, conn, 5, 2))
		require.EqualValues(t, 1, runs.Load())
	})
	t.Run("AnotherXID", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{})
		require.Equal(t, success(5, 0, 0, 0, 1), ask(t, conn, 5, 1))
		require.Equal(t, success(6, 0, 0, 0, 2), ask(t, conn, 6, 1))
	})
	t.Run("AnotherBody", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{})
		require.Equal(t, success(5, 0, 0, 0, 1), ask(t, conn, 5, 1, 0, 0, 0, 7))
		require.Equal(t, success(5, 0, 0, 0, 2), ask(t, conn, 5, 1, 0, 0, 0, 8))
	})
	t.Run("AnotherCaller", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{})
		require.Equal(t, success(5, 0, 0, 0, 1), ask(t, conn, 5, 1))
		other := dialRaw(t, "udp", conn.RemoteAddr().String())
		require.Equal(t, success(5, 0, 0, 0, 2), ask(t, other, 5, 1))
	})
	t.Run("Off", func(t *testing.T) {
		conn, _ := start(t, ServerConfig{CacheTime: -1})
		require.Equal(t, success(5, 0, 0, 0, 1), ask(t, conn, 5, 1))
		require.Equal(t, success(5, 0, 0, 0, 2), ask(t, conn, 5, 1))
	})
	t.Run("OverTCPItRuns", func(t *testing.T) {
		_, s := start(t, ServerConfig{})
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		for range 2 {
			send(t, conn, record(appendCall(nil, 5, 7, 1, 1, OpaqueAuth{}, OpaqueAuth{})))
			readReplyBytes(t, conn)
		}
		require.EqualValues(t, 2, runs.Load())
	})
}

// TestSentAgainWhileItRuns: the copies of a call that still runs are dropped,
// and hold up nobody.
func TestSentAgainWhileItRuns(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCalls: 1})
	conn := dialRaw(t, "udp", s.listen(t, "udp"))
	for range 5 {
		send(t, conn, message(9, procBlock))
	}
	<-s.h.entered
	stillServed(t, conn)
	require.Empty(t, s.h.entered)
	s.h.release <- struct{}{}
	first := readReplyBytes(t, conn)
	require.Equal(t, success(9, 0, 0, 0, 9), first)
	stillServed(t, conn) // and there was one reply
	send(t, conn, message(9, procBlock))
	require.Equal(t, first, readReplyBytes(t, conn))
	require.Empty(t, s.h.entered)
}

// TestRetransmitRunsOnce: a client whose replies are lost gets the first one.
func TestRetransmitRunsOnce(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	var runs atomic.Uint32
	s.Register(7, 1, HandlerFunc(func(_ context.Context, _ *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		return xdr.AppendUint32(b, runs.Add(1)), nil
	}))
	server := dialRaw(t, "udp", s.listen(t, "udp"))
	lossy, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer lossy.Close()
	c := dial(t, "udp", lossy.LocalAddr().String(), ClientConfig{Retransmit: time.Millisecond, MaxRetransmit: time.Millisecond})
	done := make(chan uint32, 1)
	go func() {
		var n uint32
		err := c.Call(t.Context(), 7, 1, 1, nil, xdr.DecodeFunc(func(d *xdr.Decoder) error { n = d.Uint32(); return d.Err() }))
		if err != nil {
			t.Error(err)
		}
		done <- n
	}()
	b := make([]byte, 1000)
	for i := range 4 {
		n, from, err := lossy.ReadFrom(b)
		require.NoError(t, err)
		send(t, server, b[:n])
		reply := readReplyBytes(t, server)
		if i == 3 { // the others are lost
			_, err = lossy.WriteTo(reply, from)
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 1, <-done)
	require.EqualValues(t, 1, runs.Load())
}

// TestReplyCacheBounds: in time, in number and in bytes; the oldest goes first.
func TestReplyCacheBounds(t *testing.T) {
	from := netip.MustParseAddrPort("127.0.0.1:700")
	run := func(r *replyCache, xid uint32, reply int) {
		c, _ := r.begin(nil, from, xid, nil)
		r.end(c, make([]byte, reply))
	}
	known := func(r *replyCache, xid uint32) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id := range r.calls {
			if id.xid == xid {
				return true
			}
		}
		return false
	}
	t.Run("Time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReplyCache(&ServerConfig{MaxCachedReplies: 10, MaxCachedBytes: 1000, CacheTime: time.Minute})
			run(r, 1, 24)
			time.Sleep(time.Minute - 1)
			c, reply := r.begin(nil, from, 1, nil)
			require.Nil(t, c)
			require.Len(t, reply, 24)
			time.Sleep(time.Nanosecond)
			c, _ = r.begin(nil, from, 1, nil)
			require.NotNil(t, c)
			require.Zero(t, r.size)
		})
	})
	t.Run("Number", func(t *testing.T) {
		r := newReplyCache(&ServerConfig{MaxCachedReplies: 3, MaxCachedBytes: 1000, CacheTime: time.Minute})
		running, _ := r.begin(nil, from, 100, nil)
		for xid := range uint32(1000) {
			run(r, 1000+xid, 1)
		}
		require.Len(t, r.calls, 3)
		require.True(t, known(r, 100), "it runs")
		require.True(t, known(r, 1999))
		require.False(t, known(r, 1997))
		r.end(running, []byte{1})
		require.True(t, known(r, 100))
	})
	t.Run("Bytes", func(t *testing.T) {
		r := newReplyCache(&ServerConfig{MaxCachedReplies: 100, MaxCachedBytes: 1000, CacheTime: time.Minute})
		for xid := range uint32(100) {
			run(r, xid, 300)
		}
		require.Len(t, r.calls, 3)
		run(r, 100, 2000)
		require.Empty(t, r.calls)
		require.Nil(t, r.newest)
		run(r, 101, 10)
		require.True(t, known(r, 101))
	})
}
