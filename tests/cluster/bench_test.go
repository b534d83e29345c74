package cluster_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
)

// BenchmarkWarmRange asks a range query over three slaves, one vector on each,
// and checks every answer; its peer in the same run is a NULL call to the
// master. The longest path is four calls: client, master, coordinator, and two
// hops of the chain behind the first handler.
func BenchmarkWarmRange(b *testing.B) {
	cluster.New(b, cluster.Options{Replicas: 1})
	c := cluster.MustDial(b)
	ctx := context.Background()
	for i := range uint64(3) {
		require.NoError(b, c.Put(ctx, i, cluster.Words{1 << i}, cluster.Addr(int(i))))
	}
	b.Run("null", func(b *testing.B) {
		for b.Loop() {
			if err := c.Null(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, q := range []struct {
		text string
		want uint64
	}{{"P:1", 1}, {"R:0-2", 3}, {"R:0-2&0-1", 2}} {
		b.Run(q.text, func(b *testing.B) {
			for b.Loop() {
				a, err := c.Query(ctx, q.text, structs.BITMAP_WORDS)
				if err != nil || a.Count != q.want {
					b.Fatal(fmt.Sprint(a, err))
				}
			}
		})
	}
}
