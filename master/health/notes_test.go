package health

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNotesKeepTheirOrder: whoever tells them, they are told in the order in which
// they were decided, each before its flush returns, and under no lock.
func TestNotesKeepTheirOrder(t *testing.T) {
	var (
		n       notes
		decide  sync.Mutex
		decided int
		told    []int
		wg      sync.WaitGroup
	)
	for range 8 {
		wg.Go(func() {
			for range 200 {
				done := false
				decide.Lock()
				i := decided
				decided++
				n.add(func() {
					decide.Lock() // as the notes of a slave do
					told = append(told, i)
					decide.Unlock()
					done = true
				})
				decide.Unlock()
				n.flush()
				if !done {
					t.Error("flush returned before the note was told")
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, told, 1600)
	require.IsIncreasing(t, told)
	n.flush()
}
