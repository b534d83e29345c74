package slave

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/slave/engine"
	"starfish/structs"
	"starfish/vector"
	"starfish/xdr"
)

const a, b, c = "127.0.0.2", "127.0.0.3", "127.0.0.4"

// threeSlaves hold vector 10*i+j with row 10*i+j, j under 4, on slave i of 0, 1, 2.
func threeSlaves(t *testing.T) *fleet {
	f := newFleet(t, a, b, c)
	for i, addr := range []string{a, b, c} {
		for j := range 4 {
			n := 10*i + j
			f.put(addr, uint64(n), uint32(n))
		}
	}
	return f
}

func bits(rows ...uint32) structs.VecT {
	w, _ := vector.New(rows...).Word()
	return structs.VecT(w)
}

func TestHandleQueryLists(t *testing.T) {
	f := threeSlaves(t)
	for _, tt := range []struct {
		name   string
		list   structs.MachineVecList
		result structs.VecT
		want   structs.VecT
	}{
		{"empty", nil, 0xff00, 0xff00},
		{"own", list(item{a, 1}), 0, bits(1)},
		{"own into a result", list(item{a, 1}), bits(60), bits(1, 60)},
		{"grouped", list(item{a, 0}, item{a, 1}, item{b, 10}, item{b, 11}, item{c, 20}, item{c, 21}), 0, bits(0, 1, 10, 11, 20, 21)},
		{"interleaved", list(item{a, 0}, item{b, 10}, item{c, 20}, item{a, 1}, item{b, 11}, item{c, 21}), 0, bits(0, 1, 10, 11, 20, 21)},
		{"out of order", list(item{c, 20}, item{b, 10}, item{a, 0}, item{b, 11}), 0, bits(0, 10, 11, 20)},
		{"repeats", list(item{a, 0}, item{a, 0}, item{b, 10}, item{a, 0}, item{b, 10}, item{b, 10}), 0, bits(0, 10)},
		{"head not mine", list(item{b, 10}, item{a, 0}), 0, bits(0, 10)},
		{"none mine", list(item{b, 10}, item{c, 20}, item{b, 11}), bits(5), bits(5, 10, 11, 20)},
		{"spelled otherwise", list(item{"::ffff:127.0.0.2", 2}, item{b, 10}), 0, bits(2, 10)},
	} {
		for _, network := range []string{"tcp", "udp"} {
			t.Run(tt.name+" "+network, func(t *testing.T) {
				conn := f.client(network, a)
				r, err := structs.NewSlaveProgSlaveV1Client(conn).HandleQuery(t.Context(), structs.HandleQueryArgs{List: tt.list, Result: tt.result})
				require.NoError(t, err)
				require.Equal(t, structs.QueryReturnValue{Vector: tt.want}, r)

				args := structs.HandleQuery2Args{List: tt.list, Result: structs.RowBitmap{Words: []uint64{uint64(tt.result), 0}}}
				r2, err := structs.NewSlaveProgSlaveV2Client(conn).HandleQuery(t.Context(), args)
				require.NoError(t, err)
				require.Equal(t, structs.QUERY_OK, r2.Status, "%+v", r2.Failure)
				require.True(t, words(t, r2.Leg.Rows).Equal(vector.FromWord(uint64(tt.want))))
			})
		}
	}
	require.Zero(t, f.dialed(a), "nobody calls the machine that was called first")
	require.LessOrEqual(t, f.dialed(b)+f.dialed(c), 4, "connections are kept")
}

func TestHandleQueryOfVectorsNotHeld(t *testing.T) {
	f := threeSlaves(t)
	l := list(item{a, 0}, item{b, 10}, item{b, 99}, item{b, 98}, item{c, 20})
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{FailedMachine: b}, r)
	r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_NOT_HELD, r2.Status)
	require.Equal(t, []uint64{98, 99}, r2.Failure.Vectors)
	require.Equal(t, uint64(2), r2.Failure.VectorsTotal)
	require.Equal(t, machineNames(b), r2.Failure.FailedMachines)

	// The vector of a tombstone is not held either.
	_, err = f.slaves[a].store.Delete(0, 2)
	require.NoError(t, err)
	r, err = f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{a, 0})})
	require.NoError(t, err)
	require.Equal(t, a, r.FailedMachine)
}

func TestRowsAboveAWord(t *testing.T) {
	f := threeSlaves(t)
	f.put(c, 29, 64)
	for _, l := range []structs.MachineVecList{list(item{c, 29}), list(item{a, 0}, item{b, 10}, item{c, 29})} {
		r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
		require.ErrorIs(t, err, rpc.ErrSystem, "%+v", r)
	}
	_, err := f.v1(c).HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{c, 29})})
	require.ErrorIs(t, err, rpc.ErrSystem)
	r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(item{a, 0}, item{b, 10}, item{c, 29}), Format: structs.BITMAP_ROARING})
	require.NoError(t, err)
	require.True(t, words(t, r2.Leg.Rows).Equal(vector.New(0, 10, 64)))
}

func TestMalformedArguments(t *testing.T) {
	f := threeSlaves(t)
	_, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{"", 1})})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
	_, err = f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
	v2 := f.v2(a)
	_, err = v2.Coordinate(t.Context(), structs.Coordinate2Args{})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
	bad := structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte("no bitmap")}
	_, err = v2.HandleQuery(t.Context(), structs.HandleQuery2Args{Result: bad})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
	_, err = v2.SlaveStore(t.Context(), structs.StoreRequest{Id: 1, Revision: 9, Rows: bad})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
	_, err = v2.SlaveStore(t.Context(), structs.StoreRequest{Id: 1, Revision: 9, Rows: structs.RowBitmap{Format: structs.BITMAP_NONE}})
	require.ErrorIs(t, err, rpc.ErrGarbageArgs)
}

// TestThirdHopIsNamed: dead or hanging, it is named, and never those before it.
func TestThirdHopIsNamed(t *testing.T) {
	f := threeSlaves(t)
	l := list(item{a, 0}, item{b, 10}, item{c, 20})
	check := func(t *testing.T, want string) {
		t.Helper()
		r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
		require.NoError(t, err)
		require.Equal(t, want, r.FailedMachine)
		r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l})
		require.NoError(t, err)
		co, err := f.v2(a).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: l}, {List: l, Strategy: structs.RANGE_FAN_OUT}}})
		require.NoError(t, err)
		co1, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l, list(item{b, 10})}})
		require.NoError(t, err)
		if want == "" {
			require.Equal(t, structs.QUERY_OK, r2.Status)
			require.Equal(t, structs.QUERY_OK, co.Status)
			require.Equal(t, structs.CoordinateReturnValue{Vector: bits(10)}, co1)
			return
		}
		require.Equal(t, structs.QUERY_UNAVAILABLE, r2.Status)
		require.Equal(t, machineNames(want), r2.Failure.FailedMachines)
		require.Regexp(t, "^"+want+": (connection refused|no answer within the hop timeout|nothing at .*)$", r2.Failure.Message)
		require.Equal(t, structs.QUERY_UNAVAILABLE, co.Status)
		require.Equal(t, machineNames(want), co.Failure.FailedMachines)
		require.Equal(t, machineNames(want), co1.FailedMachines)
	}
	check(t, "")
	for _, fate := range []string{"hanging", "refusing", "gone"} {
		t.Run(fate, func(t *testing.T) {
			f = threeSlaves(t) // without connections to c
			switch fate {
			case "hanging":
				f.hang(c)
			case "refusing":
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				f.place(c, l.Addr().String())
				l.Close()
			case "gone":
				f.mu.Lock()
				delete(f.at, c)
				f.mu.Unlock()
			}
			check(t, c)
		})
	}
}

// TestSlowHopIsNotBlamed: it answers after many hop timeouts, and probes at once.
func TestSlowHopIsNotBlamed(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 0, 0)
	f.put(b, 1, 1)
	h := f.slow(c, 4*testHop)
	l := list(item{a, 0}, item{b, 1}, item{c, 2})
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: bits(0, 1, 2)}, r)

	// With less time than it takes the answer blames nobody.
	h.d.Store(int64(time.Hour))
	r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l, DeadlineMs: uint32(2 * testHop / time.Millisecond)})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DEADLINE, r2.Status, "%+v", r2)
	require.Empty(t, r2.Failure.FailedMachines)
	co, err := f.v2(a).Coordinate(t.Context(), structs.Coordinate2Args{
		Ranges: []structs.RangePlan{{List: l}}, DeadlineMs: uint32(2 * testHop / time.Millisecond),
	})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DEADLINE, co.Status)
	require.Empty(t, co.Failure.FailedMachines)
}

// slow is a member that takes its time for HANDLE_QUERY.
func (f *fleet) slow(machine string, d time.Duration) *slowHandler {
	srv := rpc.NewServer(quiet())
	h := &slowHandler{}
	h.d.Store(int64(d))
	structs.RegisterSlaveProgSlaveV1(srv, h)
	structs.RegisterSlaveProgSlaveV2(srv, slowHandler2{h})
	f.place(machine, f.listen("127.0.0.1:0", srv))
	f.member(machine, 2)
	return h
}

type slowHandler struct {
	structs.SlaveProgSlaveV1Handler
	d atomic.Int64 // nanoseconds
}

func (h *slowHandler) wait(ctx context.Context) {
	select {
	case <-time.After(time.Duration(h.d.Load())):
	case <-ctx.Done():
	}
}

func (h *slowHandler) HandleQuery(ctx context.Context, arg structs.HandleQueryArgs) (structs.QueryReturnValue, error) {
	h.wait(ctx)
	return structs.QueryReturnValue{Vector: arg.Result | bits(uint32(arg.List.Vector))}, nil
}

type slowHandler2 struct{ *slowHandler }

func (h slowHandler2) HandleQuery(ctx context.Context, arg structs.HandleQuery2Args) (structs.RowsResponse, error) {
	h.wait(ctx)
	return structs.RowsResponse{Leg: structs.LegAnswer{Rows: arg.Result}}, nil
}

func (slowHandler2) Coordinate(context.Context, structs.Coordinate2Args) (structs.Coordinate2Response, error) {
	panic("not called")
}
func (slowHandler2) SlaveStore(context.Context, structs.StoreRequest) (structs.RevisionResponse, error) {
	panic("not called")
}
func (slowHandler2) SlaveDelete(context.Context, structs.EraseRequest) (structs.RevisionResponse, error) {
	panic("not called")
}
func (slowHandler2) SlaveInventory(context.Context, structs.InventoryRequest) (structs.InventoryResponse, error) {
	panic("not called")
}
func (h slowHandler2) SlaveLeg(ctx context.Context, arg structs.LegRequest) (structs.LegResponse, error) {
	h.wait(ctx)
	frame, err := engine.WordLeg(make([]uint64, len(arg.Ranges)))
	return structs.LegResponse{Window: structs.LegWindow{Frame: frame, NextKey: 1 << 16}}, err
}
func (slowHandler2) SlaveFetch(context.Context, uint64) (structs.FetchResponse, error) {
	panic("not called")
}

// TestSystemErrorPasses: a hop that answers SYSTEM_ERR blames nobody.
func TestSystemErrorPasses(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 0, 0)
	srv := rpc.NewServer(quiet())
	srv.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(failing))
	srv.Register(structs.SLAVE_PROG, structs.SLAVE_V2, rpc.HandlerFunc(failing))
	f.place(c, f.listen("127.0.0.1:0", srv))
	f.member(c, 2)
	l := list(item{a, 0}, item{c, 2})
	_, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
	require.ErrorIs(t, err, rpc.ErrSystem)
	_, err = f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l})
	require.ErrorIs(t, err, rpc.ErrSystem)
	_, err = f.v1(b).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l}})
	require.ErrorIs(t, err, rpc.ErrSystem)
}

func failing(_ context.Context, call *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
	if call.Proc == 0 {
		return reply, nil
	}
	return nil, rpc.ErrSystem
}

// TestLongList: a long list costs no stack; half of it is the next machine's.
func TestLongList(t *testing.T) {
	f := newFleet(t, a, b)
	for i := range uint64(32) {
		f.put(a, i, uint32(i))
		f.put(b, i+32, uint32(i+32))
	}
	nodes := make([]structs.MachineVecNode, 400_000) // the race detector makes a million slow
	for i := range nodes {
		nodes[i] = structs.MachineVecNode{MachineAddr: a, Vector: structs.VecT(i % 64)}
		if i%64 >= 32 {
			nodes[i].MachineAddr = b
		}
		if i > 0 {
			nodes[i-1].Next = &nodes[i]
		}
	}
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: &nodes[0]})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: ^structs.VecT(0)}, r)
}
