package cluster_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// list makes a machine_vec_list of alternating machine and id.
type hop struct {
	machine string
	id      uint64
}

func list(hops ...hop) structs.MachineVecList {
	var head structs.MachineVecList
	for i := len(hops) - 1; i >= 0; i-- {
		head = &structs.MachineVecNode{MachineAddr: hops[i].machine, Vector: structs.VecT(hops[i].id), Next: head}
	}
	return head
}

func dialSlave(t testing.TB, addr string, vers uint32) *rpc.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	c, err := portmap.Dial(ctx, "tcp", addr, structs.SLAVE_PROG, vers, rpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestThirdHopIsNamed: with the third hop of a hand-made list dead or stopped,
// the answer names it and not the hop before it.
func TestThirdHopIsNamed(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	c := cluster.New(t, cluster.Options{Replicas: 1})
	conn := cluster.MustDial(t)
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	for i := range uint64(3) {
		require.NoError(t, conn.Put(ctx, i+1, cluster.Words{1 << i}, cluster.Addr(int(i))))
	}
	chain := list(hop{cluster.Addr(0), 1}, hop{cluster.Addr(1), 2}, hop{cluster.Addr(2), 3})
	v1 := structs.NewSlaveProgSlaveV1Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V1))
	v2 := structs.NewSlaveProgSlaveV2Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V2))
	ask := func(want string) {
		t.Helper()
		r, err := v1.HandleQuery(ctx, structs.HandleQueryArgs{List: chain})
		require.NoError(t, err)
		require.Equal(t, want, r.FailedMachine)
		if want == "" {
			require.EqualValues(t, 7, r.Vector)
		}
		r2, err := v2.HandleQuery(ctx, structs.HandleQuery2Args{List: chain, Format: structs.BITMAP_WORDS})
		require.NoError(t, err)
		if want == "" {
			require.Equal(t, structs.QUERY_OK, r2.Status)
			require.Equal(t, []uint64{7}, r2.Leg.Rows.Words)
		} else {
			require.Equal(t, []structs.MachineName{structs.MachineName(want)}, r2.Failure.FailedMachines, "%+v", r2)
		}
	}
	ask("")
	c.Slaves[2].Stop(t)
	ask(cluster.Addr(2))
	c.Slaves[2].Continue(t)
	ask("")
	c.Slaves[2].Kill(t)
	ask(cluster.Addr(2))
}

// TestMillionNodes: a list of 1,000,000 nodes is answered, and the slave's peak
// memory for it is below ten times the record.
func TestMillionNodes(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	c := cluster.New(t, cluster.Options{Slaves: 1, Replicas: 1})
	conn := cluster.MustDial(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*cluster.Wait)
	defer cancel()
	for i := range uint64(64) {
		require.NoError(t, conn.Put(ctx, i, cluster.Words{1 << i}))
	}
	const nodes = 1_000_000
	chain := make([]structs.MachineVecNode, nodes)
	for i := range chain {
		chain[i] = structs.MachineVecNode{MachineAddr: cluster.Addr(0), Vector: structs.VecT(i % 64)}
		if i > 0 {
			chain[i-1].Next = &chain[i]
		}
	}
	record := nodes * (4 + 4 + 12 + 8)
	before := peak(t, c.Slaves[0].Pid())

	r, err := structs.NewSlaveProgSlaveV1Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V1)).
		HandleQuery(ctx, structs.HandleQueryArgs{List: &chain[0]})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: 1<<64 - 1}, r)
	r2, err := structs.NewSlaveProgSlaveV2Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V2)).
		HandleQuery(ctx, structs.HandleQuery2Args{List: &chain[0], Format: structs.BITMAP_WORDS})
	require.NoError(t, err)
	require.Equal(t, []uint64{1<<64 - 1}, r2.Leg.Rows.Words, "%v", r2.Failure)
	runtime.KeepAlive(chain)

	after := peak(t, c.Slaves[0].Pid())
	t.Logf("record %d bytes, resident peak of the slave %d before, %d after: %.1f times the record",
		record, before, after, float64(after)/float64(record))
	require.Less(t, after, 10*record)
}
