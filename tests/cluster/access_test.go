package cluster_test

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// outside is an address of this namespace that is not of loopback: what is
// dialed at it comes from it.
const outside = "10.77.0.1"

func addOutside(t *testing.T) {
	t.Helper()
	netns.AddAddr(t, nil, "lo", outside+"/32")
}

func dialOutside(t *testing.T, prog, vers uint32) *rpc.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	c, err := portmap.Dial(ctx, "tcp", outside, prog, vers, rpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestOutsideMayOnlyRead: from an address that is neither loopback nor allowed
// queries are answered and every change is refused.
func TestOutsideMayOnlyRead(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	addOutside(t)
	cluster.New(t, cluster.Options{Slaves: 1, Replicas: 1, MasterArgs: []string{"--listen", outside}})
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	require.NoError(t, cluster.MustDial(t).Put(ctx, 7, cluster.Words{5}))

	m := structs.NewMasterProgMasterV2Client(dialOutside(t, structs.MASTER_PROG, structs.MASTER_V2))
	r, err := m.MasterQuery(ctx, structs.QueryRequest{Text: "P:7"})
	require.NoError(t, err)
	require.Equal(t, []uint64{5}, r.Answer.Rows.Words)
	v1, err := structs.NewMasterProgMasterV1Client(dialOutside(t, structs.MASTER_PROG, structs.MASTER_V1)).MasterQuery(ctx, "P:7")
	require.NoError(t, err)
	require.EqualValues(t, 5, v1.Vector)

	put, err := m.MasterPut(ctx, structs.PutRequest{Id: 7, Rows: structs.RowBitmap{Words: []uint64{6}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DENIED, put.Status)
	del, err := m.MasterDelete(ctx, 7)
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DENIED, del.Status)
	join, err := m.MasterJoin(ctx, structs.JoinRequest{Addr: outside, Protocol: 2})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DENIED, join.Status)

	r, err = m.MasterQuery(ctx, structs.QueryRequest{Text: "P:7"})
	require.NoError(t, err)
	require.Equal(t, []uint64{5}, r.Answer.Rows.Words, "a refused change changed something")
}

// TestOutsideCannotStoreOnASlave: the same at a slave that listens there.
func TestOutsideCannotStoreOnASlave(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	addOutside(t)
	cluster.Start(t, "portmap", "--listen", outside)
	cluster.Start(t, "slave", "--addr", outside, "--data", filepath.Join(t.TempDir(), "s"))
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
	defer cancel()
	s := structs.NewSlaveProgSlaveV2Client(dialOutside(t, structs.SLAVE_PROG, structs.SLAVE_V2))
	st, err := s.SlaveStore(ctx, structs.StoreRequest{Id: 1, Revision: 1, Rows: structs.RowBitmap{Words: []uint64{1}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DENIED, st.Status)
	er, err := s.SlaveDelete(ctx, structs.EraseRequest{Id: 1, Revision: 2})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DENIED, er.Status)
	h, err := s.HandleQuery(ctx, structs.HandleQuery2Args{})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, h.Status)
}

// TestForgedListDialsNobody: a list that names a stranger makes no slave dial
// it, except where --allow-machine names it.
func TestForgedListDialsNobody(t *testing.T) {
	const stranger = "127.0.0.99"
	for _, tc := range []struct {
		name  string
		allow []string
		want  bool
	}{
		{"stranger", nil, false},
		{"allowed", []string{"--allow-machine", stranger + "/32"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !netns.Enter(t) {
				return
			}
			cluster.New(t, cluster.Options{Slaves: 1, Replicas: 1, SlaveArgs: tc.allow})
			l, err := net.Listen("tcp", stranger+":20490")
			require.NoError(t, err)
			var accepted atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					accepted.Add(1)
					conn.Close()
				}
			}()
			defer func() { l.Close(); <-done }()

			ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
			defer cancel()
			chain := list(hop{stranger, 1}, hop{cluster.Addr(0), 1})
			r, err := structs.NewSlaveProgSlaveV1Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V1)).
				HandleQuery(ctx, structs.HandleQueryArgs{List: chain})
			require.NoError(t, err)
			require.Equal(t, stranger, r.FailedMachine)
			r2, err := structs.NewSlaveProgSlaveV2Client(dialSlave(t, cluster.Addr(0), structs.SLAVE_V2)).
				Coordinate(ctx, structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: chain}}})
			require.NoError(t, err)
			require.Equal(t, []structs.MachineName{stranger}, r2.Failure.FailedMachines)
			require.Equal(t, tc.want, accepted.Load() > 0, "%d connections", accepted.Load())
		})
	}
}
