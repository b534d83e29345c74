package slave

import (
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
)

// BenchmarkHandleQuery compares a NULL call with HANDLE_QUERY of one, two and
// three machines, all in this process.
func BenchmarkHandleQuery(b *testing.B) {
	f := newFleet(b, a, "127.0.0.3", c)
	nodes := []item{{a, 1}, {"127.0.0.3", 2}, {c, 3}}
	for _, n := range nodes {
		f.put(n.machine, n.id, uint32(n.id))
	}
	conn := f.client("tcp", a)
	b.Run("NULL", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, conn.Call(b.Context(), structs.SLAVE_PROG, structs.SLAVE_V1, 0, nil, nil))
		}
	})
	for hops := 1; hops <= 3; hops++ {
		want := structs.VecT(1<<(hops+1) - 2)
		b.Run("v1 hops "+string(rune('0'+hops)), func(b *testing.B) {
			v1 := structs.NewSlaveProgSlaveV1Client(rpc.Caller(conn))
			for b.Loop() {
				r, err := v1.HandleQuery(b.Context(), structs.HandleQueryArgs{List: list(nodes[:hops]...)})
				if err != nil || r.Vector != want {
					b.Fatal(r, err)
				}
			}
		})
		b.Run("v2 hops "+string(rune('0'+hops)), func(b *testing.B) {
			v2 := structs.NewSlaveProgSlaveV2Client(rpc.Caller(conn))
			for b.Loop() {
				r, err := v2.Coordinate(b.Context(), structs.Coordinate2Args{Ranges: []structs.RangePlan{{List: list(nodes[:hops]...)}}})
				if err != nil || r.Result.Answer.Rows.Words[0] != uint64(want) {
					b.Fatal(r, err)
				}
			}
		})
	}
}
