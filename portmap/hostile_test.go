package portmap

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
)

// A hostile portmapper cannot fill a client's memory: no answer but a list may
// be longer than 64 KiB, and no list longer than what a portmapper can hold.
func TestHostilePortmapper(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	sent := make(chan int64, 1)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			head := binary.BigEndian.AppendUint32(nil, 1<<31|(64<<20))
			_, _ = conn.Write(head)
			n, _ := io.Copy(conn, io.LimitReader(zeros{}, 64<<20))
			conn.Close()
			sent <- n
		}
	}()
	defer ln.Close()
	for _, call := range []func(*Client) error{
		func(c *Client) error { return c.Null(t.Context()) },
		func(c *Client) error { _, err := c.GetAddr(t.Context(), 1, 1, "tcp"); return err },
		func(c *Client) error { return c.Set(t.Context(), Registration{Prog: 1, Vers: 1, Netid: "tcp"}) },
		func(c *Client) error { return c.Unset(t.Context(), 1, 1, "") },
		func(c *Client) error { _, err := c.Dump(t.Context()); return err },
	} {
		c, err := Connect(context.Background(), "tcp", ln.Addr().String(), rpc.ClientConfig{})
		require.NoError(t, err)
		require.ErrorIs(t, call(c), rpc.ErrTooLong)
		require.NoError(t, c.Close())
		require.Less(t, <-sent, int64(64<<20))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
