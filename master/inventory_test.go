package master

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
)

// lateRevisions is a catalog of which one Revisions is asked late.
type lateRevisions struct {
	catalog.Catalog
	pause *atomic.Pointer[func()]
}

func (c lateRevisions) Revisions(ids []uint64) ([]uint64, error) {
	if f := c.pause.Swap(nil); f != nil {
		(*f)()
	}
	return c.Catalog.Revisions(ids)
}

// TestWriteDuringAComparison: what is written while an inventory is compared is not
// older than was acknowledged, in the log either; what really is, is told.
func TestWriteDuringAComparison(t *testing.T) {
	const warning = "older revisions"
	var pause atomic.Pointer[func()]
	var log logLines
	w := newWorld(t, func(c *Config) {
		c.wrap = func(c catalog.Catalog) catalog.Catalog { return lateRevisions{c, &pause} }
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}, three[:2]...)
	w.put(1, three[:2], 1)
	w.put(2, three[:2], 2)
	old := w.slaves[three[0]].get(2)
	compare := func() {
		before := len(log.with("inventory compared"))
		w.m.health.Recompare(three[0])
		require.Eventually(t, func() bool { return len(log.with("inventory compared")) > before }, patience, testHop/20)
	}
	write := func() { w.put(1, nil, 10); w.put(2, nil, 20) }
	pause.Store(&write)
	compare()
	require.Nil(t, pause.Load(), "written between the page and the revisions")
	compare() // whatever the first one had to say is in the log by now
	require.Empty(t, log.with(warning))
	require.Zero(t, w.m.status().Slaves[0].Missing)

	w.slaves[three[0]].set(2, old.revision, 2)
	compare()
	require.EqualValues(t, 1, w.m.status().Slaves[0].Missing)
	require.Eventually(t, func() bool { return len(log.with(warning)) == 1 }, patience, testHop/20)
	require.Contains(t, log.with(warning)[0], "vectors=1")
}
