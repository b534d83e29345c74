package slave

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
	"starfish/xdr"
)

// handler is a C handler: version 1 alone, the nodes at the head of the list,
// then the next machine with the rest.
type handler struct {
	structs.SlaveProgSlaveV1Handler
	f       *fleet
	machine string
	vectors map[structs.VecT]structs.VecT

	mu    sync.Mutex
	delay time.Duration
	seen  []int // nodes of each list
}

// handler starts one; protocol 1 makes it a static member.
func (f *fleet) handler(machine string, protocol uint32, vectors map[structs.VecT]structs.VecT) *handler {
	h := &handler{f: f, machine: machine, vectors: vectors}
	srv := rpc.NewServer(quiet())
	srv.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(h.serve))
	f.place(machine, f.listen("127.0.0.1:0", srv))
	f.member(machine, protocol)
	return h
}

func (h *handler) serve(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	if call.Proc != structs.HANDLE_QUERY {
		return reply, rpc.ErrProcUnavail
	}
	var arg structs.HandleQueryArgs
	if err := arg.DecodeXDR(args); err != nil {
		return nil, rpc.ErrGarbageArgs
	}
	res, err := h.handle(ctx, arg)
	if err != nil {
		return nil, err
	}
	return res.AppendXDR(reply)
}

func (h *handler) handle(ctx context.Context, arg structs.HandleQueryArgs) (structs.QueryReturnValue, error) {
	nodes := 0
	for n := arg.List; n != nil; n = n.Next {
		nodes++
	}
	h.mu.Lock()
	h.seen = append(h.seen, nodes)
	delay := h.delay
	h.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	n, word := arg.List, arg.Result
	for ; n != nil && n.MachineAddr == h.machine; n = n.Next {
		bits, ok := h.vectors[n.Vector]
		if !ok {
			return structs.QueryReturnValue{FailedMachine: h.machine}, nil
		}
		word |= bits
	}
	if n == nil {
		return structs.QueryReturnValue{Vector: word}, nil
	}
	c, err := h.f.dial(ctx, n.MachineAddr, 1)
	if err != nil {
		return structs.QueryReturnValue{FailedMachine: n.MachineAddr}, nil
	}
	defer c.Close()
	return structs.NewSlaveProgSlaveV1Client(c).HandleQuery(ctx, structs.HandleQueryArgs{List: n, Result: word})
}

// takes sets how long it takes for each call.
func (h *handler) takes(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delay = d
}

func (h *handler) lists() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// TestMixedChain: Go, C, Go; and one that ends in C, and one with C in the middle
// of other machines' nodes. C only takes what stands at the head.
func TestMixedChain(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 1, 1)
	f.put(b, 2, 2)
	h := f.handler(c, 1, map[structs.VecT]structs.VecT{3: bits(3), 4: bits(4)})
	for _, l := range []func() structs.MachineVecList{
		func() structs.MachineVecList { return list(item{a, 1}, item{c, 3}, item{c, 4}, item{b, 2}) },
		func() structs.MachineVecList { return list(item{c, 3}, item{a, 1}, item{b, 2}, item{c, 4}) },
		func() structs.MachineVecList { return list(item{a, 1}, item{b, 2}, item{c, 3}, item{c, 4}) },
	} {
		r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l()})
		require.NoError(t, err)
		require.Equal(t, structs.QueryReturnValue{Vector: bits(1, 2, 3, 4)}, r)
		r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l()})
		require.NoError(t, err)
		require.True(t, words(t, r2.Leg.Rows).Equal(vector.New(1, 2, 3, 4)), "%+v", r2)
		for _, s := range []structs.RangeStrategy{structs.RANGE_CHAIN, structs.RANGE_FAN_OUT} {
			co, err := f.v2(b).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: l(), Strategy: s}}})
			require.NoError(t, err)
			require.True(t, words(t, co.Result.Answer.Rows).Equal(vector.New(1, 2, 3, 4)), "%+v", co)
		}
	}
	for i, n := range h.lists() {
		if i%4 > 0 {
			require.Equal(t, 2, n, "version 2 sends a C handler its own nodes alone")
		}
	}
}

func TestStaticGetsNoMoreThanItsStackTakes(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 1, 1)
	f.put(b, 2, 2)
	h := f.handler(c, 1, map[structs.VecT]structs.VecT{3: bits(3)})
	l := func() structs.MachineVecList {
		nodes := []item{{a, 1}}
		for range maxStaticNodes + 5 {
			nodes = append(nodes, item{c, 3})
		}
		return list(append(nodes, item{b, 2})...)
	}
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l()})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: bits(1, 2, 3)}, r)
	co, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l()}})
	require.NoError(t, err)
	require.Equal(t, structs.CoordinateReturnValue{Vector: bits(1, 2, 3)}, co)
	require.Equal(t, []int{maxStaticNodes, 5, maxStaticNodes, 5}, h.lists())
}

// TestStaticTimeouts: it is not probed, and may take a hop timeout for each machine that is left.
func TestStaticTimeouts(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 1, 1)
	f.put(b, 2, 2)
	h := f.handler(c, 1, map[structs.VecT]structs.VecT{3: bits(3)})
	h.takes(testHop * 3 / 2)
	l := func() structs.MachineVecList { return list(item{a, 1}, item{c, 3}, item{b, 2}) }
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l()})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: bits(1, 2, 3)}, r, "two machines left: two hop timeouts")
	require.Equal(t, 1, f.dialed(c))

	h.takes(time.Hour)
	co, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l()}})
	require.NoError(t, err)
	require.Equal(t, structs.CoordinateReturnValue{FailedMachines: machineNames(c)}, co, "one hop: one hop timeout")
}

func TestStaticFailures(t *testing.T) {
	f := newFleet(t, a)
	f.put(a, 1, 1)
	f.handler(b, 1, map[structs.VecT]structs.VecT{})
	garbage := rpc.NewServer(quiet())
	garbage.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(
		func(_ context.Context, _ *rpc.Call, _ *xdr.Decoder, reply []byte) ([]byte, error) {
			return xdr.AppendUint64(reply, 7), nil // a NULL string ends the result here
		}))
	f.place(c, f.listen("127.0.0.1:0", garbage))
	f.member(c, 1)
	for _, machine := range []string{b, c} {
		r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{a, 1}, item{machine, 3})})
		require.NoError(t, err)
		require.Equal(t, structs.QueryReturnValue{FailedMachine: machine}, r)
		co, err := f.v2(a).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(item{machine, 3})}}})
		require.NoError(t, err)
		require.Equal(t, machineNames(machine), co.Failure.FailedMachines)
	}
}

// TestStaticSaysWhatItLacks: the failure names the ids and what the handler said.
func TestStaticSaysWhatItLacks(t *testing.T) {
	f := newFleet(t, a)
	f.put(a, 1, 1)
	f.handler(b, 1, map[structs.VecT]structs.VecT{})
	refusing := rpc.NewServer(quiet())
	refusing.Register(structs.SLAVE_PROG, structs.SLAVE_V1, rpc.HandlerFunc(
		func(context.Context, *rpc.Call, *xdr.Decoder, []byte) ([]byte, error) { return nil, rpc.ErrSystem }))
	f.place(c, f.listen("127.0.0.1:0", refusing))
	f.member(c, 1)
	for machine, says := range map[string]string{b: "does not hold", c: "SYSTEM_ERR"} {
		co, err := f.v2(a).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(item{a, 1}, item{machine, 3}, item{machine, 4})}}})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_FAILED, co.Status)
		require.Equal(t, machineNames(machine), co.Failure.FailedMachines, "so that the master takes another holder")
		require.Contains(t, co.Failure.Message, says)
		require.Contains(t, co.Failure.Message, "vectors 3, 4, ")
	}
}
