package catalog

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// content lists what a map holds between two ids.
func content(m *idMap, lo, hi uint64) (out []entry) {
	m.ascend(lo, hi, func(e entry) bool {
		out = append(out, e)
		return true
	})
	return out
}

// want lists what the model holds between two ids.
func want(model map[uint64]entry, lo, hi uint64) (out []entry) {
	for id, e := range model {
		if id >= lo && id <= hi {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b entry) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return out
}

// Copies stay as they were, whatever is done to the map later.
func TestIDMapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newIDMap()
		model := map[uint64]entry{}
		var copies []idMap
		var contents [][]entry
		id := rapid.OneOf(rapid.Uint64Range(0, 1500), rapid.Uint64())
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			first, n := id.Draw(t, "first"), rapid.Uint64Range(1, 400).Draw(t, "n")
			step := rapid.SampledFrom([]uint64{1, 2, ^uint64(0)}).Draw(t, "step")
			set := rapid.IntRange(0, 3).Draw(t, "set") > 0
			for i := range n {
				at := first + i*step
				if set {
					e := entry{id: at, set: SetID(len(copies)), size: uint32(i)}
					m.set(e)
					model[at] = e
				} else {
					m.remove(at)
					delete(model, at)
				}
			}
			require.EqualValues(t, len(model), m.n)
			copies = append(copies, m.copy())
			contents = append(contents, want(model, 0, ^uint64(0)))
			lo, hi := id.Draw(t, "lo"), id.Draw(t, "hi")
			require.Equal(t, want(model, lo, hi), content(&m, lo, hi))
			e, ok := m.get(first)
			require.Equal(t, model[first], e)
			require.Equal(t, slices.Contains(contents[len(contents)-1], e) && ok, ok)
		}
		for i := range copies {
			require.Equal(t, contents[i], content(&copies[i], 0, ^uint64(0)), "copy %d", i)
		}
	})
}

func TestIDMapReadersBesideWriter(t *testing.T) {
	m := newIDMap()
	var wg sync.WaitGroup
	for round := range uint64(50) {
		for i := range uint64(100) {
			m.set(entry{id: i*50 + round, size: uint32(round)})
		}
		c := m.copy()
		wg.Go(func() {
			require.Len(t, content(&c, 0, ^uint64(0)), int(round+1)*100)
			_, ok := c.get(round)
			require.True(t, ok)
		})
	}
	for i := range uint64(5000) {
		m.remove(i)
	}
	wg.Wait()
	require.Zero(t, m.n)
}

// Ids cost little more than their 40 bytes, in whatever order they come.
func TestIDMapMemory(t *testing.T) {
	const n = 1 << 16
	for name, id := range map[string]func(i uint64) uint64{
		"ascending": func(i uint64) uint64 { return i },
		"scattered": func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 },
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			m := newIDMap()
			for i := range uint64(n) {
				m.set(entry{id: id(i)})
			}
			per := float64(heap()-before) / n
			t.Logf("%.1f bytes an id", per)
			require.Less(t, per, 64.0)
			require.EqualValues(t, n, m.n)
			runtime.KeepAlive(m)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func BenchmarkIDMapSetAndCopy(b *testing.B) {
	m := newIDMap()
	for i := range uint64(1 << 20) {
		m.set(entry{id: i * 0x9e3779b97f4a7c15})
	}
	b.ReportAllocs()
	var i uint64
	for b.Loop() {
		i++
		m.set(entry{id: i * 0xbf58476d1ce4e5b9})
		m.copy()
	}
}
