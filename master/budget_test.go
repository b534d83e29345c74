package master

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/structs"
)

// TestPlanAboveTheRecord: what cannot be sent is the query's fault, and no slave's.
func TestPlanAboveTheRecord(t *testing.T) {
	long := strings.Repeat("x", 250)
	w := newWorld(t, func(c *Config) { c.HopTimeout = patience }, long) // 100 MiB of nodes keep everybody busy
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
	const nodes = 10_000
	w := newWorld(t, func(c *Config) { c.nodes = nodes }, three[:1]...)
	for id := range uint64(50) {
		w.put(id, nil, uint32(id))
	}
	large := "R:*" + strings.Repeat("&*", 199) // all of the nodes
	require.Len(t, w.rows(large), 50)
	var first atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	w.slaves[three[0]].setRefuse(func(op string, _ uint64) error {
		if op == "coordinate" && !first.Swap(true) {
			close(entered)
			<-release
		}
		return nil
	})
	got := w.askLater(large)
	<-entered
	f := w.failsIn(large, structs.QUERY_DEADLINE, 50*time.Millisecond)
	require.Empty(t, f.FailedMachines)
	require.Len(t, w.rows("R:*"), 50)
	waits := w.askLater(large)
	close(release)
	require.Len(t, w.words(<-got), 1)
	require.Len(t, w.words(<-waits), 1)
	require.Len(t, w.rows(large), 50, "all was given back")
}
