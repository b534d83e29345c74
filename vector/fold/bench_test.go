package fold

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"
)

// mixed is the mixed table: 5,000,000 rows, 3 columns of 100 values, one vector
// a value.
func mixed(b *testing.B) (views [3][100]View, rbs [3][100]*roaring.Bitmap) {
	var rows [3][100][]uint32
	for row := range uint32(5_000_000) {
		for f := range uint64(3) {
			x := (uint64(row)*3 + f + 1) * 0x9e3779b97f4a7c15
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			v := (x ^ x>>31) % 100
			rows[f][v] = append(rows[f][v], row)
		}
	}
	for f := range rows {
		for v := range rows[f] {
			rb := roaring.BitmapOf(rows[f][v]...)
			rb.RunOptimize()
			rbs[f][v] = rb
			_, views[f][v] = serialize(b, rb)
		}
	}
	return views, rbs
}

// BenchmarkMixed is the work of a table with three columns of 100 values, beside roaring.
func BenchmarkMixed(b *testing.B) {
	views, rbs := mixed(b)
	for _, tt := range []struct {
		name  string
		width []int // vectors of column 0, 1, 2
	}{
		{"4x5", []int{4, 5}}, {"3x10", []int{10, 10, 10}}, {"100", []int{100}}, {"1", []int{1}}, {"1x1", []int{1, 1}},
	} {
		g := NewGather(0)
		fill := func() {
			g.Reset(len(tt.width))
			for f, n := range tt.width {
				for i := range n {
					v, err := Parse(views[f][i].data)
					if err != nil {
						b.Fatal(err)
					}
					g.Add(f, v)
				}
			}
		}
		var count, want uint64
		for _, procs := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("%s/count/ours on %d", tt.name, procs), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				for b.Loop() {
					fill()
					count, _ = g.Count(b.Context(), 0, Keys)
				}
			})
		}
		theirs := func() *roaring.Bitmap {
			ranges := make([]*roaring.Bitmap, len(tt.width))
			for f, n := range tt.width {
				ranges[f] = roaring.FastOr(rbs[f][:n]...)
			}
			return roaring.FastAnd(ranges...)
		}
		b.Run(tt.name+"/count/roaring", func(b *testing.B) {
			for b.Loop() {
				want = theirs().GetCardinality()
			}
		})
		if want != 0 { // it has run
			require.Equal(b, want, count)
		}
		b.Run(tt.name+"/rows/ours on 1", func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var out []byte
			for b.Loop() {
				fill()
				out, _ = g.Append(b.Context(), out[:0], 0, Keys)
			}
		})
		b.Run(tt.name+"/rows/roaring", func(b *testing.B) {
			for b.Loop() {
				sum := theirs()
				sum.RunOptimize()
				if _, err := sum.ToBytes(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOr is the OR of 100 vectors of 1e6 rows, as bytes.
func BenchmarkOr(b *testing.B) {
	for _, density := range []float64{0.001, 0.01, 0.1, 0.5} {
		r := rng(1)
		var views []View
		var rbs []*roaring.Bitmap
		var words [][]uint64
		for range 100 {
			x := roaring.New()
			for row := range uint32(1e6) {
				if r.Float64() < density {
					x.Add(row)
				}
			}
			_, v := serialize(b, x)
			views, rbs, words = append(views, v), append(rbs, x), append(words, x.ToDense())
		}
		g := NewGather(1)
		b.Run(fmt.Sprintf("%v/ours", density), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var out []byte
			for b.Loop() {
				g.Reset(1)
				for _, v := range views {
					v, _ := Parse(v.data)
					g.Add(0, v)
				}
				out, _ = g.Append(b.Context(), out[:0], 0, Keys)
			}
		})
		b.Run(fmt.Sprintf("%v/FastOr", density), func(b *testing.B) {
			for b.Loop() {
				roaring.FastOr(rbs...)
			}
		})
		b.Run(fmt.Sprintf("%v/ParOr", density), func(b *testing.B) {
			for b.Loop() {
				roaring.ParOr(0, rbs...)
			}
		})
		b.Run(fmt.Sprintf("%v/words", density), func(b *testing.B) {
			for b.Loop() {
				sum := make([]uint64, 15626)
				for _, w := range words {
					for i, v := range w {
						sum[i] |= v
					}
				}
			}
		})
	}
}

// BenchmarkSmall is the OR of 500,000 vectors of 8 rows, spread over few keys and
// over all.
func BenchmarkSmall(b *testing.B) {
	for _, rows := range []uint64{5_000_000, 1 << 32} {
		r := rng(1)
		slab := make([]byte, 0, 100<<20) // as a store has them: no pointers for the collector
		var datas [][]byte
		for range 500_000 {
			x := roaring.New()
			for range 8 {
				x.Add(uint32(r.Uint64N(rows)))
			}
			data, _ := serialize(b, x)
			slab = append(slab, data...)
			datas = append(datas, slab[len(slab)-len(data):])
		}
		runtime.GC()
		for _, procs := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("%d/ours on %d", rows, procs), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				b.ReportAllocs()
				for b.Loop() {
					g := NewGather(1)
					for _, data := range datas {
						v, err := Parse(data)
						if err != nil {
							b.Fatal(err)
						}
						g.Add(0, v)
					}
					if _, err := g.Append(b.Context(), nil, 0, Keys); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		// FastOr takes a minute for rows over 2^32.
		b.Run(fmt.Sprintf("%d/ParHeapOr", rows), func(b *testing.B) {
			b.ReportAllocs()
			rbs := make([]*roaring.Bitmap, len(datas))
			for i := range rbs {
				rbs[i] = roaring.New()
			}
			for b.Loop() {
				for i, data := range datas {
					if _, err := rbs[i].FromBuffer(data); err != nil {
						b.Fatal(err)
					}
				}
				roaring.ParHeapOr(1, rbs...)
			}
		})
	}
}
