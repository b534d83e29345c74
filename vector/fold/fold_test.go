package fold

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shapes are ways to fill the 65,536 rows of a key, with one container kind
// each, and edges.
var shapes = []struct {
	name string
	fill func(b *roaring.Bitmap, base uint64, r *rand.Rand)
}{
	{"one", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { b.Add(uint32(base) + r.Uint32N(1<<16)) }},
	{"last", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { b.Add(uint32(base) + 1<<16 - 1) }},
	{"word", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 4, 64) }},
	{"eight", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 8, 1<<16) }},
	{"few", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 60, 1<<16) }},
	{"some", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 700, 1<<16) }},
	{"array", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 4096, 1<<16) }},
	{"bitmap", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 9000, 1<<16) }},
	{"dense", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { scatter(b, base, r, 60000, 1<<16) }},
	{"full", func(b *roaring.Bitmap, base uint64, r *rand.Rand) { b.AddRange(base, base+1<<16) }},
	{"run", func(b *roaring.Bitmap, base uint64, r *rand.Rand) {
		first := r.Uint64N(1 << 16)
		b.AddRange(base+first, base+first+r.Uint64N(1<<16-first)+1)
	}},
	{"runs", func(b *roaring.Bitmap, base uint64, r *rand.Rand) {
		for at := r.Uint64N(900); at < 1<<16-200; at += 200 + r.Uint64N(900) {
			b.AddRange(base+at, base+at+1+r.Uint64N(190))
		}
	}},
	{"short runs", func(b *roaring.Bitmap, base uint64, r *rand.Rand) {
		for at := r.Uint64N(9000); at < 1<<16-20; at += 20 + r.Uint64N(9000) {
			b.AddRange(base+at, base+at+1+r.Uint64N(9))
		}
	}},
	{"every other", func(b *roaring.Bitmap, base uint64, r *rand.Rand) {
		for at := uint64(0); at < 1<<16; at += 2 {
			b.Add(uint32(base + at))
		}
	}},
}

func scatter(b *roaring.Bitmap, base uint64, r *rand.Rand, rows int, width uint32) {
	for range rows {
		b.Add(uint32(base) + r.Uint32N(width))
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// serialize is b's bytes, and as a view.
func serialize(t require.TestingT, b *roaring.Bitmap) ([]byte, View) {
	data, err := b.ToBytes()
	require.NoError(t, err)
	v, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, b.GetCardinality(), v.Rows())
	return data, v
}

// requireBytes requires that got is the set want in its smallest form. That is what
// roaring writes, but where runs take two bytes more than a bitmap: it leaves a
// container of runs as it is then.
func requireBytes(t require.TestingT, want *roaring.Bitmap, data, got []byte) {
	if bytes.Equal(data, got) {
		return
	}
	again := roaring.New()
	_, err := again.ReadFrom(bytes.NewReader(got))
	require.NoError(t, err)
	require.True(t, want.Equals(again), "another set")
	containers := want.Clone().Stats().Containers
	require.LessOrEqual(t, len(got), len(data)+8+4*int(containers), "not the smallest form")
}

// oracle is what roaring makes of ranges.
func oracle(ranges [][]*roaring.Bitmap) *roaring.Bitmap {
	sum := roaring.New()
	for i, all := range ranges {
		if or := roaring.FastOr(all...); i == 0 {
			sum = or
		} else {
			sum.And(or)
		}
	}
	sum.RunOptimize()
	return sum
}

// gather adds ranges to a Gather.
func gather(t require.TestingT, ranges [][]*roaring.Bitmap) *Gather {
	g := NewGather(len(ranges))
	for i, all := range ranges {
		for _, b := range all {
			_, v := serialize(t, b)
			g.Add(i, v)
		}
	}
	return g
}

// equal requires that every way to ask g answers want.
func equal(t require.TestingT, want *roaring.Bitmap, g *Gather) {
	ctx := context.Background()
	count, err := g.Count(ctx, 0, Keys)
	require.NoError(t, err)
	require.Equal(t, want.GetCardinality(), count)
	got, err := g.Append(ctx, []byte("before"), 0, Keys)
	require.NoError(t, err)
	data, _ := serialize(t, want)
	requireBytes(t, want, data, got[6:])
	require.Equal(t, "before", string(got[:6]))
	word, ok, err := g.Word(ctx)
	require.NoError(t, err)
	fits := want.IsEmpty() || want.Maximum() < 64
	require.Equal(t, fits, ok)
	if fits {
		require.Equal(t, want.GetCardinality(), uint64(roaring.BitmapOf(bitsOf(word)...).GetCardinality()))
		for _, row := range bitsOf(word) {
			require.True(t, want.Contains(row))
		}
	}
}

func bitsOf(word uint64) (rows []uint32) {
	for i := range uint32(64) {
		if word>>i&1 != 0 {
			rows = append(rows, i)
		}
	}
	return rows
}

// TestKinds folds every shape of container with every other, as OR and as AND,
// and both with a third.
func TestKinds(t *testing.T) {
	r := rng(1)
	for _, key := range []uint64{0, 65535} {
		var all []*roaring.Bitmap
		for _, s := range shapes {
			b := roaring.New()
			s.fill(b, key<<16, r)
			b.RunOptimize()
			all = append(all, b)
		}
		for i, a := range all {
			for j, b := range all {
				t.Run(fmt.Sprintf("%s and %s at %d", shapes[i].name, shapes[j].name, key), func(t *testing.T) {
					third := all[(i+j)%len(all)]
					for _, ranges := range [][][]*roaring.Bitmap{
						{{a, b}}, {{a}, {b}}, {{a, b}, {third}}, {{third, a}, {b, third}}, {{a}, {b}, {third}},
					} {
						equal(t, oracle(ranges), gather(t, ranges))
					}
				})
			}
		}
	}
}

func TestEdges(t *testing.T) {
	empty, one := roaring.New(), roaring.BitmapOf(0, 63, 1<<32-1)
	word := roaring.BitmapOf(0, 5, 63)
	low, lower := roaring.New(), roaring.New() // five of them are too many to be sparse
	low.AddRange(30, 64)
	lower.AddRange(0, 40)
	for _, tt := range []struct {
		name   string
		ranges [][]*roaring.Bitmap
	}{
		{"no range", nil},
		{"a range of nothing", [][]*roaring.Bitmap{nil}},
		{"an empty vector", [][]*roaring.Bitmap{{empty}}},
		{"and nothing", [][]*roaring.Bitmap{{one}, nil}},
		{"nothing and", [][]*roaring.Bitmap{{empty}, {one}}},
		{"one vector", [][]*roaring.Bitmap{{one}}},
		{"a word", [][]*roaring.Bitmap{{word, empty}}},
		{"a word of many rows", [][]*roaring.Bitmap{{low, lower, low, lower, low}}},
		{"and one row more", [][]*roaring.Bitmap{{low, lower, low, lower, low, roaring.BitmapOf(64)}}},
		{"the same twice", [][]*roaring.Bitmap{{one, one}, {one}}},
		{"and a word", [][]*roaring.Bitmap{{one}, {word}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, oracle(tt.ranges), gather(t, tt.ranges))
		})
	}
}

// drawVector is a set of a few keys with a shape each.
func drawVector(t *rapid.T, r *rand.Rand) *roaring.Bitmap {
	b := roaring.New()
	spread := rapid.SampledFrom([]int{1, 3, 300, Keys}).Draw(t, "spread")
	for range rapid.IntRange(0, 6).Draw(t, "containers") {
		key := rapid.IntRange(0, spread-1).Draw(t, "key")
		shapes[rapid.IntRange(0, len(shapes)-1).Draw(t, "shape")].fill(b, uint64(key)<<16, r)
	}
	if rapid.Bool().Draw(t, "optimize") {
		b.RunOptimize()
	}
	return b
}

func drawRanges(t *rapid.T) [][]*roaring.Bitmap {
	r := rng(rapid.Uint64().Draw(t, "seed"))
	ranges := make([][]*roaring.Bitmap, rapid.IntRange(1, 4).Draw(t, "ranges"))
	for i := range ranges {
		for range rapid.IntRange(1, 8).Draw(t, "vectors") {
			ranges[i] = append(ranges[i], drawVector(t, r))
		}
	}
	return ranges
}

// TestFold compares with roaring over random mixes, with one Gather for all.
func TestFold(t *testing.T) {
	g := NewGather(0)
	rapid.Check(t, func(t *rapid.T) {
		ranges := drawRanges(t)
		g.Reset(len(ranges))
		for i, all := range ranges {
			for _, b := range all {
				_, v := serialize(t, b)
				g.Add(i, v)
			}
		}
		want := oracle(ranges)
		equal(t, want, g)
		cut := rapid.IntRange(0, Keys).Draw(t, "cut")
		low, err := g.Count(t.Context(), 0, cut)
		require.NoError(t, err)
		high, err := g.Count(t.Context(), cut, Keys)
		require.NoError(t, err)
		require.Equal(t, want.GetCardinality(), low+high)
		if cut > 0 {
			require.Equal(t, want.Rank(uint32(uint64(cut)<<16-1)), low)
		}
	})
}

// TestFoldInLegs: the vectors are on several machines, whose frames are folded
// together with vectors, rows and words of the coordinator's own.
func TestFoldInLegs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := drawRanges(t)
		legs := make([]*Gather, rapid.IntRange(1, 3).Draw(t, "legs"))
		for i := range legs {
			legs[i] = NewGather(len(ranges))
		}
		g := NewGather(len(ranges))
		for i, all := range ranges {
			for _, b := range all {
				_, v := serialize(t, b)
				legs[rapid.IntRange(0, len(legs)-1).Draw(t, "leg")].Add(i, v)
			}
			_, own := serialize(t, ranges[i][0])
			g.Add(i, own)
			g.AddWord(i, 1<<63|5)
			g.AddRows(i, 1<<32-1, 70000, 1)
		}
		inWindows(t, oracle(ranges), legs)
		for i := range ranges {
			ranges[i] = append(ranges[i], roaring.BitmapOf(0, 2, 63, 1<<32-1, 70000, 1))
		}
		want := oracle(ranges)
		limit := rapid.SampledFrom([]int{0, 20000, LegBytes}).Draw(t, "limit")
		for _, leg := range legs {
			for at := 0; at < Keys; {
				data, next, err := leg.Leg(t.Context(), []byte("before"), at, Keys, limit)
				require.NoError(t, err)
				require.Greater(t, next, at)
				f, err := ParseFrame(data[6:], len(ranges), at, next)
				require.NoError(t, err)
				g.AddFrame(f)
				at = next
			}
		}
		equal(t, want, g)
	})
}

// inWindows does what a coordinator does with legs whose windows differ: it folds
// the keys that all have answered, and keeps the frames that go further.
func inWindows(t *rapid.T, want *roaring.Bitmap, legs []*Gather) {
	ranges := legs[0].Ranges()
	frames, nexts := make([]Frame, len(legs)), make([]int, len(legs))
	g, s, count := NewGather(0), Stream{}, uint64(0)
	for at := 0; at < Keys; {
		g.Reset(ranges)
		end := Keys
		for i, leg := range legs {
			if nexts[i] == at {
				limit := rapid.SampledFrom([]int{0, 9000, 50000}).Draw(t, "window")
				data, next, err := leg.Leg(t.Context(), nil, at, Keys, limit)
				require.NoError(t, err)
				frames[i], err = ParseFrame(data, ranges, at, next)
				require.NoError(t, err)
				nexts[i] = next
			}
			g.AddFrame(frames[i])
			end = min(end, nexts[i])
		}
		require.NoError(t, g.AppendTo(t.Context(), &s, at, end))
		n, err := g.Count(t.Context(), at, end)
		require.NoError(t, err)
		count += n
		at = end
	}
	data, _ := serialize(t, want)
	requireBytes(t, want, data, s.Append(nil))
	require.Equal(t, len(data), s.Size())
	require.Equal(t, want.GetCardinality(), s.Rows())
	require.Equal(t, want.GetCardinality(), count)
	if count > 0 {
		require.Error(t, g.AppendTo(t.Context(), &s, 0, Keys), "keys that do not ascend")
	}
}

// TestLegIsBounded: windows stay under the limit where a key does, and a frame
// has a key's containers untouched only while they are smaller than a bitmap.
func TestLegIsBounded(t *testing.T) {
	r := rng(3)
	g := NewGather(2)
	for range 40 {
		b := roaring.New()
		for key := range uint64(50) {
			scatter(b, key<<16, r, 5+int(key)*20, 1<<16)
		}
		_, v := serialize(t, b)
		g.Add(0, v)
		g.Add(1, v)
	}
	const limit = 100_000
	windows := 0
	for at := 0; at < Keys; windows++ {
		data, next, err := g.Leg(t.Context(), nil, at, Keys, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), limit)
		f, err := ParseFrame(data, 2, at, next)
		require.NoError(t, err)
		sum := map[[2]int]int{}
		for off := frameHead; off < len(data); {
			rng, c, err := f.record(off)
			require.NoError(t, err)
			sum[[2]int{rng, int(c.Key)}] += len(c.Data)
			off += recordHead + len(c.Data)
		}
		for at, n := range sum {
			require.LessOrEqual(t, n, bitmapBytes, at)
		}
		at = next
	}
	require.Greater(t, windows, 3)
}

// TestParallel: on one and on several goroutines the answer is the same, and with a context
// that has ended there is none.
func TestParallel(t *testing.T) {
	r := rng(5)
	ranges := make([][]*roaring.Bitmap, 2)
	for i := range ranges {
		for range 12 {
			b := roaring.New()
			for key := range uint64(80) {
				shapes[r.IntN(len(shapes))].fill(b, key*800<<16, r)
			}
			ranges[i] = append(ranges[i], b)
		}
	}
	g := gather(t, ranges)
	equal(t, oracle(ranges), g)
	require.Greater(t, len(g.cuts), 4, "this is not large enough to be divided")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Count(ctx, 0, Keys)
	require.ErrorIs(t, err, context.Canceled)
	dst, err := g.Append(ctx, []byte("x"), 0, Keys)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "x", string(dst))
	_, _, err = g.Word(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, next, err := g.Leg(ctx, nil, 7, Keys, LegBytes)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 7, next)
}

// TestNoAllocation: a Gather that was warmed up folds without an allocation.
func TestNoAllocation(t *testing.T) {
	r := rng(7)
	var views []View
	for range 6 {
		b := roaring.New()
		for key := range uint64(10) {
			shapes[r.IntN(len(shapes))].fill(b, key<<16, r)
		}
		b.RunOptimize()
		_, v := serialize(t, b)
		views = append(views, v)
	}
	g := NewGather(2)
	out := make([]byte, 0, 1<<20)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		g.Reset(2)
		for i, v := range views {
			g.Add(i%2, v)
		}
		if _, err := g.Count(t.Context(), 0, Keys); err != nil {
			t.Error(err)
		}
		if _, err := g.Append(t.Context(), out, 0, Keys); err != nil {
			t.Error(err)
		}
		if _, _, err := g.Leg(t.Context(), out, 0, Keys, LegBytes); err != nil {
			t.Error(err)
		}
	}))
}
