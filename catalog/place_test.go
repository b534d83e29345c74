package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/machine"
)

func twos(addrs ...string) (out []Slave) {
	for _, a := range addrs {
		out = append(out, Slave{Addr: a, Protocol: 2})
	}
	return out
}

// Slot and draw decide where vectors are: a new release must find the same.
func TestSlotAndDrawAreStable(t *testing.T) {
	for id, slot := range map[uint64]int{0: 955, 1: 986, 7: 463, 1000000: 920, ^uint64(0): 713} {
		require.Equal(t, slot, Slot(id), "id %d", id)
	}
	slaves := twos("127.0.0.2", "127.0.0.3", "127.0.0.4")
	require.Equal(t, []string{"127.0.0.2", "127.0.0.4"}, PlaceSlot(0, slaves, 2))
	require.Equal(t, []string{"127.0.0.3"}, Place(7, slaves, 1))
}

func TestPlaceSlot(t *testing.T) {
	var slaves []Slave
	for i := range 8 {
		slaves = append(slaves, Slave{Addr: fmt.Sprintf("10.0.0.%d", i+5), Protocol: 2})
	}
	static := Slave{Addr: "c-handler", Protocol: 1}
	count := map[string]int{}
	for slot := range Slots {
		got := PlaceSlot(slot, append(slaves, static), 2)
		require.Len(t, got, 2)
		require.True(t, slices.IsSortedFunc(got, machine.CompareSpelled))
		for _, a := range got {
			count[a]++
		}
		// Without one slave, the others keep what they had.
		for _, gone := range got {
			rest := slices.DeleteFunc(slices.Clone(slaves), func(s Slave) bool { return s.Addr == gone })
			for _, a := range got {
				require.Equal(t, a != gone, slices.Contains(PlaceSlot(slot, rest, 2), a))
			}
		}
	}
	require.NotContains(t, count, static.Addr)
	for a, n := range count {
		require.InDelta(t, 2*Slots/8, n, 60, a)
	}
	require.Len(t, PlaceSlot(3, slaves[:1], 2), 1)
	require.Len(t, PlaceSlot(3, slaves, 0), 1)
	require.Len(t, PlaceSlot(3, slaves, 99), 8)
	require.Empty(t, PlaceSlot(3, nil, 2))
}

func TestScoreFollowsWeight(t *testing.T) {
	wins := 0
	for slot := range 1 << 16 {
		if score(slot, "a", 3) > score(slot, "b", 1) {
			wins++
		}
	}
	require.InDelta(t, 0.75, float64(wins)/(1<<16), 0.01)

	slaves := twos("a", "b")
	slaves[0].Weight = 3
	wins = 0
	for slot := range Slots {
		if PlaceSlot(slot, slaves, 1)[0] == "a" {
			wins++
		}
	}
	require.InDelta(t, 0.75, float64(wins)/Slots, 0.05)
}

func TestOrderOfMachines(t *testing.T) {
	sorted := []string{"9.0.0.1", "127.0.0.2", "127.0.0.10", "::1", "fe80::2", "alpha", "beta", "beta2"}
	shuffled := []string{"beta2", "127.0.0.10", "::1", "alpha", "9.0.0.1", "fe80::2", "beta", "127.0.0.2"}
	slices.SortFunc(shuffled, machine.CompareSpelled)
	require.Equal(t, sorted, shuffled)
	require.Zero(t, machine.CompareSpelled("::1", "::1"))
	require.NotZero(t, machine.CompareSpelled("::1", "0:0:0:0:0:0:0:1"))
}

func TestMergeSpans(t *testing.T) {
	const top = ^uint64(0)
	require.Equal(t, []Span{{0, 9}, {11, top}}, MergeSpans([]Span{{20, top}, {5, 9}, {0, 4}, {11, 19}, {6, 7}, {9, 8}, {top, top}}))
	require.Equal(t, []Span{{0, top}}, MergeSpans([]Span{{0, top}, {3, 5}, {top, top}}))
	require.Empty(t, MergeSpans(nil))
}
