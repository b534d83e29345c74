//go:build linux

package cclient_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// Addresses of the hosts of C handlers. The test's own host is 10.7.1.1 and
// 10.7.2.1.
const (
	addrA = "10.7.1.2"
	addrB = "10.7.2.2"
)

// handlers starts two C handlers, each on a host of its own with its own
// portmapper: A holds vectors 1 and 2, B holds 3 and 4, as bits of those numbers.
func handlers(t *testing.T, p programs) (a, b, portmapperB *cpeer.Process) {
	t.Helper()
	start := func(name, mine, addr, vectors string) (portmapper, c *cpeer.Process) {
		h := netns.NewHost(t, name)
		netns.Link(t, nil, mine+"/24", h, addr+"/24")
		answer(t, h, "ip", "route", "add", "default", "via", mine)
		portmapper = rpcbind(t, h)
		c = cpeer.Start(t, h.Command(p.handler(), addr, vectors))
		c.WaitFor(t, "ready\n", wait)
		return portmapper, c
	}
	answer(t, nil, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	_, a = start("a", "10.7.1.1", addrA, "1=0x2,2=0x4")
	portmapperB, b = start("b", "10.7.2.1", addrB, "3=0x8,4=0x10")
	return a, b, portmapperB
}

// list makes machine:id,machine:id... of pairs.
func list(pairs ...string) string {
	var nodes []string
	for i := 0; i < len(pairs); i += 2 {
		nodes = append(nodes, pairs[i]+":"+pairs[i+1])
	}
	return strings.Join(nodes, ",")
}

func TestHandlersInCOnly(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	a, b, portmapperB := handlers(t, p)

	for name, c := range map[string]struct{ word, list, want string }{
		"its own":             {"0", list(addrA, "1", addrA, "2"), "word 0x0000000000000006\n"},
		"into a word":         {"0x8000000000000001", list(addrA, "1"), "word 0x8000000000000003\n"},
		"an empty list":       {"0x70", "", "word 0x0000000000000070\n"},
		"two machines":        {"0", list(addrA, "1", addrB, "3"), "word 0x000000000000000a\n"},
		"not for it":          {"0", list(addrB, "4"), "word 0x0000000000000010\n"},
		"in turns, repeated":  {"1", list(addrA, "1", addrB, "3", addrA, "2", addrB, "4", addrA, "1"), "word 0x000000000000001f\n"},
		"its own in the tail": {"0", list(addrB, "3", addrA, "2"), "word 0x000000000000000c\n"},
	} {
		for _, network := range []string{"tcp", "udp"} {
			require.Equal(t, c.want, answer(t, nil, p.slaveClient(), addrA, network, c.word, c.list), "%s over %s", name, network)
		}
	}

	t.Run("a vector that it does not hold", func(t *testing.T) {
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "9", addrB, "3"))
		require.Equal(t, outcome{"", "slave_client: machine " + addrA + " failed\n", 1}, o)
	})
	t.Run("a deeper failure comes back unchanged", func(t *testing.T) {
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "1", addrB, "9"))
		require.Equal(t, outcome{"", "slave_client: machine " + addrB + " failed\n", 1}, o)
	})
	t.Run("a machine that hangs", func(t *testing.T) {
		b.Stop(t)
		begin := time.Now()
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "1", addrB, "3"))
		require.Equal(t, outcome{"", "slave_client: machine " + addrB + " failed\n", 1}, o)
		require.Greater(t, time.Since(begin), 900*time.Millisecond)
		b.Continue(t)
		require.Equal(t, "word 0x000000000000000a\n", answer(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "1", addrB, "3")))
	})
	t.Run("a machine that is dead", func(t *testing.T) {
		require.NoError(t, b.Signal(syscall.SIGKILL))
		_ = b.Wait(t, wait)
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "1", addrB, "3"))
		require.Equal(t, outcome{"", "slave_client: machine " + addrB + " failed\n", 1}, o)
	})
	// libtirpc's clnt_create frees twice here what it remembers of the machine.
	t.Run("a machine whose portmapper is dead too", func(t *testing.T) {
		require.NoError(t, portmapperB.Signal(syscall.SIGKILL))
		_ = portmapperB.Wait(t, wait)
		for range 3 {
			o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list(addrA, "1", addrB, "3"))
			require.Equal(t, outcome{"", "slave_client: machine " + addrB + " failed\n", 1}, o)
		}
	})
	t.Run("a machine that is none", func(t *testing.T) {
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "0", list("no.such.host.invalid", "1", addrA, "1"))
		require.Equal(t, outcome{"", "slave_client: machine no.such.host.invalid failed\n", 1}, o)
	})
	t.Run("no coordinator", func(t *testing.T) {
		o := run(t, nil, p.slaveClient(), addrA, "tcp", "coordinate", list(addrA, "1"))
		require.Equal(t, 1, o.code)
		require.Contains(t, o.stderr, "Procedure unavailable")
	})
	require.NoError(t, a.Signal(syscall.SIGTERM))
	_ = a.Wait(t, wait)
}

// The handler frees what each call left: valgrind watches one over many calls.
func TestHandlerLeaksNothing(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	rpcbind(t, nil)
	c := cpeer.Start(t, exec.Command(cpeer.Tool(t, "valgrind"), "--leak-check=full",
		"--suppressions=testdata/libtirpc.supp", p.handler(), "127.0.0.1", "1=1,2=2"))
	c.WaitFor(t, "ready\n", wait)
	for range 5 {
		require.Equal(t, "word 0x0000000000000003\n",
			answer(t, nil, p.slaveClient(), "127.0.0.1", "tcp", "0", list("127.0.0.1", "1", "127.0.0.1", "2", "127.0.0.1", "1")))
		require.Equal(t, 1, run(t, nil, p.slaveClient(), "127.0.0.1", "udp", "0", list("127.0.0.1", "7")).code)
		require.Equal(t, 1, run(t, nil, p.slaveClient(), "127.0.0.1", "tcp", "0", list("127.0.0.1", "1", "127.9.9.9.9", "1")).code)
	}
	require.NoError(t, c.Signal(syscall.SIGTERM))
	_ = c.Wait(t, wait)
	require.Contains(t, c.Output(), "definitely lost: 0 bytes")
	require.Contains(t, c.Output(), "indirectly lost: 0 bytes")
	require.Contains(t, c.Output(), "ERROR SUMMARY: 0 errors")
}

func TestUsage(t *testing.T) {
	p := build(t)
	for _, c := range [][]string{
		{p.client()}, {p.client(), "h", "3", "tcp", "P:1"}, {p.client(), "h", "1", "sctp", "P:1"}, {p.client(), "h", "1", "tcp"},
		{p.clientN(), "h", "tcp"},
		{p.slaveClient(), "h", "tcp", "x", "a:1"}, {p.slaveClient(), "h", "tcp", "0", "a"}, {p.slaveClient(), "h", "tcp", "0", "a:"},
		{p.slaveClient(), "h", "tcp", "0", "a:1,"}, {p.slaveClient(), "h", "tcp", "0"},
		{p.index()}, {p.index(), "h"}, {p.index(), "-p", "0", "h", "status"}, {p.index(), "-x", "h", "status"},
		{p.handler(), "h"}, {p.handler(), "h", "1"}, {p.handler(), "h", "1=x"},
	} {
		o := run(t, nil, c[0], c[1:]...)
		require.Equal(t, 2, o.code, "%q: %s", c, o.stderr)
		require.Contains(t, o.stderr, "usage: ")
	}
}
