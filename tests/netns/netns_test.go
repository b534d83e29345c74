//go:build linux

package netns_test

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/netns"
)

func TestEnterGivesFreePortsAndEmptyRun(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	require.Equal(t, 1, os.Getpid(), "a process namespace of its own")
	files, err := os.ReadDir("/run")
	require.NoError(t, err)
	require.Empty(t, files)
	ln, err := net.Listen("tcp", "127.0.0.3:111")
	require.NoError(t, err)
	defer ln.Close()
	conn, err := net.Dial("tcp", "127.0.0.3:111")
	require.NoError(t, err)
	conn.Close()
}

func TestEnterTakesOverASkip(t *testing.T) {
	t.Run("child", func(t *testing.T) {
		if !netns.Enter(t) {
			return
		}
		t.Skip("a skip in the child is a skip of the parent")
	})
}

func TestHostsAreLinked(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	h := netns.NewHost(t, "far")
	netns.Link(t, nil, "10.7.0.1/24", h, "10.7.0.2/24")
	var ln net.Listener
	require.NoError(t, h.Do(func() (err error) {
		ln, err = net.Listen("tcp", "10.7.0.2:111")
		return err
	}))
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("far"))
	}()
	conn, err := net.Dial("tcp", "10.7.0.2:111")
	require.NoError(t, err)
	defer conn.Close()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "far", string(got))

	out, err := h.Command("ls", "-A", "/run").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
