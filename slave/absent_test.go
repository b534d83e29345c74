package slave

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/vector"
)

// lacking is three slaves of which each lacks something: a has a tombstone of the
// vector 0, b never had 98, and c neither 99 nor, once more, 20.
func lacking(t *testing.T) (f *fleet, l structs.MachineVecList, want []structs.AbsentVector) {
	f = threeSlaves(t)
	_, err := f.slaves[a].store.Delete(0, 7)
	require.NoError(t, err)
	_, err = f.slaves[c].store.Delete(20, 9)
	require.NoError(t, err)
	l = list(item{a, 0}, item{a, 1}, item{b, 10}, item{b, 98}, item{c, 99}, item{c, 20}, item{c, 21})
	return f, l, []structs.AbsentVector{{Id: 0, Revision: 7}, {Id: 20, Revision: 9}, {Id: 98}, {Id: 99}}
}

func ascending(list []structs.AbsentVector) []structs.AbsentVector {
	slices.SortFunc(list, func(a, b structs.AbsentVector) int { return cmp.Compare(a.Id, b.Id) })
	return list
}

// TestAbsentIsNamed: what is absent on any hop comes with the answer of the rest
// where the caller takes it, and with no machine to blame.
func TestAbsentIsNamed(t *testing.T) {
	f, l, want := lacking(t)
	rest := vector.New(1, 10, 21)
	for _, at := range []string{a, b, c} {
		r, err := f.v2(at).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l, MaxAbsent: 4})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, "%+v", r.Failure)
		require.Equal(t, want, ascending(r.Leg.Absent))
		require.True(t, words(t, r.Leg.Rows).Equal(rest))

		for _, strategy := range []structs.RangeStrategy{structs.RANGE_CHAIN, structs.RANGE_FAN_OUT} {
			co, err := f.v2(at).Coordinate(t.Context(), structs.Coordinate2Args{
				Ranges: []structs.RangePlan{{List: l, Strategy: strategy}, {List: list(item{b, 10}, item{b, 98}), Strategy: strategy}}, MaxAbsent: 5})
			require.NoError(t, err)
			require.Equal(t, structs.QUERY_OK, co.Status, "%+v", co.Failure)
			require.Equal(t, []structs.AbsentVector{{Id: 0, Revision: 7}, {Id: 20, Revision: 9}, {Id: 98}, {Id: 98}, {Id: 99}}, ascending(co.Result.Absent))
			require.True(t, words(t, co.Result.Answer.Rows).Equal(vector.New(10)))
			require.EqualValues(t, 1, co.Result.Answer.Count)
		}
	}
}

// TestTooManyAbsent: who takes none, or fewer, is told as ever that it is not held.
func TestTooManyAbsent(t *testing.T) {
	f, l, _ := lacking(t)
	for most := range uint32(4) {
		r, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l, MaxAbsent: most})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_NOT_HELD, r.Status, "%d", most)
		require.NotEmpty(t, r.Failure.Vectors)
		require.Len(t, r.Failure.FailedMachines, 1)
		for _, strategy := range []structs.RangeStrategy{structs.RANGE_CHAIN, structs.RANGE_FAN_OUT} {
			co, err := f.v2(b).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: l, Strategy: strategy}}, MaxAbsent: most})
			require.NoError(t, err)
			require.Equal(t, structs.QUERY_NOT_HELD, co.Status, "%d", most)
		}
	}
	v1, err := f.v1(b).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
	require.NoError(t, err)
	require.Equal(t, b, v1.FailedMachine)
	co, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{list(item{a, 0})}})
	require.NoError(t, err)
	require.Equal(t, machineNames(a), co.FailedMachines)

	// A bound above all others is no way to a larger answer, and a datagram has its own.
	var many []item
	for id := range uint64(structs.MAX_ABSENT + 1) {
		many = append(many, item{a, 1000 + id})
	}
	for network, fits := range map[string]int{"tcp": structs.MAX_ABSENT, "udp": 64} {
		v2 := structs.NewSlaveProgSlaveV2Client(f.client(network, a))
		if network == "tcp" {
			r, err := v2.HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(many...), MaxAbsent: 1<<32 - 1})
			require.NoError(t, err)
			require.Equal(t, structs.QUERY_NOT_HELD, r.Status)
			require.EqualValues(t, structs.MAX_ABSENT+1, r.Failure.VectorsTotal)
		}
		r, err := v2.HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(many[:fits]...), MaxAbsent: 1<<32 - 1})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		require.Len(t, r.Leg.Absent, fits)
	}
	r, err := structs.NewSlaveProgSlaveV2Client(f.client("udp", a)).HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(many[:65]...), MaxAbsent: 100})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_NOT_HELD, r.Status)
}

// TestAbsentBesideACHandler: the handler has its nodes, the slaves around it name
// what they do not have.
func TestAbsentBesideACHandler(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 1, 1)
	f.put(b, 2, 2)
	h := f.handler(c, 1, map[structs.VecT]structs.VecT{3: bits(3)})
	l := func() structs.MachineVecList {
		return list(item{a, 1}, item{a, 5}, item{c, 3}, item{b, 2}, item{b, 6})
	}
	for _, strategy := range []structs.RangeStrategy{structs.RANGE_CHAIN, structs.RANGE_FAN_OUT} {
		for _, at := range []string{a, b} {
			f.slaves[at].cluster.refresh(t.Context())
			co, err := f.v2(at).Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: l(), Strategy: strategy}}, MaxAbsent: 10})
			require.NoError(t, err)
			require.Equal(t, structs.QUERY_OK, co.Status, "%+v", co.Failure)
			require.Equal(t, []structs.AbsentVector{{Id: 5}, {Id: 6}}, ascending(co.Result.Absent))
			require.True(t, words(t, co.Result.Answer.Rows).Equal(vector.New(1, 2, 3)))
		}
	}
	require.Len(t, h.lists(), 4)
}
