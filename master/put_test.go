package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/rpc"
	"starfish/structs"
)

func (w *world) erase(id uint64) structs.PutResponse {
	w.t.Helper()
	r, err := w.client.MasterDelete(w.ctx(), id)
	require.NoError(w.t, err)
	return r
}

func TestPutReplacesAndDeletes(t *testing.T) {
	w := newWorld(t, nil, three...)
	r1 := w.put(7, nil, 1, 2)
	r2 := w.put(7, nil, 3)
	require.Greater(t, r2, r1)
	require.Equal(t, []uint32{3}, w.rows("P:7"))
	mem, ok := w.m.cat.Snapshot().Member(7)
	require.True(t, ok)
	require.Len(t, mem.Holders, 2)
	for _, h := range mem.Holders {
		require.Equal(t, r2, w.slaves[h].get(7).revision)
	}

	del := w.erase(7)
	require.Equal(t, structs.QUERY_OK, del.Status)
	require.Greater(t, del.Revision, r2)
	w.fails("P:7", structs.QUERY_NO_SUCH_VECTOR)
	require.Empty(t, w.rows("R:7"))
	require.Equal(t, structs.QUERY_NO_SUCH_VECTOR, w.erase(7).Status)
	require.Equal(t, structs.QUERY_NO_SUCH_VECTOR, w.erase(8).Status)
	w.put(7, nil, 9)
	require.Equal(t, []uint32{9}, w.rows("P:7"))
}

func TestPutRefused(t *testing.T) {
	w := newWorld(t, nil)
	res := w.tryPut(1, nil, 1)
	require.Equal(t, structs.QUERY_UNAVAILABLE, res.Status)
	require.Contains(t, res.Failure.Message, "no slave has joined")

	w.add("10.0.0.1", 2)
	w.fleet.add("10.0.0.2", 2)
	w.join("10.0.0.1")
	w.join("10.0.0.2")
	w.serving("10.0.0.1", "10.0.0.2")
	for name, tc := range map[string]struct {
		req  structs.PutRequest
		want string
	}{
		"unknown holder": {structs.PutRequest{Id: 1, Holders: []structs.MachineName{"10.0.0.7"}}, "10.0.0.7"},
		"name":           {structs.PutRequest{Id: 1, Name: "A=b"}, "names are not supported yet"},
		"no rows":        {structs.PutRequest{Id: 1, Rows: structs.RowBitmap{Format: structs.BITMAP_NONE}}, "no rows"},
		"nonsense":       {structs.PutRequest{Id: 1, Rows: structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte{1, 2, 3}}}, "not a valid bitmap"},
	} {
		r, err := w.client.MasterPut(w.ctx(), tc.req)
		require.NoError(t, err, name)
		require.Equal(t, structs.QUERY_FAILED, r.Status, name)
		require.Contains(t, r.Failure.Message, tc.want, name)
		require.Equal(t, []uint64{1}, r.Failure.Vectors, name)
	}

	w.slaves["10.0.0.2"].stop()
	w.state(catalog.Down, "10.0.0.2")
	res = w.tryPut(1, nil, 1)
	require.Equal(t, structs.QUERY_UNAVAILABLE, res.Status)
	require.Equal(t, []structs.MachineName{"10.0.0.2"}, res.Failure.FailedMachines)
	require.Contains(t, res.Failure.Message, "nothing was changed")
	require.Empty(t, w.m.cat.Snapshot().Intents())
	w.put(1, []string{"10.0.0.1"}, 1)
	w.slaves["10.0.0.2"].start()
}

// TestPutFinishedLater: a holder that fails meanwhile makes the put an error that
// names it; the vector is served by the other one, and by both once it is back.
func TestPutFinishedLater(t *testing.T) {
	for _, op := range []string{"store", "delete"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t, nil, three[:2]...)
			w.put(7, nil, 1)
			bad := w.slaves[three[1]]
			bad.setRefuse(func(o string, _ uint64) error {
				if o == op || o == "handle" {
					return errors.New("disk full")
				}
				return nil
			})
			var res structs.PutResponse
			if op == "store" {
				res = w.tryPut(7, nil, 2)
			} else {
				res = w.erase(7)
			}
			require.Equal(t, structs.QUERY_UNAVAILABLE, res.Status)
			require.Equal(t, []structs.MachineName{structs.MachineName(three[1])}, res.Failure.FailedMachines)
			require.Contains(t, res.Failure.Message, "may or may not have happened")
			require.EqualValues(t, 1, w.m.status().Pending)
			check := func() {
				t.Helper()
				for range 8 {
					if op == "store" {
						require.Equal(t, []uint32{2}, w.rows("P:7"))
					} else {
						w.fails("P:7", structs.QUERY_NO_SUCH_VECTOR)
					}
				}
			}
			check()
			again := w.tryPut(7, nil, 3) // the earlier one comes first
			require.Equal(t, structs.QUERY_UNAVAILABLE, again.Status)
			require.Contains(t, again.Failure.Message, "earlier write")
			check()
			bad.setRefuse(nil)
			w.m.writes.Wake()
			w.finished()
			check()
			require.Equal(t, w.slaves[three[0]].get(7).revision, bad.get(7).revision)
			w.put(7, nil, 4)
			require.Equal(t, []uint32{4}, w.rows("P:7"))
		})
	}
}

// TestPutUndone: a write that reached nobody leaves the vector as it was, and a
// copy of it that arrives late changes nothing.
func TestPutUndone(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.put(7, nil, 1)
	var lost sync.Map
	for _, a := range three[:2] {
		w.slaves[a].setRefuse(func(op string, id uint64) error {
			if op == "store" {
				if _, seen := lost.LoadOrStore(fmt.Sprint(a, id), true); !seen {
					return rpc.ErrSystem
				}
			}
			return nil
		})
	}
	require.Equal(t, structs.QUERY_UNAVAILABLE, w.tryPut(7, nil, 2).Status)
	require.Equal(t, structs.QUERY_UNAVAILABLE, w.tryPut(8, nil, 2).Status)
	w.finished()
	require.Equal(t, []uint32{1}, w.rows("P:7"))
	w.fails("P:8", structs.QUERY_NO_SUCH_VECTOR)
	for _, id := range []uint64{7, 8} {
		at := w.slaves[three[0]].get(id)
		late := w.slaves[three[1]].write(id, stored{revision: at.revision - 1, rows: nil})
		require.Equal(t, at.revision, late.Revision, "a late store of %d was taken", id)
	}
}

func TestPutMoves(t *testing.T) {
	w := newWorld(t, nil, three...)
	for i := range uint64(5) {
		w.put(i, three[:2], 1)
		w.put(i, three[2:], 2)
		require.Equal(t, []uint32{2}, w.rows(fmt.Sprint("P:", i)))
		require.Eventually(t, func() bool { return !w.slaves[three[0]].has(i) && !w.slaves[three[1]].has(i) }, patience, testHop/100)
		w.put(i, nil, 3) // stays where it is pinned
		mem, _ := w.m.cat.Snapshot().Member(i)
		require.Equal(t, three[2:], mem.Holders)
		require.True(t, mem.Pinned)
	}
	// Moved away while the old holder is down: its copy is swept when it is back.
	w.put(9, three[:1], 1)
	w.slaves[three[0]].stop()
	w.state(catalog.Down, three[0])
	w.put(9, three[1:2], 2)
	w.slaves[three[0]].start()
	w.serving(three[0])
	require.Equal(t, []uint32{2}, w.rows("P:9"))
	w.m.health.Visit(three[0])
	require.Eventually(t, func() bool { return !w.slaves[three[0]].has(9) }, patience, testHop/10)
	require.Equal(t, []uint32{2}, w.rows("P:9"))
}

func TestNoOverlap(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.NoOverlap = true }, three...)
	w.put(1, nil, 1)
	mem, _ := w.m.cat.Snapshot().Member(1)
	require.Len(t, mem.Holders, 1)
	res := w.tryPut(2, three[:2], 1)
	require.Equal(t, structs.QUERY_FAILED, res.Status)
	require.Contains(t, res.Failure.Message, three[0]+", "+three[1])
	w.add("10.0.0.9", 1).set(1, 1, 1)
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.9", Protocol: 1, Ids: []structs.IdRange{{First: 0, Last: 5}}})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_FAILED, r.Status)
	require.Contains(t, r.Failure.Message, "10.0.0.9")
	require.Contains(t, r.Failure.Message, mem.Holders[0])
}

// raising is a catalog whose Begin goes above the revision it is given.
type raising struct{ catalog.Catalog }

func (c raising) Begin(ctx context.Context, in catalog.Intent) (catalog.Intent, error) {
	for {
		got, err := c.Catalog.Begin(ctx, in)
		if err != nil || got.Revision > in.Revision {
			return got, err
		}
	}
}

// TestPutOverOldCopies: slaves that have newer revisions than the catalog, since
// it is new or an older copy, do not keep a vector from being written.
func TestPutOverOldCopies(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.wrap = func(c catalog.Catalog) catalog.Catalog { return raising{c} } }, three[:2]...)
	a, b := w.slaves[three[0]], w.slaves[three[1]]
	for id := range uint64(4) {
		a.set(id, 20, 99)
	}
	require.Greater(t, w.put(0, nil, 1), uint64(20))
	require.Equal(t, []uint32{1}, w.rows("P:0"))
	require.Equal(t, a.get(0).revision, b.get(0).revision)

	a.set(0, 40, 99)
	require.Equal(t, structs.QUERY_OK, w.erase(0).Status)
	require.False(t, a.has(0))

	// The master ends inside the write; then nobody has it, or one has.
	for id, has := range map[uint64]bool{1: false, 2: true} {
		a.set(id, 1000, 99)
		in, err := w.m.cat.Begin(w.ctx(), catalog.Intent{ID: id, Holders: three[:2]})
		require.NoError(t, err)
		if has {
			b.set(id, in.Revision, 7)
		}
		w.m.writes.Wake()
		w.finished()
		if has {
			require.Equal(t, []uint32{7}, w.rows(fmt.Sprint("P:", id)))
			require.Equal(t, a.get(id).revision, b.get(id).revision)
		} else {
			w.fails(fmt.Sprint("P:", id), structs.QUERY_NO_SUCH_VECTOR)
			require.False(t, a.has(id))
		}
	}
}

// TestPutsTogether: many puts in flight on one connection share commits, beside
// queries.
func TestPutsTogether(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.HopTimeout = patience }, three...) // slaves starve here, and are not dead
	const n = 2000
	var g errgroup.Group
	g.SetLimit(128)
	for i := range uint64(n) {
		g.Go(func() error {
			r, err := w.client.MasterPut(w.ctx(), structs.PutRequest{Id: i, Rows: structs.RowBitmap{Words: []uint64{i}}})
			if err == nil && r.Status != structs.QUERY_OK {
				err = errors.New(r.Failure.Message)
			}
			if err == nil && i%10 == 0 {
				q, qerr := w.client.MasterQuery(w.ctx(), structs.QueryRequest{Text: structs.QueryText(fmt.Sprint("P:", i))})
				if err = qerr; err == nil && (q.Status != structs.QUERY_OK || i > 0 && !slices.Equal(q.Answer.Rows.Words, []uint64{i})) {
					err = fmt.Errorf("query of %d: %+v", i, q)
				}
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, n, w.m.cat.Snapshot().Known())
	require.Empty(t, w.m.cat.Snapshot().Intents())
}

// TestLinearizable: readers of one vector never see it go back, and see what was
// acknowledged before they asked, while a holder fails again and again.
func TestLinearizable(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	const writes = 60
	w.put(5, nil, 0)
	var acked, seen atomic.Uint32 // version = the one row
	stop := make(chan struct{})
	var readers errgroup.Group
	for range 4 {
		readers.Go(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				low := max(acked.Load(), seen.Load())
				r, err := w.client.MasterQuery(w.ctx(), structs.QueryRequest{Text: "P:5"})
				if err != nil {
					return err
				}
				if r.Status != structs.QUERY_OK {
					return errors.New(r.Failure.Message)
				}
				got := uint32(0)
				for i, word := range r.Answer.Rows.Words {
					for b := range 64 {
						if word>>b&1 == 1 {
							got = uint32(i*64 + b)
						}
					}
				}
				if got < low {
					return fmt.Errorf("read version %d after %d", got, low)
				}
				for old := seen.Load(); old < got && !seen.CompareAndSwap(old, got); old = seen.Load() {
				}
			}
		})
	}
	for v := uint32(1); v <= writes; v++ {
		s := w.slaves[three[v%2]]
		if v%5 == 0 {
			s.stop()
		}
		for w.tryPut(5, nil, v).Status != structs.QUERY_OK {
			if v%5 == 0 {
				s.start()
				w.serving(three[:2]...)
				w.finished()
				break // it may or may not have happened: the next one is higher
			}
		}
		if v%5 != 0 {
			acked.Store(v)
		}
	}
	close(stop)
	require.NoError(t, readers.Wait())
	last := w.rows("P:5") // the last one failed, and may have happened
	require.Len(t, last, 1)
	require.GreaterOrEqual(t, last[0], max(seen.Load(), writes-1))
}

// TestFailuresAreForPeople: what users read has the cause of a failure, once, and
// not its way through the packages.
func TestFailuresAreForPeople(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.put(7, nil, 1)
	bad := w.slaves[three[1]]
	bad.setRefuse(func(string, uint64) error { return errors.New("disk full") })
	res := w.tryPut(7, nil, 2)
	require.Equal(t, "put of 7: not acknowledged by "+three[1]+" (it failed (SYSTEM_ERR): its log says why): it may or may not have happened; it is finished or undone once it can be asked", res.Failure.Message)
	bad.stop()
	w.state(catalog.Down, three[1])
	res = w.tryPut(7, nil, 3)
	require.Equal(t, "put of 7: an earlier write of it is not finished ("+three[1]+" (not serving)): nothing was changed, try again when the slave is back", res.Failure.Message)
	w.slaves[three[0]].stop()
	f := w.fails("P:7", structs.QUERY_UNAVAILABLE)
	require.NotRegexp(t, "(peer|rpc|portmap|master): |dial tcp", f.Message)
	require.Contains(t, f.Message, "connection refused")
}
