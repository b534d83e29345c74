package portmap

import (
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/tests/cpeer"
)

// programs lists what is registered beside the portmapper itself.
func programs(t testing.TB) []portmap.Registration {
	t.Helper()
	list, err := dump()
	require.NoError(t, err)
	return slices.DeleteFunc(list, func(r portmap.Registration) bool { return r.Prog == portmap.PMAP_PROG })
}

// rpcbind is stopped, ours started in its place, and C servers and clients of
// before go on; then the other way round.
func TestInThePlaceOfRpcbind(t *testing.T) {
	if !enter(t) {
		return
	}
	theirs := startRpcbind(t, "-w")
	start := func(uid uint32, how, prog string) *cpeer.Process {
		t.Helper()
		cmd := exec.Command(program("server"), how, prog, "2")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		p := cpeer.Start(t, cmd)
		p.WaitFor(t, "serving", timeout)
		return p
	}
	root := start(0, "create", "0x20000200")
	nobody := start(65534, "register", "0x20000300")
	// A client that was there before, with its connection.
	holding := exec.Command(program("client"), "hold", "127.0.0.1", "0x20000200", "2")
	in, err := holding.StdinPipe()
	require.NoError(t, err)
	held := cpeer.Start(t, holding)
	goesOn := func(text string) {
		t.Helper()
		_, err := io.WriteString(in, text+"\n")
		require.NoError(t, err)
		held.WaitFor(t, text+"\n", timeout)
		for _, prog := range []string{"0x20000200", "0x20000300"} {
			for _, by := range []string{"tcp", "udp", "clnttcp", "visible"} {
				require.Equal(t, "hello", client(by, "127.0.0.1", prog, "2"), "%s %s", by, prog)
			}
		}
	}
	goesOn("with rpcbind")
	before := programs(t)
	require.Len(t, before, 6)

	stop(t, theirs)
	ours := startOurs(t, "-w")
	require.Equal(t, before, programs(t), "owners too")
	goesOn("with ours")
	third := start(0, "pmapset", "0x20000400")
	require.Equal(t, "hello", client("tcp", "127.0.0.3", "0x20000400", "2"))
	stop(t, third)
	require.Equal(t, before, programs(t))

	// Killed, and started again: what it knew is in its file.
	require.NoError(t, ours.Signal(syscall.SIGKILL))
	_ = ours.Wait(t, timeout)
	eventually(t, func() error {
		if answers() == nil {
			t.Fatal("somebody answers for a portmapper that was killed")
		}
		return nil
	})
	ours = startOurs(t, "-w")
	require.Equal(t, before, programs(t))
	goesOn("with ours again")
	require.Empty(t, rpcinfo(t, "-d", "536871680", "2"), "root may")
	require.Len(t, programs(t), 4)
	stop(t, nobody)
	nobody = start(65534, "register", "0x20000300")
	before = programs(t)
	require.Len(t, before, 6)

	stop(t, ours)
	startRpcbind(t, "-w")
	require.Equal(t, before, programs(t))
	goesOn("with rpcbind again")
	require.Equal(t, 2, strings.Count(rpcinfo(t, "-p"), "536871680"))
	stop(t, nobody)
	stop(t, root)
	require.Empty(t, programs(t), "they unregistered as their owners")
}

// While we serve, rpcbind does not start beside us: it would take the socket's
// path.
func TestRpcbindStaysAway(t *testing.T) {
	if !enter(t) {
		return
	}
	ours := startOurs(t)
	out := result(cpeer.Tool(t, "rpcbind"), "-f")
	require.Contains(t, out, "another rpcbind is already running")
	require.Equal(t, "1", client("pmap_set", "4242", "0x20000333", "1"))
	require.Len(t, programs(t), 1)
	stop(t, ours)
	theirs := startRpcbind(t)
	out = result(program("portmap"))
	require.Contains(t, out, "exit code 1")
	require.Contains(t, out, "another portmapper runs")
	stop(t, theirs)
	startOurs(t)
}
