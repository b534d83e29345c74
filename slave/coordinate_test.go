package slave

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

func TestCoordinate(t *testing.T) {
	f := newFleet(t, a, b, c)
	f.put(a, 1, 1, 2, 3, 1000)
	f.put(b, 2, 3, 4, 5, 2000)
	f.put(c, 3, 1, 5, 1000, 3_000_000)
	f.put(c, 4)
	whole := list(item{a, 1}, item{b, 2}, item{c, 3})
	for _, tt := range []struct {
		name   string
		ranges []structs.MachineVecList
		want   []uint32
	}{
		{"one range", []structs.MachineVecList{whole}, []uint32{1, 2, 3, 4, 5, 1000, 2000, 3_000_000}},
		{"two", []structs.MachineVecList{list(item{a, 1}, item{b, 2}), list(item{c, 3})}, []uint32{1, 5, 1000}},
		{"three", []structs.MachineVecList{list(item{b, 2}), whole, list(item{a, 1}, item{c, 3})}, []uint32{3, 5}},
		{"an empty vector", []structs.MachineVecList{whole, list(item{c, 4})}, nil},
		{"an empty list", []structs.MachineVecList{whole, nil}, nil},
	} {
		for _, s := range []structs.RangeStrategy{structs.RANGE_CHAIN, structs.RANGE_FAN_OUT} {
			t.Run(tt.name+" "+s.String(), func(t *testing.T) {
				var args structs.Coordinate2Args
				for _, l := range tt.ranges {
					args.Ranges = append(args.Ranges, structs.RangePlan{List: l, Strategy: s})
				}
				want := vector.New(tt.want...)
				v2 := f.v2(b)
				for _, format := range []structs.RowBitmapFormat{structs.BITMAP_WORDS, structs.BITMAP_ROARING} {
					args.Format = format
					r, err := v2.Coordinate(t.Context(), args)
					require.NoError(t, err)
					require.Equal(t, structs.QUERY_OK, r.Status, "%+v", r.Failure)
					require.Equal(t, want.Count(), r.Result.Answer.Count)
					require.Equal(t, format, r.Result.Answer.Rows.Format)
					require.True(t, words(t, r.Result.Answer.Rows).Equal(want))
				}
				args.FirstRow, args.MaxRows = 3, 2
				r, err := v2.Coordinate(t.Context(), args)
				require.NoError(t, err)
				require.Equal(t, want.Count(), r.Result.Answer.Count, "of the whole")
				require.True(t, words(t, r.Result.Answer.Rows).Equal(want.Page(3, 2)))
				args.Format = structs.BITMAP_NONE
				r, err = v2.Coordinate(t.Context(), args)
				require.NoError(t, err)
				require.Equal(t, structs.QueryAnswer{Count: want.Count(), Rows: structs.RowBitmap{Format: structs.BITMAP_NONE}}, r.Result.Answer)
			})
		}
	}
	// Version 1 answers where the result, if not each range, fits in a word.
	r, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{whole, list(item{b, 2})}})
	require.ErrorIs(t, err, rpc.ErrSystem, "%+v", r)
	r, err = f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{list(item{a, 1}), list(item{b, 2})}})
	require.NoError(t, err)
	require.Equal(t, structs.CoordinateReturnValue{Vector: bits(3)}, r)
}

// TestCoordinateNamesAllThatFailed, each once.
func TestCoordinateNamesAllThatFailed(t *testing.T) {
	f := newFleet(t)
	f.hang(b)
	for _, m := range []string{a, b, c} { // c is refused at once
		f.member(m, 2)
	}
	f.start(Config{Addr: a})
	f.put(a, 1, 1)
	ranges := []structs.MachineVecList{list(item{a, 1}, item{b, 2}), list(item{c, 3}), list(item{b, 2}, item{b, 4}), list(item{a, 99})}
	r, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: ranges})
	require.NoError(t, err)
	require.ElementsMatch(t, machineNames(b, c), r.FailedMachines)
	require.LessOrEqual(t, f.dialed(b), 4, "each of two ranges asks it once: a call and its probes")
	require.LessOrEqual(t, f.dialed(c), 2)
}

func TestManyRanges(t *testing.T) {
	f := newFleet(t, a, b)
	f.put(a, 1, 1, 2)
	f.put(b, 2, 3)
	var args structs.CoordinateArgs
	for range 5 * maxRanges {
		args.Ranges = append(args.Ranges, list(item{a, 1}, item{b, 2}))
	}
	r, err := f.v1(a).Coordinate(t.Context(), args)
	require.NoError(t, err)
	require.Equal(t, structs.CoordinateReturnValue{Vector: bits(1, 2, 3)}, r)
}

func TestAnswersThatDoNotFit(t *testing.T) {
	f := newFleet(t, a)
	scattered := vector.New()
	for i := range uint32(5000) {
		scattered.Add(i * 70)
	}
	_, err := f.slaves[a].store.Put(1, 1, scattered)
	require.NoError(t, err)
	f.put(a, 2, 1<<32-1)
	udp := structs.NewSlaveProgSlaveV2Client(f.client("udp", a))
	tcp := f.v2(a)

	r, err := udp.HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(item{a, 1}), Format: structs.BITMAP_ROARING})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_TOO_LARGE, r.Status)
	require.Contains(t, r.Failure.Message, "use tcp")
	r, err = tcp.HandleQuery(t.Context(), structs.HandleQuery2Args{List: list(item{a, 1}), Format: structs.BITMAP_ROARING})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, r.Status)
	fetched, err := udp.SlaveFetch(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_TOO_LARGE, fetched.Status)

	co, err := tcp.Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(item{a, 2})}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_TOO_LARGE, co.Status)
	require.Contains(t, co.Failure.Message, "use roaring, or pages")
	// A page of words begins at the word of its first row.
	for first, want := range map[uint64][]uint64{1 << 32: nil, 1<<32 - 65: {0, 1 << 63}, 1<<32 - 1: {1 << 63}, 349_930: {1 << (349_930 % 64)}} {
		co, err = tcp.Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(item{a, 1}, item{a, 2})}}, FirstRow: first, MaxRows: 1})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, co.Status, "%+v", co.Failure)
		require.Equal(t, want, append([]uint64(nil), co.Result.Answer.Rows.Words...), "from row %d on", first)
		require.Equal(t, uint64(5001), co.Result.Answer.Count)
	}
	co, err = udp.Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(item{a, 1}, item{a, 2})}}, Format: structs.BITMAP_ROARING, FirstRow: 100, MaxRows: 10})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, co.Status)
	require.Equal(t, uint64(5001), co.Result.Answer.Count)

	var many []item
	for i := range uint64(3000) {
		many = append(many, item{a, 1000 + i})
	}
	co, err = udp.Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(many[:300]...)}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_NOT_HELD, co.Status)
	co, err = tcp.Coordinate(t.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(many...)}}})
	require.NoError(t, err)
	require.Len(t, co.Failure.Vectors, 1000)
	require.Equal(t, uint64(3000), co.Failure.VectorsTotal)
}

func TestStoreProcedures(t *testing.T) {
	f := newFleet(t)
	data := filepath.Join(t.TempDir(), "s")
	_, stop := f.start(Config{Addr: a, Data: data})
	v2 := f.v2(a)
	rows := structs.RowBitmap{Words: []uint64{6, 0, 1, 0}}
	store := func(id, rev uint64, rows structs.RowBitmap) structs.RevisionResponse {
		r, err := v2.SlaveStore(t.Context(), structs.StoreRequest{Id: id, Revision: rev, Rows: rows})
		require.NoError(t, err)
		return r
	}
	require.Equal(t, structs.RevisionResponse{Revision: 5}, store(7, 5, rows))
	require.Equal(t, structs.RevisionResponse{Revision: 5}, store(7, 4, structs.RowBitmap{}), "a lower one is refused with what is there")
	require.Equal(t, structs.RevisionResponse{Revision: 5}, store(7, 5, rows))
	clash := store(7, 5, structs.RowBitmap{Words: []uint64{1}})
	require.Equal(t, structs.QUERY_FAILED, clash.Status)
	require.Contains(t, clash.Failure.Message, "two different contents")
	require.Equal(t, []uint64{7}, clash.Failure.Vectors)
	require.Equal(t, structs.RevisionResponse{Revision: 6}, store(8, 6, structs.RowBitmap{}))
	del, err := v2.SlaveDelete(t.Context(), structs.EraseRequest{Id: 8, Revision: 9})
	require.NoError(t, err)
	require.Equal(t, structs.RevisionResponse{Revision: 9}, del)
	stop()

	s, _ := f.start(Config{Addr: a, Data: data})
	v2 = f.v2(a)
	got, err := v2.SlaveFetch(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, uint64(5), got.Vector.Revision)
	require.False(t, got.Vector.Deleted)
	require.True(t, words(t, got.Vector.Rows).Equal(vector.New(1, 2, 128)))
	for id, rev := range map[uint64]uint64{8: 9, 99: 0} {
		got, err = v2.SlaveFetch(t.Context(), id)
		require.NoError(t, err)
		require.True(t, got.Vector.Deleted)
		require.Equal(t, rev, got.Vector.Revision)
		require.Equal(t, structs.BITMAP_NONE, got.Vector.Rows.Format)
	}
	page, err := v2.SlaveInventory(t.Context(), structs.InventoryRequest{MaxItems: 1})
	require.NoError(t, err)
	require.True(t, page.Page.More)
	require.Equal(t, s.instance, page.Page.Instance)
	require.Equal(t, uint64(7), page.Page.Items[0].Id)
	require.Equal(t, uint64(3), page.Page.Items[0].Count)
	page, err = v2.SlaveInventory(t.Context(), structs.InventoryRequest{FirstId: 8})
	require.NoError(t, err)
	require.False(t, page.Page.More)
	require.Equal(t, []structs.InventoryItem{{Id: 8, Revision: 9, Deleted: true}}, page.Page.Items)
}

func TestInventoryPages(t *testing.T) {
	f := newFleet(t, a)
	const n = 500
	done := make(chan struct{})
	for id := range uint64(n) {
		go func() { f.put(a, id, uint32(id)); done <- struct{}{} }()
	}
	for range n {
		<-done
	}
	for _, network := range []string{"tcp", "udp"} {
		v2 := structs.NewSlaveProgSlaveV2Client(f.client(network, a))
		var seen, first uint64
		for {
			r, err := v2.SlaveInventory(t.Context(), structs.InventoryRequest{FirstId: first})
			require.NoError(t, err)
			for _, it := range r.Page.Items {
				require.Equal(t, seen, it.Id)
				seen++
			}
			first = seen
			if !r.Page.More {
				break
			}
		}
		require.Equal(t, uint64(n), seen, network)
	}
}
