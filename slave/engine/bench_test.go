package engine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"starfish/idset"
	"starfish/store"
	"starfish/vector"
	"starfish/vector/fold"
)

// BenchmarkCoordinate is a query of three ranges of ten vectors of 50,000 rows out
// of 5,000,000, over three machines without a network between them.
func BenchmarkCoordinate(b *testing.B) {
	engines := make([]*Engine, 3)
	sets := make([][]idset.Encoded, 3)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range engines {
		s, err := store.Open(filepath.Join(b.TempDir(), "v.db"), store.Config{})
		require.NoError(b, err)
		b.Cleanup(func() { s.Close() })
		engines[i] = New(s, atOnce)
		sets[i] = make([]idset.Encoded, 3)
		for r := range 3 {
			var set idset.Set
			for v := range 10 {
				if v%3 != i {
					continue
				}
				id := uint64(r*10 + v)
				rows := vector.New()
				for range 50_000 {
					rows.Add(rnd.Uint32N(5_000_000))
				}
				_, err := s.Put(id, 1, rows)
				require.NoError(b, err)
				set.Add(id)
			}
			sets[i][r], err = idset.Parse(set.Bytes(), 100)
			require.NoError(b, err)
		}
	}
	q := Query{Ranges: 3, Own: sets[0], Count: true, Together: func(ctx context.Context, fs []func(context.Context) error) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, f := range fs {
			g.Go(func() error { return f(ctx) })
		}
		return g.Wait()
	}}
	for i := 1; i < 3; i++ {
		q.Remotes = append(q.Remotes, func(ctx context.Context, first, limit int) (Window, error) {
			l, err := engines[i].Leg(ctx, sets[i], first, limit)
			if err != nil {
				return Window{}, err
			}
			f, err := fold.ParseFrame(l.Frame, 3, first, l.Next)
			return Window{Frame: f, Next: l.Next, Absent: l.Absent, Fingerprint: l.Fingerprint}, err
		})
	}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := engines[0].Coordinate(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("leg", func(b *testing.B) {
		for b.Loop() {
			l, err := engines[1].Leg(b.Context(), sets[1], 0, windowBytes)
			if err != nil || l.Next != fold.Keys {
				b.Fatal(l.Next, err)
			}
			b.SetBytes(int64(len(l.Frame)))
		}
	})
}
