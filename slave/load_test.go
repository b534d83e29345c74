package slave

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// TestListsInAnyOrderDoNotWaitOnEachOther: more calls than a connection carries
// at once, of lists that go around in a circle. Each would hold the slot that
// another one waits for.
func TestListsInAnyOrderDoNotWaitOnEachOther(t *testing.T) {
	f := newFleet(t)
	for i, addr := range []string{a, b, c} {
		f.member(addr, 2)
		f.start(Config{Addr: addr, HopTimeout: time.Minute})
		f.put(addr, uint64(10*i), uint32(10*i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // less than DefaultDeadline
	defer cancel()
	na, nb, nc := item{a, 0}, item{b, 10}, item{c, 20}
	rows := bits(0, 10, 20)
	var wg sync.WaitGroup
	for addr, l := range map[string][]item{a: {na, nb, nc}, b: {nb, nc, na}, c: {nc, na, nb}} {
		for range 4 {
			v1 := f.v1(addr)
			for i := range rpc.DefaultMaxCallsPerConn {
				wg.Go(func() {
					if i%2 == 0 {
						r, err := v1.HandleQuery(ctx, structs.HandleQueryArgs{List: list(l...)})
						require.NoError(t, err)
						require.Equal(t, structs.QueryReturnValue{Vector: rows}, r)
						return
					}
					r, err := v1.Coordinate(ctx, structs.CoordinateArgs{Ranges: []structs.MachineVecList{list(l...), list(l...)}})
					require.NoError(t, err)
					require.Equal(t, structs.CoordinateReturnValue{Vector: rows}, r)
				})
			}
		}
	}
	wg.Wait()
}

// TestComputingIsBounded: a call that gets no turn ends with its deadline, and
// the slave still shows that it lives.
func TestComputingIsBounded(t *testing.T) {
	f := threeSlaves(t)
	s := f.slaves[a]
	for range cap(s.computing) {
		s.computing <- struct{}{}
	}
	require.NoError(t, f.client("tcp", a).Call(t.Context(), structs.SLAVE_PROG, structs.SLAVE_V2, 0, nil, nil))
	args := structs.HandleQuery2Args{List: list(item{a, 0}), DeadlineMs: 20}
	r, err := f.v2(a).HandleQuery(t.Context(), args)
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_DEADLINE, r.Status)
	require.Empty(t, r.Failure.FailedMachines)
	<-s.computing
	args.DeadlineMs = 0
	r, err = f.v2(a).HandleQuery(t.Context(), args)
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, r.Status)
	for range cap(s.computing) - 1 {
		<-s.computing
	}
}

// TestCoordinatorsLeaveSlotsForHandlers: or coordinators on all slaves could wait
// for handlers that get no slot.
func TestCoordinatorsLeaveSlotsForHandlers(t *testing.T) {
	f := threeSlaves(t)
	s := f.slaves[a]
	require.Less(t, cap(s.coordinating), rpc.DefaultMaxCalls)
	for range cap(s.coordinating) {
		s.coordinating <- struct{}{}
	}
	l := list(item{a, 0}, item{b, 10})
	r, err := f.v2(a).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: l}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_FAILED, r.Status)
	require.Empty(t, r.Failure.FailedMachines)
	_, err = f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l}})
	require.ErrorIs(t, err, rpc.ErrSystem)
	h, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: bits(0, 10)}, h)
	for range cap(s.coordinating) {
		<-s.coordinating
	}
}

// TestPartsAboveTheRecord: a result is answered whose part of one machine fits in
// no record, whoever coordinates.
func TestPartsAboveTheRecord(t *testing.T) {
	f := newFleet(t, a, b)
	const containers = 2800 // of 8 KiB, 65536 rows each: three of these do not fit, two do
	for id := range 3 {
		words := make([]uint64, 3*containers*1024)
		for i := id * containers * 1024; i < (id+1)*containers*1024; i++ {
			words[i] = 0x5555555555555555
		}
		v, err := vector.FromWords(words)
		require.NoError(t, err)
		_, err = f.slaves[b].store.Put(uint64(id), 1, v)
		require.NoError(t, err)
	}
	f.put(a, 9, 1)
	args := structs.Coordinate2Args{
		Ranges:   []structs.RangePlan{{List: list(item{b, 0}, item{b, 1}, item{b, 2}, item{a, 9}), Strategy: structs.RANGE_FAN_OUT}},
		Format:   structs.BITMAP_ROARING,
		FirstRow: 3*containers*65536 - 5,
	}
	for _, coordinator := range []string{a, b} {
		r, err := f.v2(coordinator).Coordinate(t.Context(), args)
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		require.EqualValues(t, 3*containers*65536/2+1, r.Result.Answer.Count)
		require.Len(t, words(t, r.Result.Answer.Rows).Rows(0, 0), 2)
	}
}
