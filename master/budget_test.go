package master

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"starfish/structs"
)

// TestPlanAboveTheRecord: what cannot be sent is the query's fault, and no slave's.
func TestPlanAboveTheRecord(t *testing.T) {
	long := strings.Repeat("x", 250)
	w := newWorld(t, nil, long)
	for id := range uint64(100) {
		w.put(id, nil, uint32(id))
	}
	fits := "R:*" + strings.Repeat("&*", 999)
	require.Len(t, w.rows(fits), 100)
	for _, n := range []int{2_600, 15_000} { // 66 MiB; above the bound of nodes, too, with a few more
		res := w.ask(structs.QueryRequest{Text: structs.QueryText("R:*" + strings.Repeat("&*", n))})
		require.Equal(t, structs.QUERY_TOO_LARGE, res.Status, res.Failure.Message)
		require.Contains(t, res.Failure.Message, "smaller ranges")
		require.Empty(t, res.Failure.FailedMachines)
	}
	require.Equal(t, structs.SLAVE_SERVING, w.m.status().Slaves[0].State)
	require.Len(t, w.rows(fits), 100)
}

// TestPlansShareABudget: a large one waits while others have it, small ones do not.
func TestPlansShareABudget(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	for id := range uint64(50) {
		w.put(id, nil, uint32(id))
	}
	large := "R:*" + strings.Repeat("&*", 199) // 10,000 nodes
	require.Len(t, w.rows(large), 50)
	w.m.budget.nodes = semaphore.NewWeighted(10_000)
	require.NoError(t, w.m.budget.nodes.Acquire(t.Context(), 1))
	f := w.failsIn(large, structs.QUERY_DEADLINE, 50*time.Millisecond)
	require.Empty(t, f.FailedMachines)
	require.Len(t, w.rows("R:*"), 50)
	done := make(chan []uint32, 1)
	go func() { done <- w.rows(large) }()
	require.Eventually(t, func() bool {
		waits := !w.m.budget.nodes.TryAcquire(1) // there is room for it, but a queue
		if !waits {
			w.m.budget.nodes.Release(1)
		}
		return waits
	}, patience, time.Millisecond, "the large one waits")
	require.Empty(t, done, "run above the budget")
	w.m.budget.nodes.Release(1)
	require.Len(t, <-done, 50)
	require.True(t, w.m.budget.nodes.TryAcquire(10_000), "all was given back")
}
