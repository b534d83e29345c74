package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/vector"
)

// BenchmarkOrInto is a handler's work: 100 stored vectors of 1e6 rows.
func BenchmarkOrInto(b *testing.B) {
	for _, step := range []uint32{1000, 100, 10, 2} {
		s, err := Open(filepath.Join(b.TempDir(), "v.db"), Config{})
		require.NoError(b, err)
		var ids []uint64
		for id := range uint64(100) {
			rows := vector.New()
			for r := uint32(id) % 7; r < 1_000_000; r += step {
				rows.Add(r)
			}
			_, err := s.Put(id, 1, rows)
			require.NoError(b, err)
			ids = append(ids, id)
		}
		b.Run(fmt.Sprint("1in", step), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.OrInto(context.Background(), ids, vector.New()); err != nil {
					b.Fatal(err)
				}
			}
		})
		s.Close()
	}
}
