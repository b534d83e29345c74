package xdr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// strings of an array are cut from few copies, and are right in every order.
func TestWindow(t *testing.T) {
	var b []byte
	var want []string
	for i := range 20_000 {
		s := strings.Repeat(string(rune('a'+i%26)), i%40)
		if i%7 == 3 && i > 0 {
			s = want[i-1]
		}
		if i == 5000 {
			s = strings.Repeat("long", maxWindow)
		}
		want = append(want, s)
		b, _ = AppendString(b, s, 1<<30)
	}
	b = append(AppendUint32(nil, uint32(len(want))), b...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := NewDecoder(b)
	got := make([]string, d.ArrayLen(1<<20, 4))
	for i := range got {
		got[i] = d.String(1 << 30)
	}
	runtime.ReadMemStats(&after)
	require.NoError(t, d.Err())
	require.Equal(t, want, got)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*len(b)+16*len(want)+(128<<10)))
}

// Strings must not change when the buffer does: servers use it again.
func TestStringsAreCopies(t *testing.T) {
	var b []byte
	for i := range 10 {
		b, _ = AppendString(b, fmt.Sprint("name", i), 10)
	}
	b = append(AppendUint32(nil, 10), b...)
	d := NewDecoder(b)
	got := make([]string, d.ArrayLen(10, 4))
	for i := range got {
		got[i] = d.String(10)
	}
	clear(b)
	for i := range got {
		require.Equal(t, fmt.Sprint("name", i), got[i])
	}
}

// A single string beside much else costs its own length.
func TestLoneStringIsExact(t *testing.T) {
	b, err := AppendString(nil, "name", 10)
	require.NoError(t, err)
	b = append(b, make([]byte, 1<<20)...)
	d := NewDecoder(b)
	require.Equal(t, "name", d.String(10))
	require.Empty(t, d.win.copied)
}

func TestSlabs(t *testing.T) {
	const node = 16
	for _, n := range []int{1, 15, 16, 17, 1000, 100_000} {
		d := NewDecoder(make([]byte, n*node))
		var s Slabs
		made, allocs := 0, 0
		for i := range n {
			if i == made {
				k := s.Next(d, node)
				require.Positive(t, k)
				require.LessOrEqual(t, k, d.Len()/node, "never more than the rest can hold")
				made += k
				allocs++
			}
			d.off += node
		}
		require.LessOrEqual(t, allocs, 5, "%d nodes", n)
	}
	require.Equal(t, 1, new(Slabs).Next(NewDecoder(nil), node), "the input ends in the node")
}

// Many lists that each stop just after an allocation must not add up to more
// than a small multiple of the input.
func TestSlabsOfManyLists(t *testing.T) {
	const node = 16
	for _, length := range []int{1, 2, 16, 17, 33, 1000} {
		const lists = 2000
		d := NewDecoder(make([]byte, lists*length*node))
		total, allocs := 0, 0
		for range lists {
			var s Slabs
			made := 0
			for i := range length {
				d.nodes++
				if i == made {
					k := s.Next(d, node)
					made += k
					total += k
					allocs++
				}
				d.off += node
			}
		}
		require.LessOrEqual(t, total, 3*lists*length, "lists of %d", length)
		require.LessOrEqual(t, allocs, 2*lists, "lists of %d", length)
	}
}
