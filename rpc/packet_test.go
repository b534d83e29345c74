package rpc

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// TestPacketAddress: on a socket for all addresses a call is told which of them
// it was sent to, and its reply leaves from there: a connected socket takes it
// from nowhere else.
func TestPacketAddress(t *testing.T) {
	for _, network := range []string{"udp4", "udp", "udp6"} {
		t.Run(network, func(t *testing.T) {
			s := newTestServer(t, ServerConfig{})
			uc, err := net.ListenUDP(network, nil)
			if network == "udp6" && err != nil {
				t.Skipf("no IPv6 here: %v", err)
			}
			require.NoError(t, err)
			s.run(t, func() error { return s.ServePacket(uc) })
			_, port, err := net.SplitHostPort(uc.LocalAddr().String())
			require.NoError(t, err)
			hosts := []string{"127.0.0.1", "127.0.0.3", "127.9.9.9"}
			if network == "udp6" {
				hosts = []string{"::1"}
			}
			for _, host := range hosts {
				addr := net.JoinHostPort(host, port)
				c := dial(t, "udp", addr, ClientConfig{})
				var remote, local string
				require.NoError(t, c.Call(t.Context(), testProg, 1, procCaller, nil, xdr.DecodeFunc(func(d *xdr.Decoder) error {
					remote, local = d.String(255), d.String(255)
					return d.Err()
				})))
				require.Equal(t, addr, local)
				require.Equal(t, c.LocalAddr().String(), remote)
			}
		})
	}
}

// TestPacketRubbish: datagrams that are no calls are ignored, and the next one
// is served.
func TestPacketRubbish(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	conn := dialRaw(t, "udp", s.listen(t, "udp"))
	for _, b := range [][]byte{
		{}, {0}, {1, 2, 3}, make([]byte, 4), make([]byte, 11), bytes.Repeat([]byte{1}, 39), bytes.Repeat([]byte{1}, 60_000),
		unhex(t, nullReply), unhex(t, nullCall)[:20],
	} {
		send(t, conn, b)
		stillServed(t, conn)
	}
}

// TestPacketTooLong: a reply that fits into no datagram is SYSTEM_ERR.
func TestPacketTooLong(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	c := dial(t, "udp", s.listen(t, "udp"), ClientConfig{})
	_, err := call(t.Context(), c, procBig, 0, 1, 0, 0)
	require.ErrorIs(t, err, ErrSystem)
	out, err := call(t.Context(), c, procBig, 0, 0, 0xea, 0x60)
	require.NoError(t, err)
	require.Len(t, out, 60_000)
}

// TestPacketConcurrent: calls of one socket run side by side, up to the bound.
func TestPacketConcurrent(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCallsPerConn: 2})
	conn := dialRaw(t, "udp", s.listen(t, "udp"))
	for xid := range uint32(3) {
		send(t, conn, message(xid, procBlock))
	}
	<-s.h.entered
	<-s.h.entered
	require.Empty(t, s.h.entered)
	s.h.release <- struct{}{}
	<-s.h.entered
	s.h.release <- struct{}{}
	s.h.release <- struct{}{}
	for range 3 {
		readReplyBytes(t, conn)
	}
	stillServed(t, conn)
}
