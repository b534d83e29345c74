package cluster_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// TestIPv6Alone: a host that has no IPv4 address but 127.0.0.1. Master, slave,
// clients in Go and in C, and the command line find each other over tcp6 and
// udp6, at ::1 too.
func TestIPv6Alone(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	require.NoError(t, cluster.MustDial(t).Put(ctx, 7, cluster.Words{5}))

	for _, host := range []string{"::1", masterAt} {
		for _, network := range []string{"tcp", "udp"} {
			c, err := portmap.Dial(ctx, network, host, structs.MASTER_PROG, structs.MASTER_V2, rpc.ClientConfig{})
			require.NoError(t, err, "%s over %s", host, network)
			r, err := structs.NewMasterProgMasterV2Client(c).MasterQuery(ctx, structs.QueryRequest{Text: "P:7"})
			require.NoError(t, err, "%s over %s", host, network)
			require.Equal(t, []uint64{5}, r.Answer.Rows.Words)
			require.NoError(t, c.Close())
		}
		out, err := exec.CommandContext(ctx, cluster.Binary(t, "starfish"), "--master", host, "query", "P:7").CombinedOutput()
		require.NoError(t, err, "%s: %s", host, out)
		out, err = exec.CommandContext(ctx, cluster.Binary(t, "starfish"), "--master", host, "put", "8", "--rows", "1").CombinedOutput()
		require.NoError(t, err, "%s: %s", host, out)
	}

	cpeer.Require(t, "rpcinfo")
	for _, at := range []struct {
		host string
		prog uint32
	}{{"::1", structs.MASTER_PROG}, {masterAt, structs.MASTER_PROG}, {slaveAt, structs.SLAVE_PROG}} {
		for _, netid := range []string{"tcp6", "udp6"} {
			out, err := exec.CommandContext(ctx, cpeer.Tool(t, "rpcinfo"), "-T", netid, at.host, fmt.Sprint(at.prog), "2").CombinedOutput()
			require.NoError(t, err, "%s %s: %s", at.host, netid, out)
			require.Contains(t, string(out), "ready and waiting")
		}
	}
}
