package vector

import (
	"fmt"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

func BenchmarkOrAll(b *testing.B) {
	for _, density := range []float64{0.001, 0.01, 0.1, 0.5} {
		var all []*Bitmap
		var rbs []*roaring.Bitmap
		var words [][]uint64
		for i := range 100 {
			x := New()
			step := 1 / density
			for r := float64(i % 7); r < 1e6; r += step {
				x.Add(uint32(r))
			}
			all, rbs, words = append(all, x), append(rbs, &x.rb), append(words, x.WordsAt(0))
		}
		b.Run(fmt.Sprintf("%v/ours", density), func(b *testing.B) {
			for b.Loop() {
				OrAll(all)
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

// BenchmarkWire is what a result costs at each hop: written, and read again.
func BenchmarkWire(b *testing.B) {
	for _, step := range []uint32{1000, 100, 10, 2} {
		rows := New()
		for r := uint32(0); r < 5_000_000; r += step {
			rows.Add(r)
		}
		data := rows.AppendRoaring(nil)
		b.Run(fmt.Sprint("write 1in", step), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				c := rows.Clone()
				c.Optimize()
				c.AppendRoaring(nil)
			}
		})
		b.Run(fmt.Sprint("read 1in", step), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := ReadRoaring(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadRuns is BenchmarkWire for results of many runs.
func BenchmarkReadRuns(b *testing.B) {
	for _, runs := range []int{30, 1000, 4000} {
		rows := New()
		for i := range uint32(runs) {
			rows.AddRange(i*16, i*16+9)
		}
		rows.Optimize()
		data := rows.AppendRoaring(nil)
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := ReadRoaring(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
