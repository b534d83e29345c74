package local

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// A put's part in the catalog: two commits, shared by those that wait together.
func BenchmarkPut(b *testing.B) {
	c, _ := cluster(b)
	var id atomic.Uint64
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			put(b, c, id.Add(1)<<32, "127.0.0.2", "127.0.0.3")
		}
	})
}

func BenchmarkOpenMillion(b *testing.B) {
	path := filepath.Join(b.TempDir(), "catalog.db")
	c := open(b, path)
	if err := c.AddSlave(context.Background(), catalog.Slave{Addr: "a", Protocol: 2}, nil); err != nil {
		b.Fatal(err)
	}
	err := c.log.file.Update(func(tx *bbolt.Tx) error {
		w, err := newWriter(tx)
		if err != nil {
			return err
		}
		bucket(tx, catalog.Members).FillPercent = 1
		for id := range uint64(1_000_000) {
			if err := w.store(catalog.Record{Space: catalog.Members, Key: key64(id), Value: []byte{0, 100, 1, 1}}); err != nil {
				return err
			}
		}
		return w.end()
	})
	if err != nil {
		b.Fatal(err)
	}
	c.Close()
	for b.Loop() {
		open(b, path).Close()
	}
}
