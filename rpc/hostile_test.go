package rpc

import (
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heap returns the bytes of live objects.
func heap() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCredentialAllocation: a credential's length costs nothing.
func TestCredentialAllocation(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	call := record(unhex(t, "11223344 00000000 00000002 20000099 00000001 00000000 00000001 7fffffff"))
	want := record(unhex(t, "11223344 00000001 00000001 00000001 00000001"))
	send(t, conn, call)
	require.Equal(t, want, readReplyBytes(t, conn))
	const n = 100
	got := allocated(func() {
		for range n {
			send(t, conn, call)
			require.Equal(t, want, readReplyBytes(t, conn))
		}
	})
	require.Less(t, got/n, uint64(64<<10))
	stillServed(t, conn)
}

// TestHugeLengths: what promises much and sends little costs little, for a
// thousand connections and for lengths inside of a call.
func TestHugeLengths(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	addr := s.listen(t, "tcp")
	other := dialRaw(t, "tcp", addr)
	stillServed(t, other)
	before := heap()
	for range 20 {
		var conns []net.Conn
		for range 50 {
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			send(t, conn, unhex(t, "83ffffff 11223344")) // 64 MiB, of which 4 bytes come
			conns = append(conns, conn)
		}
		stillServed(t, other)
		require.Less(t, heap(), before+8<<20, "50 connections wait for 64 MiB each")
		for _, c := range conns {
			require.NoError(t, c.Close())
		}
	}
	for range 1000 {
		send(t, other, record(message(1, procMulti, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff)))
		require.Equal(t, record(unhex(t, "00000001 00000001 00000000 00000000 00000000 00000004")), readReplyBytes(t, other))
	}
	waitFor(t, func() bool { return heap() < before+1<<20 })
}

// waitFor waits for something that comes by itself.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		require.True(t, time.Now().Before(deadline), "waited too long")
		runtime.Gosched()
	}
}

// TestLongList: 60,000 nodes, which overflow the stack of a C server.
func TestLongList(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{})
	list := make([]node, 60_000)
	for i := range list {
		list[i] = node{"127.0.0.1", uint64(i)}
	}
	args := appendList(nil, list)
	got, err := call(t.Context(), c, procEcho, args...)
	require.NoError(t, err)
	require.Equal(t, args, got)
}

// TestPoolsPinNothing: the buffers of long records are not kept.
func TestPoolsPinNothing(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{})
	_, err := call(t.Context(), c, procNull)
	require.NoError(t, err)
	before := heap()
	for range 3 {
		_, err := call(t.Context(), c, procCount, make([]byte, 4<<20)...)
		require.NoError(t, err)
		_, err = call(t.Context(), c, procBig, 0, 0x40, 0, 0)
		require.NoError(t, err)
	}
	waitFor(t, func() bool { return heap() < before+1<<20 })
}
