package peer

import (
	"context"
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/fault"
	"starfish/rpc"
	"starfish/structs"
)

// stub is a slave with one answer a call.
type stub struct {
	structs.SlaveProgSlaveV2Handler
	page     structs.InventoryPage
	ranges   []structs.RangePlan
	nonsense bool
}

func (s *stub) SlaveStore(_ context.Context, r structs.StoreRequest) (structs.RevisionResponse, error) {
	if r.Secret != (structs.JoinSecret{1}) {
		return structs.NewRevisionResponseFailure(structs.QUERY_DENIED, structs.QueryFailure{Message: "who are you"}), nil
	}
	return structs.RevisionResponse{Revision: r.Revision + uint64(len(r.Rows.Words))}, nil
}

func (s *stub) SlaveDelete(_ context.Context, r structs.EraseRequest) (structs.RevisionResponse, error) {
	return structs.RevisionResponse{Revision: r.Revision}, nil
}

func (s *stub) SlaveFetch(_ context.Context, id uint64) (structs.FetchResponse, error) {
	return structs.FetchResponse{Vector: structs.StoredVector{Revision: id, Rows: structs.RowBitmap{Words: []uint64{id}}}}, nil
}

func (s *stub) SlaveInventory(context.Context, structs.InventoryRequest) (structs.InventoryResponse, error) {
	return structs.InventoryResponse{Page: s.page}, nil
}

func (s *stub) HandleQuery(_ context.Context, a structs.HandleQuery2Args) (structs.RowsResponse, error) {
	if s.nonsense {
		return structs.RowsResponse{Leg: structs.LegAnswer{Rows: structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte{1}}}}, nil
	}
	return structs.RowsResponse{Leg: structs.LegAnswer{Absent: []structs.AbsentVector{{Id: uint64(a.List.Vector), Revision: 9}}}}, nil
}

func (s *stub) Coordinate(_ context.Context, a structs.Coordinate2Args) (structs.Coordinate2Response, error) {
	s.ranges = a.Ranges
	return structs.Coordinate2Response{Result: structs.CoordinatedAnswer{Answer: structs.QueryAnswer{Count: 3}}}, nil
}

// poolOf is a pool in which the machine a is the stub.
func poolOf(t *testing.T, s *stub) *Pool {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := rpc.NewServer(rpc.ServerConfig{})
	structs.RegisterSlaveProgSlaveV2(srv, s)
	srv.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(echo))
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	w := newWorld()
	w.set("a", l.Addr().String())
	return newPool(t, w)
}

func TestTypedCalls(t *testing.T) {
	s := &stub{}
	p := poolOf(t, s)
	ctx := t.Context()

	_, err := p.Store(ctx, "a", Write{ID: 7, Revision: 1})
	require.ErrorIs(t, err, fault.ErrDenied)
	require.EqualError(t, fault.Of(err), "who are you")
	rev, err := p.Store(ctx, "a", Write{ID: 7, Revision: 1, Secret: Secret{1}, Rows: Rows{Words: []uint64{1, 2}}})
	require.NoError(t, err)
	require.EqualValues(t, 3, rev)
	rev, err = p.Erase(ctx, "a", Write{ID: 7, Revision: 5})
	require.NoError(t, err)
	require.EqualValues(t, 5, rev)
	got, err := p.Fetch(ctx, "a", 7)
	require.NoError(t, err)
	require.Equal(t, Stored{Revision: 7, Rows: Rows{Words: []uint64{7}}}, got)
	require.NoError(t, p.Null(ctx, "a", 2, hop))
	require.NoError(t, p.Null(ctx, "a", 1, hop))
	require.ErrorIs(t, p.Null(ctx, "a", 3, hop), rpc.ErrProgMismatch)

	b, absent, err := p.Ask(ctx, "a", 7)
	require.NoError(t, err)
	require.Zero(t, b.Count())
	require.Equal(t, []Absent{{ID: 7, Revision: 9}}, absent)
	s.nonsense = true
	_, _, err = p.Ask(ctx, "a", 7)
	requireBlames(t, err, "a")

	sum, err := p.Coordinate(ctx, "a", Coordination{Ranges: []Range{{Strategy: 1, Legs: []Leg{{"a", []uint64{1, 2}}, {"b", []uint64{3}}}}, {}}})
	require.NoError(t, err)
	require.EqualValues(t, 3, sum.Count)
	require.Len(t, s.ranges, 2)
	require.Equal(t, structs.RANGE_FAN_OUT, s.ranges[0].Strategy)
	var list []structs.MachineVecNode
	for n := s.ranges[0].List; n != nil; n = n.Next {
		list = append(list, structs.MachineVecNode{MachineAddr: n.MachineAddr, Vector: n.Vector})
	}
	require.Equal(t, []structs.MachineVecNode{{MachineAddr: "a", Vector: 1}, {MachineAddr: "a", Vector: 2}, {MachineAddr: "b", Vector: 3}}, list)
	require.Nil(t, s.ranges[1].List)
}

// TestInventoryInOrder: a page that is out of order is an error, and no comparison.
func TestInventoryInOrder(t *testing.T) {
	s := &stub{}
	p := poolOf(t, s)
	for _, c := range []struct {
		name string
		ids  []uint64
		more bool
		ok   bool
	}{
		{"Empty", nil, false, true},
		{"Ascending", []uint64{5, 6, math.MaxUint64}, false, true},
		{"EmptyWithMore", nil, true, false},
		{"Twice", []uint64{5, 5}, false, false},
		{"Descending", []uint64{6, 5}, false, false},
		{"BelowTheFirst", []uint64{4, 6}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.page = structs.InventoryPage{Instance: 3, More: c.more}
			for _, id := range c.ids {
				s.page.Items = append(s.page.Items, structs.InventoryItem{Id: id, Revision: id + 1, Deleted: true})
			}
			page, err := p.Inventory(t.Context(), "a", 5, 0)
			if !c.ok {
				require.ErrorContains(t, err, "out of order")
				return
			}
			require.NoError(t, err)
			require.Len(t, page.Items, len(c.ids))
			for i, id := range c.ids {
				require.Equal(t, Item{ID: id, Revision: id + 1, Deleted: true}, page.Items[i])
			}
		})
	}
}
