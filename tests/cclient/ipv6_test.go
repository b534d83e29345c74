//go:build linux

package cclient_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// TestClientInCOverIPv6: on a host without an IPv4 address but 127.0.0.1 the C
// client finds the master over IPv6, at ::1 and at the host's own address: for
// clnt_create "tcp" is tcp and tcp6, and "udp" likewise.
func TestClientInCOverIPv6(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6: %v", err)
	} else {
		ln.Close()
	}
	const masterAt, slaveAt = "fd00::1", "fd00::2"
	netns.AddAddr(t, nil, "lo", masterAt+"/128")
	netns.AddAddr(t, nil, "lo", slaveAt+"/128")
	cluster.Start(t, "portmap", "--listen", "::", "--user", "root")
	cluster.Start(t, "master", "--data", t.TempDir(), "--replicas", "1", "--listen", masterAt, "--allow", "fd00::/64")
	cluster.Start(t, "slave", "--master", masterAt, "--addr", slaveAt, "--data", t.TempDir())
	cluster.AwaitStatus(t, "the slave serves", func(st structs.ClusterStatus) bool {
		return len(st.Slaves) == 1 && st.Slaves[0].State == structs.SLAVE_SERVING
	})
	w := store(t, cluster.MustDial(t))
	word := w.or(0, 1, 2, 3) & w.or(10, 11)
	for _, host := range []string{"::1", masterAt} {
		for _, netid := range []string{"tcp", "udp"} {
			require.Equal(t, fmt.Sprintf("word 0x%016x\nrows%s\n", word, bits(word)),
				answer(t, nil, p.client(), host, "1", netid, "R:0-3&10-11"), "%s %s", host, netid)
			require.Equal(t, fmt.Sprintf("count %d\nrows%s\n", count(word), bits(word)),
				answer(t, nil, p.client(), host, "2", netid, "R:0-3&10-11"), "%s %s", host, netid)
		}
	}
}
