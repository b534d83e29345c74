package cluster_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// TestMasterWithTwoAddresses: a slave on another host takes the changes of the
// master that it joined, from whichever of its addresses they come, also after
// either was started anew; a stranger's it refuses.
func TestMasterWithTwoAddresses(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	const calls, joined, slave = "10.7.0.1", "10.7.0.3", "10.7.0.2" // the master calls from the first, --master names the second
	far := netns.NewHost(t, "far")
	netns.Link(t, nil, calls+"/24", far, slave+"/24")
	netns.AddAddr(t, nil, "to-far", joined+"/24")
	dir := t.TempDir()

	cpeer.Start(t, far.Command(cluster.Binary(t, "portmap"), "--listen", slave, "--user", "root")).WaitFor(t, "ready\n", cluster.Wait)
	m := cluster.Start(t, "master", "--data", filepath.Join(dir, "m"), "--replicas", "1", "--listen", calls+","+joined, "--allow", slave)
	startSlave := func() *cpeer.Process {
		p := cpeer.Start(t, far.Command(cluster.Binary(t, "slave"), "--master", joined, "--addr", slave, "--data", filepath.Join(dir, "s")))
		p.WaitFor(t, "ready\n", cluster.Wait)
		return p
	}
	s := startSlave()
	serves := func() {
		t.Helper()
		cluster.AwaitStatus(t, "the slave serves", func(st structs.ClusterStatus) bool {
			return len(st.Slaves) == 1 && st.Slaves[0].State == structs.SLAVE_SERVING
		})
	}
	serves()
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	change := func() {
		t.Helper()
		c := cluster.MustDial(t)
		require.NoError(t, c.Put(ctx, 7, cluster.Words{5}))
		r, err := c.MasterDelete(ctx, 7)
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		require.NoError(t, c.Put(ctx, 7, cluster.Words{6}))
	}
	change()

	m.Kill(t)
	m.Restart(t)
	serves()
	change()

	require.NoError(t, s.Signal(syscall.SIGKILL))
	_ = s.Wait(t, cluster.Wait)
	startSlave()
	serves()
	change()

	conn, err := portmap.Dial(ctx, "tcp", slave, structs.SLAVE_PROG, structs.SLAVE_V2, rpc.ClientConfig{})
	require.NoError(t, err)
	defer conn.Close()
	stranger := structs.NewSlaveProgSlaveV2Client(conn)
	for _, secret := range []structs.JoinSecret{{}, {1}} {
		st, err := stranger.SlaveStore(ctx, structs.StoreRequest{Id: 7, Revision: 1 << 40, Rows: structs.RowBitmap{Words: []uint64{1}}, Secret: secret})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_DENIED, st.Status, "from an address of the master's, too")
		er, err := stranger.SlaveDelete(ctx, structs.EraseRequest{Id: 7, Revision: 1 << 40, Secret: secret})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_DENIED, er.Status)
	}
	answer, err := cluster.MustDial(t).Query(ctx, "P:7", structs.BITMAP_WORDS)
	require.NoError(t, err)
	require.Equal(t, []uint64{6}, answer.Rows.Words)
}
