package portmap

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/tests/cpeer"
)

// status is a line of /proc/PID/status.
func status(t testing.TB, pid int, key string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Fields(rest)
		}
	}
	t.Fatalf("no %s in the status of %d", key, pid)
	return nil
}

// children are the processes that a process has started.
func children(t testing.TB, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	var pids []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, field := range strings.Fields(string(text)) {
			var child int
			_, err := fmt.Sscan(field, &child)
			require.NoError(t, err)
			pids = append(pids, child)
		}
	}
	return pids
}

// Root's rights are gone, in every thread, before the first call is served;
// what still needs them is done by a process that hears no caller.
func TestPrivileges(t *testing.T) {
	if !enter(t) {
		return
	}
	for _, c := range []struct {
		name, user string
		args       []string
	}{
		{"Default", "_rpc", nil},
		{"AsDaemon", "daemon", []string{"-s"}},
		{"User", "nobody", []string{"-u", "nobody"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startOurs(t, append(c.args, "-w", "--reap")...)
			uid := uidOf(t, c.user)
			tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Cmd.Process.Pid))
			require.NoError(t, err)
			require.NotEmpty(t, tasks)
			for _, task := range tasks {
				text, err := os.ReadFile(task)
				require.NoError(t, err)
				require.Contains(t, string(text), fmt.Sprintf("Uid:\t%s\t%s\t%s\t%s\n", uid, uid, uid, uid), task)
				require.Contains(t, string(text), "CapEff:\t0000000000000000\n", task)
				require.Contains(t, string(text), "CapPrm:\t0000000000000000\n", task)
			}
			gid := strings.TrimSpace(result("id", "-g", c.user))
			require.Equal(t, []string{gid}, status(t, p.Cmd.Process.Pid, "Groups"))

			// As Debian's: the socket is root's, and everybody may write to it.
			info, err := os.Lstat(portmap.DefaultSocket)
			require.NoError(t, err)
			require.Equal(t, os.ModeSocket|0o666, info.Mode())
			require.Zero(t, info.Sys().(*syscall.Stat_t).Uid)

			// Deleted, it is made again, and C servers register there.
			require.NoError(t, os.Remove(portmap.DefaultSocket))
			eventually(t, answers)
			require.Equal(t, "1", client("pmap_set", "4242", "0x20000333", "1"))
			require.Equal(t, "superuser", registered(t, 0x20000333)[0].Owner)
			require.Equal(t, "1", client("pmap_unset", "-", "0x20000333", "1"))

			stop(t, p)
			require.NoFileExists(t, portmap.DefaultSocket)
		})
	}
	t.Run("Killed", func(t *testing.T) {
		p := startOurs(t)
		keepers := children(t, p.Cmd.Process.Pid)
		require.Len(t, keepers, 1)
		require.Equal(t, "0", status(t, keepers[0], "Uid")[0])
		require.NoError(t, syscall.Kill(keepers[0], syscall.SIGTERM), "which it does not hear")
		require.NoError(t, p.Signal(syscall.SIGKILL))
		_ = p.Wait(t, timeout)
		eventually(t, func() error {
			if _, err := os.Lstat(portmap.DefaultSocket); err == nil {
				return fmt.Errorf("%s is still there", portmap.DefaultSocket)
			}
			return nil
		})
		startOurs(t)
	})
}

// A warm start file that our user cannot write is told at the start.
func TestWarmStartNeedsADirectory(t *testing.T) {
	if !enter(t) {
		return
	}
	dir := t.TempDir()
	out := result(program("portmap"), "--warm-start="+dir+"/state")
	require.Contains(t, out, "no file can be made beside "+dir+"/state")
	require.Contains(t, out, "exit code 1")
	require.NoFileExists(t, portmap.DefaultSocket)

	missing := filepath.Join(t.TempDir(), "portmap", "state") // made, and given to our user
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(missing)), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(filepath.Dir(missing))), 0o755))
	p := startOurs(t, "--warm-start="+missing)
	stop(t, p)
	require.FileExists(t, missing)
}

// A server that is killed is forgotten where --reap says so; one that lives is
// not, and neither is what is not of this host.
func TestReap(t *testing.T) {
	if !enter(t) {
		return
	}
	startOurs(t, "--reap=20ms")
	dies := cpeer.Start(t, exec.Command(program("server"), "create", "0x20000200", "2"))
	dies.WaitFor(t, "serving", timeout)
	lives := cpeer.Start(t, exec.Command(program("server"), "create", "0x20000300", "2"))
	lives.WaitFor(t, "serving", timeout)
	require.Len(t, programs(t), 8)
	require.NoError(t, dies.Signal(syscall.SIGKILL))
	_ = dies.Wait(t, timeout)
	waitRegistered(t, 0x20000200, 0)
	require.Len(t, registered(t, 0x20000300), 4)
	require.Contains(t, client("tcp", "127.0.0.1", "0x20000200", "2"), "Program not registered")
	require.Equal(t, "hello", client("udp", "127.0.0.1", "0x20000300", "2"))
}

// The units in packaging are what systemd understands.
func TestUnits(t *testing.T) {
	cpeer.Require(t, "systemd-analyze")
	units, err := filepath.Glob("../../packaging/*")
	require.NoError(t, err)
	require.Len(t, units, 2)
	out, err := exec.Command(cpeer.Tool(t, "systemd-analyze"), append([]string{"verify"}, units...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}

// systemd opens the sockets, and starts us at the first call.
func TestSocketActivation(t *testing.T) {
	if !enter(t) {
		return
	}
	activate := func(t *testing.T, args ...string) *cpeer.Process {
		p := cpeer.Start(t, exec.Command(cpeer.Tool(t, "systemd-socket-activate"), append(args, program("portmap"), "-f")...))
		p.WaitFor(t, "Listening on", timeout)
		return p
	}
	t.Run("Stream", func(t *testing.T) {
		p := activate(t, "--listen="+portmap.DefaultSocket, "--listen=[::]:111")
		eventually(t, answers)
		p.WaitFor(t, "portmap ready on port 111", timeout)
		for _, args := range []string{"-T tcp 127.0.0.1", "-T tcp 127.0.0.3", "-T tcp6 ::1", "-T udp 127.0.0.3", "-T udp6 ::1", "-T local localhost"} {
			require.Contains(t, rpcinfo(t, append(strings.Fields(args), "100000", "4")...), "ready and waiting", args)
		}
		require.Contains(t, rpcinfo(t, "-l", "127.0.0.3", "100000", "4"), "127.0.0.3.0.111")
		require.Equal(t, "1", client("pmap_set", "4242", "0x20000333", "1"))
		require.Equal(t, uidOf(t, "_rpc"), status(t, p.Cmd.Process.Pid, "Uid")[0])
		stop(t, p)
		require.NoError(t, os.RemoveAll(portmap.DefaultSocket)) // systemd's to remove
	})
	t.Run("Datagram", func(t *testing.T) {
		p := activate(t, "--datagram", "--listen=[::]:111")
		require.Contains(t, rpcinfo(t, "-T", "udp", "127.0.0.3", "100000", "4"), "ready and waiting")
		p.WaitFor(t, "portmap ready on port 111", timeout)
		for _, args := range []string{"-T tcp 127.0.0.1", "-T tcp6 ::1", "-T udp 127.0.0.1", "-T udp6 ::1", "-T local localhost"} {
			require.Contains(t, rpcinfo(t, append(strings.Fields(args), "100000", "4")...), "ready and waiting", args)
		}
		stop(t, p)
	})
	t.Run("NobodyElsesSockets", func(t *testing.T) { // the sockets of a parent are not ours
		cmd := exec.Command(program("portmap"))
		cmd.Env = append(os.Environ(), "LISTEN_PID=1", "LISTEN_FDS=3")
		p := cpeer.Start(t, cmd)
		p.WaitFor(t, "portmap ready on port 111", timeout)
		stop(t, p)
	})
}

// systemd is told when calls can come.
func TestNotify(t *testing.T) {
	if !enter(t) {
		return
	}
	for _, name := range []string{filepath.Join("/run", "notify"), "@starfish-test-notify"} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(timeout)))
		cmd := exec.Command(program("portmap"))
		cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name)
		p := cpeer.Start(t, cmd)
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		require.NoError(t, err)
		require.Equal(t, "READY=1\nSTATUS=serving port 111", string(b[:n]))
		require.NoError(t, answers())
		stop(t, p)
		n, err = conn.Read(b)
		require.NoError(t, err)
		require.Equal(t, "STOPPING=1", string(b[:n]))
	}
}
