package router

import (
	"fmt"
	"testing"

	"starfish/catalog"
)

// million returns three slaves with a million vectors, two copies each, some
// missing and some being written.
func million() *catalog.Snapshot {
	c := newCluster()
	for i := range 3 {
		c.slave(fmt.Sprintf("127.0.0.%d", i+2), unset)
	}
	slaves := c.Snapshot().Slaves()
	for id := range uint64(1_000_000) {
		c.vector(id, 100, catalog.Place(id, slaves, 2)...)
	}
	c.SetInventory("127.0.0.3", []uint64{3, 500_000}, 0)
	for id := uint64(1_000_000); id < 1_000_064; id++ {
		c.open(catalog.Intent{ID: id, Holders: []string{"127.0.0.2"}})
	}
	return c.Snapshot()
}

func BenchmarkRoute(b *testing.B) {
	snap := million()
	for _, text := range []string{"P:7", "R:0-3", "R:0-3&10-14", "R:0-18446744073709551615"} {
		q := parse(b, text)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Route(snap, q, Options{Seed: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
