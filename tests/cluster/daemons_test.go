package cluster_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// TestNobodyReads: a daemon whose output nobody reads, and that is told that its
// terminal has gone, serves on; it tells the supervisor when it is ready and
// that it ends, and leaves nothing behind.
func TestNobodyReads(t *testing.T) {
	for name, args := range map[string][]string{
		"portmap":  {"-d", "--user", "root"},
		"master":   {"--log-level", "debug"},
		"slave":    {"--log-level", "debug", "--master", "127.0.0.1"},
		"starfish": {"up", "-v"},
	} {
		t.Run(name, func(t *testing.T) {
			if !netns.Enter(t) {
				return
			}
			prog, vers := uint32(structs.MASTER_PROG), uint32(structs.MASTER_V2)
			switch name {
			case "portmap":
				prog, vers = portmap.RPCBPROG, portmap.RPCBVERS4
			case "slave":
				prog, vers = structs.SLAVE_PROG, structs.SLAVE_V2
				args = append(args, "--data", t.TempDir())
				cluster.Start(t, "portmap")
			case "master":
				args = append(args, "--data", t.TempDir())
			}
			notify := filepath.Join(t.TempDir(), "notify")
			told := supervise(t, notify)
			temporary := t.TempDir()
			cmd := exec.Command(cluster.Binary(t, name), args...)
			cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify, "TMPDIR="+temporary)
			unread(t, cmd)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })

			require.Contains(t, told(), "READY=1\nSTATUS=")
			require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
			ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
			defer cancel()
			c, err := portmap.Dial(ctx, "tcp", "127.0.0.1", prog, vers, rpc.ClientConfig{})
			require.NoError(t, err)
			require.NoError(t, c.Call(ctx, prog, vers, 0, nil, nil))
			require.NoError(t, c.Close())

			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, "STOPPING=1", told())
			require.NoError(t, cmd.Wait())
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// unread gives cmd an output that nobody reads any more, as after | head -1.
func unread(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { w.Close() })
	cmd.Stdout, cmd.Stderr = w, w
}

// supervise listens as a supervisor does; told is what it is told next.
func supervise(t *testing.T, socket string) (told func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(cluster.Wait)))
	return func() string {
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
}
