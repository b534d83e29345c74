package master

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/structs"
)

// stopAt has calls of op at the slave wait: one is announced on entered, and goes
// on once something comes from release.
func (s *fake) stopAt(op string) (entered, release chan struct{}) {
	entered, release = make(chan struct{}, 100), make(chan struct{})
	s.setRefuse(func(o string, _ uint64) error {
		if o == op {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	return entered, release
}

// reply is the answer of a query that was asked in the background.
func (w *world) askLater(text string) <-chan structs.QueryResponse {
	ch := make(chan structs.QueryResponse, 1)
	ctx := w.ctx()
	go func() {
		r, err := w.client.MasterQuery(ctx, structs.QueryRequest{Text: structs.QueryText(text), Format: structs.BITMAP_WORDS})
		if err != nil {
			r = structs.QueryResponse{Status: -1, Failure: structs.QueryFailure{Message: err.Error()}}
		}
		ch <- r
	}()
	return ch
}

// words are the rows of an answer, one word of them.
func (w *world) words(r structs.QueryResponse) []uint64 {
	w.t.Helper()
	require.Equal(w.t, structs.QUERY_OK, r.Status, r.Failure.Message)
	return r.Answer.Rows.Words
}

// calm requires that no machine was looked at or given up because of a query.
func (w *world) calm(inventories int) {
	w.t.Helper()
	require.Equal(w.t, inventories, w.inventories(), "inventories asked for")
	for _, s := range w.m.status().Slaves {
		require.Equal(w.t, structs.SLAVE_SERVING, s.State)
		require.Zero(w.t, s.Missing)
	}
}

func (w *world) inventories() (n int) {
	for _, s := range w.slaves {
		n += s.count("inventory")
	}
	return n
}

// TestDeletedAfterThePlan: an id that is deleted between the plan and its leg is
// empty, at once and without a machine to blame.
func TestDeletedAfterThePlan(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:1], 1)
	w.put(2, three[:1], 2)
	w.put(3, three[1:2], 3)
	legs := map[string]int{"R:1-3": 1, "R:1&2-3": 2, "P:1": 1}
	for text, want := range map[string][]uint64{"R:1-3": {12}, "R:1&2-3": {}, "P:1": nil} {
		w.put(1, three[:1], 1)
		s := w.slaves[three[0]]
		before, handled := w.inventories(), s.count("handle")
		entered, release := s.stopAt("handle")
		got := w.askLater(text)
		<-entered
		require.Equal(t, structs.QUERY_OK, w.erase(1).Status)
		s.setRefuse(nil)
		close(release)
		r := <-got
		if want == nil {
			require.Equal(t, structs.QUERY_NO_SUCH_VECTOR, r.Status, "%s: %s", text, r.Failure.Message)
			require.Empty(t, r.Failure.FailedMachines)
		} else {
			require.ElementsMatch(t, want, w.words(r), text)
		}
		require.Equal(t, legs[text], s.count("handle")-handled, "%s: planned once", text)
		w.calm(before)
	}
}

// TestDeletedAndPutAgain: a leg saw the moment between a delete and the next put;
// that moment was within the query.
func TestDeletedAndPutAgain(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:1], 1)
	w.put(2, three[1:2], 2)
	before := w.inventories()
	first, second := w.slaves[three[0]], w.slaves[three[1]]
	in1, out1 := first.stopAt("handle")
	in2, out2 := second.stopAt("handle")
	got := w.askLater("R:1-2")
	<-in1
	require.Equal(t, structs.QUERY_OK, w.erase(1).Status)
	out1 <- struct{}{}
	<-in2
	first.setRefuse(nil)
	w.put(1, three[:1], 5)
	second.setRefuse(nil)
	close(out2)
	require.Equal(t, []uint64{4}, w.words(<-got), "without the vector 1, as it was for a moment")
	require.Equal(t, 1, first.count("handle"))
	require.Equal(t, 1, second.count("handle"))
	require.Equal(t, []uint32{2, 5}, w.rows("R:1-2"))
	w.calm(before)
}

// TestAbsentAndPutAgainElsewhere: a tombstone alone proves nothing. It may be of a
// copy that was moved away: the vector is taken from where it is by now.
func TestAbsentAndPutAgainElsewhere(t *testing.T) {
	for _, text := range []string{"R:1-2", "P:1"} {
		w := newWorld(t, nil, three...)
		w.put(1, three[:1], 1)
		w.put(2, three[1:2], 1)
		before := w.inventories()
		s := w.slaves[three[0]]
		entered, release := s.stopAt("handle")
		got := w.askLater(text)
		<-entered
		rev := w.put(1, three[2:], 1)
		require.True(t, s.has(1), "kept for the query that was planned before")
		s.mu.Lock()
		s.store[1] = stored{revision: rev, deleted: true} // gone all the same
		s.refuse = nil
		s.mu.Unlock()
		close(release)
		require.Equal(t, []uint64{2}, w.words(<-got), text)
		w.calm(before)
	}
}

// TestMovedAwayIsKeptForRunningQueries: the copy that was moved away is erased once
// those have ended that may ask for it.
func TestMovedAwayIsKeptForRunningQueries(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:1], 1)
	w.put(2, three[1:2], 2)
	first, second := w.slaves[three[0]], w.slaves[three[1]]
	in1, out1 := first.stopAt("handle")
	in2, out2 := second.stopAt("handle")
	got := w.askLater("R:1-2")
	<-in1
	w.put(1, three[2:], 1)
	out1 <- struct{}{}
	<-in2
	require.True(t, first.has(1))
	require.Zero(t, first.count("delete"))
	first.setRefuse(nil)
	second.setRefuse(nil)
	close(out2)
	require.Equal(t, []uint64{6}, w.words(<-got))
	require.Eventually(t, func() bool { return !first.has(1) }, patience, testHop/20)
	require.Equal(t, 1, first.count("handle"), "planned once")
	require.Equal(t, []uint32{1, 2}, w.rows("R:1-2"))
}

// TestAbsentByAnOpenDelete: the tombstone of a delete that is not finished is as
// good as its acknowledgement: no later query shows the vector again.
func TestAbsentByAnOpenDelete(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:2], 1)
	w.put(2, three[:2], 2)
	var waits sync.WaitGroup
	entered := make(chan struct{}, 100)
	hold := make(chan struct{})
	reads := make(chan struct{})
	for _, a := range three[:2] {
		w.slaves[a].setRefuse(func(op string, _ uint64) error {
			switch op {
			case "handle":
				entered <- struct{}{}
				<-reads
			case "delete":
				entered <- struct{}{}
				<-hold
			}
			return nil
		})
	}
	got := w.askLater("R:1-2")
	<-entered
	waits.Go(func() { w.erase(1) })
	<-entered
	<-entered
	in, open := w.m.cat.Snapshot().Pending(1)
	require.True(t, open)
	for _, a := range three[:2] { // on disk, and not acknowledged
		s := w.slaves[a]
		s.mu.Lock()
		s.store[1] = stored{revision: in.Revision, deleted: true}
		s.mu.Unlock()
	}
	close(reads)
	require.Equal(t, []uint64{4}, w.words(<-got))
	w.fails("P:1", structs.QUERY_NO_SUCH_VECTOR)
	require.Equal(t, []uint32{2}, w.rows("R:1-2"))
	close(hold)
	waits.Wait()
	w.fails("P:1", structs.QUERY_NO_SUCH_VECTOR)
}

// TestLosingManyIsComparedOnce: queries that meet a slave which lost its vectors are
// answered by the others, and do not have it compared for each of them.
func TestLosingManyIsComparedOnce(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ProbeInterval = patience }, three[:2]...)
	const n = 64 + 10 // more than are looked for one by one
	var all []uint32
	for id := range uint64(n) {
		w.put(id, three[:2], uint32(id))
		all = append(all, uint32(id))
	}
	s := w.slaves[three[0]]
	for id := range uint64(n) {
		s.drop(id)
	}
	before := s.count("inventory")
	low := int32(-1)
	w.joinWith(three[0], &low) // it is asked first
	for range 20 {
		require.Equal(t, all, w.rows("R:*"))
	}
	require.Equal(t, before, s.count("inventory"), "it was compared just now")
	w.m.health.Recompare(three[0])
	w.await("the loss is seen", func(sn *catalog.Snapshot) bool { return sn.Slaves()[0].Missing == n })
	require.Equal(t, all, w.rows("R:*"))
}

func (w *world) joinWith(addr string, priority *int32) {
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: structs.MachineName(addr), Protocol: 2, Priority: priority, Instance: w.slaves[addr].instance})
	require.NoError(w.t, err)
	require.Equal(w.t, structs.QUERY_OK, r.Status, r.Failure.Message)
}

// TestTooManyDeleted: of more deleted ids than an answer names the first are looked
// at, and no machine is blamed.
func TestTooManyDeleted(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	w.put(1, nil, 1)
	w.put(2, nil, 2)
	s := w.slaves[three[0]]
	entered, release := s.stopAt("handle")
	before := w.inventories()
	got := w.askLater("R:*")
	<-entered
	require.Equal(t, structs.QUERY_OK, w.erase(1).Status)
	s.mu.Lock()
	s.refuse = nil
	var told atomic.Bool
	s.answer = func(uint64) *structs.RowsResponse {
		if told.Swap(true) {
			return nil
		}
		return &structs.RowsResponse{Status: structs.QUERY_NOT_HELD, Failure: structs.QueryFailure{
			Message: "not held", Vectors: []uint64{1}, VectorsTotal: 50_000, FailedMachines: []structs.MachineName{"10.0.0.1"}}}
	}
	s.mu.Unlock()
	close(release)
	require.Equal(t, []uint64{4}, w.words(<-got))
	require.Equal(t, before, w.inventories())
	require.Equal(t, 2, s.count("handle"), "planned again")
}
