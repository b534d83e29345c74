package portmap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/cpeer"
)

// commands are rpcinfo's, in an order in which each has something to show.
var commands = []string{
	"-p", "-p 127.0.0.1", "", "127.0.0.1", "-s", "-s 127.0.0.1",
	"-T tcp 127.0.0.1 100000 4", "-T udp 127.0.0.1 100000 3", "-T local localhost 100000 4",
	"-T tcp6 ::1 100000 4", "-T udp6 ::1 100000 3",
	"-T tcp 127.0.0.1 100000", "-T udp 127.0.0.1 100000", "-T tcp 127.0.0.1 100000 9",
	"-t 127.0.0.1 100000", "-t 127.0.0.1 100000 2", "-u 127.0.0.1 100000", "-u 127.0.0.1 100000 2", "-n 111 -t 127.0.0.1 100000 2",
	"-t 127.0.0.1 536870999", "-u 127.0.0.1 536870999 1",
	"-l 127.0.0.1 100000 4", "-l -T udp 127.0.0.1 100000 2", "-l -T tcp6 ::1 100000 3", "-l 127.0.0.1 536870999 1",
	"-a 127.0.0.1.0.111 -T tcp 100000 4", "-a 127.0.0.1.0.111 -T udp 100000 2", "-a ::1.0.111 -T udp6 100000 3",
	"-l 127.0.0.1 536871731 1",
	"-d 536871731 1", "-d 536871731 1", "-d -T tcp 536871732 1", "-p", "-s",
	"-m", "-m 127.0.0.1",
}

// Every use of rpcinfo shows the same text and exit code as with rpcbind,
// statistics included.
func TestRpcinfo(t *testing.T) {
	if !enter(t) {
		return
	}
	conversation := func() string {
		var text strings.Builder
		for i, prog := range []string{"536871731", "536871732"} {
			fmt.Fprintln(&text, "set", client("pmap_set", fmt.Sprint(4242+i), prog, "1"))
		}
		for _, args := range commands {
			fmt.Fprintf(&text, "$ rpcinfo %s\n%s", args, rpcinfo(t, strings.Fields(args)...))
		}
		return text.String()
	}
	theirs := startRpcbind(t)
	want := conversation()
	stop(t, theirs)
	startOurs(t)
	require.NoError(t, answers()) // as startRpcbind did: calls are counted
	got := conversation()
	require.Equal(t, want, got)
	require.Equal(t, 23, strings.Count(got, "ready and waiting"), got)
}

// The ways in which C servers register, and C clients find them.
func TestCServersAndClients(t *testing.T) {
	if !enter(t) {
		return
	}
	startOurs(t, "--remote-calls")
	const prog, name = 0x20000200, "0x20000200"
	for how, registrations := range map[string]int{"create": 4, "reg": 2, "register": 2, "pmapset": 2} {
		t.Run(how, func(t *testing.T) {
			server := cpeer.Start(t, exec.Command(program("server"), how, name, "2"))
			server.WaitFor(t, "serving", timeout)
			regs := registered(t, prog)
			require.Len(t, regs, registrations)
			for _, host := range []string{"127.0.0.1", "127.0.0.3"} {
				for _, by := range []string{"tcp", "udp", "netpath", "visible", "clnttcp", "clntudp", "callrpc", "rpc_call", "pmap_rmtcall", "rpcb_rmtcall"} {
					require.Equal(t, "hello", client(by, host, name, "2"), "%s to %s", by, host)
				}
				require.Equal(t, "version 2: hello", client("vers", host, name, "3"))
			}
			ports := make(map[string]string)
			for _, r := range regs {
				ports[r.Netid] = r.Addr
			}
			require.Equal(t, strings.Replace(ports["udp"], "0.0.0.0", "127.0.0.1", 1), client("getaddr", "127.0.0.1", name, "2"))
			maps := client("pmap_getmaps", "127.0.0.1", name, "2")
			require.Equal(t, 1, strings.Count(maps, "536871424 2 6 "))
			require.Equal(t, 1, strings.Count(maps, "536871424 2 17 "))
			require.Contains(t, client("rpcb_getmaps", "127.0.0.1", name, "2"), "536871424 2 tcp "+ports["tcp"]+" superuser")
			require.Equal(t, "1", client("gettime", "127.0.0.1", name, "2"))
			require.Contains(t, rpcinfo(t, "-T", "tcp", "127.0.0.1", "536871424", "2"), "ready and waiting")
			require.Contains(t, rpcinfo(t, "-u", "127.0.0.1", "536871424"), "version 2 ready and waiting")
			stop(t, server)
			require.Empty(t, registered(t, prog), "it unregistered")
			require.Contains(t, client("tcp", "127.0.0.1", name, "2"), "Program not registered")
		})
	}
	for name, prog := range map[string]uint32{"peer": 0x20000099, "peern": 0x2000009a} {
		t.Run("rpcgen "+name, func(t *testing.T) {
			server := cpeer.Start(t, exec.Command(program(name)))
			number := fmt.Sprint(prog)
			waitRegistered(t, prog, map[string]int{"peer": 4, "peern": 2}[name])
			for _, nettype := range []string{"tcp", "udp"} {
				require.Contains(t, rpcinfo(t, "-T", nettype, "127.0.0.3", number, "1"), "ready and waiting")
			}
			if name == "peer" {
				for _, by := range []string{"tcp", "udp", "netpath", "visible", "clnttcp", "clntudp"} {
					require.Equal(t, "hello", client(by, "127.0.0.1", number, "1"), by)
				}
				require.Equal(t, "version 3: hello", client("vers", "127.0.0.1", number, "5"))
			}
			// One that is killed leaves its registration; the next one takes the place.
			require.NoError(t, server.Signal(syscall.SIGKILL))
			_ = server.Wait(t, timeout)
			old := registered(t, prog)
			require.NotEmpty(t, old)
			cpeer.Start(t, exec.Command(program(name)))
			eventually(t, func() error {
				if out := rpcinfo(t, "-T", "tcp", "127.0.0.1", number, "1"); !strings.Contains(out, "ready and waiting") {
					return fmt.Errorf("%s", out)
				}
				return nil
			})
		})
	}
}

// Daemons as Debian has them register, are found, and unregister.
func TestDebianDaemons(t *testing.T) {
	if !enter(t) {
		return
	}
	cpeer.Require(t, "rpc.statd", "rpc.rusersd", "rpc.rstatd", "mount")
	startOurs(t)
	// A state directory of its own for rpc.statd.
	state := "/var/lib/nfs"
	require.NoError(t, exec.Command("mount", "-t", "tmpfs", "tmpfs", state).Run())
	require.NoError(t, os.Mkdir(state+"/sm", 0o700))
	require.NoError(t, os.Mkdir(state+"/sm.bak", 0o700))
	require.NoError(t, exec.Command("chown", "-R", "statd", state).Run())
	for _, d := range []struct {
		command       []string
		prog          uint32
		registrations int
		netids        []string
		owner         string
	}{
		{[]string{"rpc.statd", "-F", "--no-notify"}, 100024, 4, []string{"tcp", "udp", "tcp6", "udp6"}, "statd"},
		{[]string{"rpc.rusersd"}, 100002, 2, []string{"udp"}, "nobody"},
		{[]string{"rpc.rstatd"}, 100001, 4, []string{"udp"}, "root"},
	} {
		t.Run(d.command[0], func(t *testing.T) {
			p := cpeer.Start(t, exec.Command(cpeer.Tool(t, d.command[0]), d.command[1:]...))
			waitRegistered(t, d.prog, d.registrations)
			number := fmt.Sprint(d.prog)
			for _, r := range registered(t, d.prog) {
				require.Contains(t, d.netids, r.Netid)
				host := "127.0.0.1"
				if strings.HasSuffix(r.Netid, "6") {
					host = "::1"
				}
				require.Contains(t, rpcinfo(t, "-T", r.Netid, host, number, fmt.Sprint(r.Vers)), "ready and waiting")
				require.Equal(t, uidOf(t, d.owner), r.Owner)
			}
			for _, pid := range running(t, d.command[0]) { // they have forked
				require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
			}
			_ = p.Wait(t, timeout)
			waitRegistered(t, d.prog, 0)
		})
	}
}

// running lists the processes of this test's namespace that run a program.
func running(t testing.TB, name string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(t, err)
	var pids []int
	for _, f := range files {
		comm, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue // or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.NotEmpty(t, pids, "%s does not run", name)
	return pids
}

// uidOf is a user as the owner of a registration.
func uidOf(t testing.TB, name string) string {
	t.Helper()
	if name == "root" {
		return "superuser"
	}
	return strings.TrimSpace(result("id", "-u", name))
}
