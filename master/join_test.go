package master

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/machine"
	"starfish/rpc"
	"starfish/structs"
)

const handlerAddr = "10.0.0.9"

// handler adds a C handler that has the row of its number in each vector.
func (w *world) handler(addr string, ids ...uint64) *fake {
	c := w.add(addr, 1)
	for _, id := range ids {
		c.set(id, 1, uint32(id))
	}
	return c
}

func spans(pairs ...uint64) (out []structs.IdRange) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, structs.IdRange{First: pairs[i], Last: pairs[i+1]})
	}
	return out
}

func (w *world) tryJoin(req structs.JoinRequest) structs.JoinResponse {
	w.t.Helper()
	if req.Addr == "" {
		req.Addr = handlerAddr
	}
	req.Protocol = 1
	r, err := w.client.MasterJoin(w.ctx(), req)
	require.NoError(w.t, err)
	return r
}

func (w *world) joinStatic(req structs.JoinRequest) structs.JoinAnswer {
	w.t.Helper()
	r := w.tryJoin(req)
	require.Equal(w.t, structs.QUERY_OK, r.Status, r.Failure.Message)
	return r.Answer
}

func (w *world) refusesJoin(req structs.JoinRequest, says ...string) structs.QueryFailure {
	w.t.Helper()
	before := w.m.cat.Snapshot()
	r := w.tryJoin(req)
	require.Equal(w.t, structs.QUERY_FAILED, r.Status, "%+v", r.Answer)
	for _, s := range says {
		require.Contains(w.t, r.Failure.Message, s)
	}
	after := w.m.cat.Snapshot()
	require.Equal(w.t, before.Epoch(), after.Epoch(), "nothing was changed")
	require.Equal(w.t, before.Known(), after.Known())
	return r.Failure
}

func (w *world) remove(req structs.RemoveChange) structs.ChangeResponse {
	w.t.Helper()
	r, err := w.client.MasterChange(w.ctx(), structs.ChangeRequest{Kind: structs.CHANGE_REMOVE, Remove: req})
	require.NoError(w.t, err)
	return r
}

func (w *world) holders(id uint64) []string {
	mem, _ := w.m.cat.Snapshot().Member(id)
	return mem.Holders
}

// TestJoinOverKnownIds: a handler whose data is not the catalog's does not get in.
func TestJoinOverKnownIds(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	c := w.handler(handlerAddr, 1, 2, 3)
	w.put(1, three[:2], 30)
	w.put(2, three[:1], 2)
	w.put(4, three[:1], 4)
	w.put(5, three[:1], 64)

	f := w.refusesJoin(structs.JoinRequest{Ids: spans(1, 2)}, "vector 1 ", three[0], "--replace")
	require.Equal(t, []uint64{1}, f.Vectors)
	require.Equal(t, []uint32{30}, w.rows("P:1"))
	c.set(5, 1)
	w.refusesJoin(structs.JoinRequest{Ids: spans(5, 5)}, "vector 5 ")
	w.refusesJoin(structs.JoinRequest{Ids: spans(2, 4)}, "vector 4 ", "does not hold")
	c.setRefuse(func(string, uint64) error { return rpc.ErrSystem })
	w.refusesJoin(structs.JoinRequest{Ids: spans(2, 2)}, "vector 2 ", "SYSTEM_ERR")
	w.refusesJoin(structs.JoinRequest{Ids: spans(2, 2), Replace: true}, "vector 2 ", "SYSTEM_ERR")
	c.setRefuse(nil)

	// What is equal has one more holder, and is read-only.
	a := w.joinStatic(structs.JoinRequest{Ids: spans(2, 3)})
	require.EqualValues(t, 1, a.Compared)
	require.Equal(t, spans(2, 3), a.Added)
	require.Equal(t, []string{three[0], handlerAddr}, w.holders(2))
	for _, on := range [][]string{nil, {three[1]}} {
		res := w.tryPut(2, on, 9)
		require.Equal(t, structs.QUERY_FAILED, res.Status)
		require.Contains(t, res.Failure.Message, handlerAddr)
		require.Contains(t, res.Failure.Message, "nothing was changed")
	}
	del, err := w.client.MasterDelete(w.ctx(), 2)
	require.NoError(t, err)
	require.Contains(t, del.Failure.Message, handlerAddr)
	require.Equal(t, []uint32{2}, w.rows("P:2"))
	w.put(1, nil, 31)

	// Another handler is compared with the first where that alone has it.
	other := w.handler("10.0.0.8", 3)
	w.serving(handlerAddr)
	w.joinStatic(structs.JoinRequest{Addr: "10.0.0.8", Ids: spans(3, 3)})
	other.set(2, 1, 22)
	w.refusesJoin(structs.JoinRequest{Addr: "10.0.0.8", Ids: spans(2, 2)}, "vector 2 ")

	// Nobody can be asked: it is not taken on trust.
	w.slaves[three[0]].stop()
	w.state(catalog.Down, three[0])
	w.refusesJoin(structs.JoinRequest{Ids: spans(4, 4)}, "vector 4 ")
	c.set(4, 1, 4)
	w.refusesJoin(structs.JoinRequest{Ids: spans(4, 4)}, "vector 4 ", "cannot be compared")
	w.slaves[three[0]].start()
	w.serving(three[0])
	w.joinStatic(structs.JoinRequest{Ids: spans(4, 4)})
}

// TestJoinReplaces: with --replace a handler is the only holder of what it claims;
// the other copies go, also of a slave that is away meanwhile.
func TestJoinReplaces(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.handler(handlerAddr, 1, 2, 3)
	w.handler("10.0.0.8", 3, 8)
	w.put(1, three[:2], 30)
	w.put(2, three[1:2], 2)
	w.joinStatic(structs.JoinRequest{Addr: "10.0.0.8", Ids: spans(3, 3, 8, 8)})
	w.refusesJoin(structs.JoinRequest{Ids: spans(1, 4, 8, 8), Replace: true}, "vector 8 ")
	w.slaves[three[1]].stop()
	w.state(catalog.Down, three[1])

	a := w.joinStatic(structs.JoinRequest{Ids: spans(1, 4), Replace: true})
	require.EqualValues(t, 3, a.Taken)
	for id := range uint64(3) {
		require.Equal(t, []string{handlerAddr}, w.holders(id+1))
	}
	require.Equal(t, []string{"10.0.0.8"}, w.holders(8))
	w.serving(handlerAddr)
	require.Equal(t, []uint32{1}, w.rows("P:1"))
	require.Equal(t, []uint32{1, 2, 3}, w.rows("R:1-3"))
	gone := func(s *fake, ids ...uint64) {
		t.Helper()
		require.Eventually(t, func() bool {
			for _, id := range ids {
				if s.has(id) {
					return false
				}
			}
			return true
		}, patience, testHop/10)
	}
	gone(w.slaves[three[0]], 1)
	w.restart()
	w.slaves[three[1]].start()
	w.serving(three[1], handlerAddr)
	gone(w.slaves[three[1]], 1, 2)
	require.Equal(t, []uint32{1, 2, 3}, w.rows("R:1-3"))

	// And what it held besides.
	a = w.joinStatic(structs.JoinRequest{Ids: spans(2, 2), Replace: true})
	require.Equal(t, spans(1, 1, 3, 4), a.Removed)
	require.EqualValues(t, 3, a.RemovedTotal)
	require.Empty(t, a.Added)
	w.fails("P:1", structs.QUERY_NO_SUCH_VECTOR)
	require.Equal(t, []uint32{2}, w.rows("R:1-3"))
	w.put(1, nil, 11)
	require.Equal(t, []uint32{11}, w.rows("P:1"))
	st := w.m.status()
	require.EqualValues(t, 3, st.Vectors)
}

// TestJoinAdds: a second join of a handler forgets nothing.
func TestJoinAdds(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	c := w.handler(handlerAddr, 1, 2, 3, 5)
	require.Equal(t, spans(1, 3), w.joinStatic(structs.JoinRequest{Ids: spans(1, 3)}).Added)
	a := w.joinStatic(structs.JoinRequest{Ids: spans(5, 5, 3, 3)})
	require.Equal(t, spans(5, 5), a.Added)
	require.Empty(t, a.Removed)
	w.serving(handlerAddr)
	require.Equal(t, []uint32{1, 2, 3, 5}, w.rows("R:*"))

	// Again, also after a restart and while it is away: nothing changes.
	epoch := w.m.cat.Snapshot().Epoch()
	w.restart()
	w.serving(handlerAddr, three[0])
	require.Empty(t, w.joinStatic(structs.JoinRequest{Ids: spans(1, 3)}).Added)
	c.stop()
	w.state(catalog.Down, handlerAddr)
	require.Empty(t, w.joinStatic(structs.JoinRequest{Ids: spans(1, 2)}).Added)
	require.Equal(t, epoch, w.m.cat.Snapshot().Epoch())
	w.refusesJoin(structs.JoinRequest{Ids: spans(6, 6)}, "does not answer", "--force")
	c.start()
	w.serving(handlerAddr)
	require.Equal(t, []uint32{1, 2, 3, 5}, w.rows("R:*"))
}

// TestJoinBounds: spans cost what they may, not what they say.
func TestJoinBounds(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	w.handler(handlerAddr)
	w.refusesJoin(structs.JoinRequest{Ids: spans(0, 1<<64-1)}, "at most")
	w.refusesJoin(structs.JoinRequest{Ids: spans(0, 1<<63, 1<<63, 1<<64-1)}, "at most")
	w.refusesJoin(structs.JoinRequest{Ids: spans(0, catalog.MaxStaticIDs)}, "at most")
	w.joinStatic(structs.JoinRequest{Ids: spans(1<<64-10, 1<<64-1)})
	w.refusesJoin(structs.JoinRequest{Ids: spans(0, catalog.MaxStaticIDs-10)}, "at most")
	a := w.joinStatic(structs.JoinRequest{Ids: spans(0, 1<<16)})
	require.EqualValues(t, 1<<16+1, a.AddedTotal)
	w.joinStatic(structs.JoinRequest{Ids: spans(7, 7), Replace: true})
	require.EqualValues(t, 1, w.m.cat.Snapshot().Known())
	w.handler("10.0.0.8", 7)
	var many []structs.IdRange
	for i := range uint64(3000) {
		many = append(many, structs.IdRange{First: i * 2, Last: i * 2})
	}
	a = w.joinStatic(structs.JoinRequest{Addr: "10.0.0.8", Ids: many})
	require.Len(t, a.Added, structs.MAX_LISTED)
	require.EqualValues(t, 3000, a.AddedTotal)
	w.refusesJoin(structs.JoinRequest{Ids: spans(0, 1<<16)}, "vectors 0, 2, 4", "does not hold")
}

// TestWriteBesideJoin: a write of an id waits for a join that compares it, and a
// join for a write.
func TestWriteBesideJoin(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	c := w.handler(handlerAddr, 1, 2)
	w.put(1, nil, 1)
	asked, release := make(chan struct{}), make(chan struct{})
	c.setRefuse(func(op string, _ uint64) error {
		if op == "handle1" {
			asked <- struct{}{}
			<-release
		}
		return nil
	})
	joined := make(chan structs.JoinResponse, 1)
	go func() { joined <- w.tryJoin(structs.JoinRequest{Ids: spans(1, 2)}) }()
	<-asked
	ctx, cancel := context.WithTimeout(w.ctx(), testHop/10)
	defer cancel()
	_, err := w.m.writes.Lock(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the turn of vector 1 is taken")
	w.put(2, nil, 77) // that of a vector that was not known is not
	c.setRefuse(nil)
	close(release)
	r := <-joined
	require.Equal(t, structs.QUERY_FAILED, r.Status, "%+v", r.Answer)
	require.Contains(t, r.Failure.Message, "vector 2")
	require.Equal(t, []uint32{77}, w.rows("P:2"))
	require.Equal(t, structs.QUERY_OK, w.tryPut(1, nil, 8).Status)

	// A put in flight: the join comes after it.
	s := w.slaves[three[0]]
	stored, goOn := make(chan struct{}), make(chan struct{})
	s.setRefuse(func(op string, _ uint64) error {
		if op == "store" {
			stored <- struct{}{}
			<-goOn
		}
		return nil
	})
	put := make(chan structs.PutResponse, 1)
	go func() { put <- w.tryPut(1, nil, 1) }()
	<-stored
	go func() { joined <- w.tryJoin(structs.JoinRequest{Ids: spans(1, 1)}) }()
	require.Eventually(t, func() bool { return w.m.writes.Queue(1) == 2 }, patience, testHop/100, "the join waits for the put")
	s.setRefuse(nil)
	close(goOn)
	require.Equal(t, structs.QUERY_OK, (<-put).Status)
	r = <-joined
	require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
	require.EqualValues(t, 1, r.Answer.Compared)
}

// TestJoinsAtOnce: of two handlers with different data one is first.
func TestJoinsAtOnce(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	results := make(chan structs.JoinResponse, 4)
	for i := range 4 {
		c := w.handler(fmt.Sprint("10.0.1.", i))
		c.set(1, 1, uint32(i))
	}
	for i := range 4 {
		go func() {
			results <- w.tryJoin(structs.JoinRequest{Addr: structs.MachineName(fmt.Sprint("10.0.1.", i)), Ids: spans(1, 1)})
		}()
	}
	taken := 0
	for range 4 {
		if r := <-results; r.Status == structs.QUERY_OK {
			taken++
		}
	}
	require.Equal(t, 1, taken)
	require.Len(t, w.holders(1), 1)
}

// TestOneMachineOneName: a C handler under two names would be called twice at once.
func TestOneMachineOneName(t *testing.T) {
	hosts := map[string]string{"handler.test": "10.0.0.9", "other.test": "10.0.0.8", "v6.test": "2001:db8::9"}
	w := newWorld(t, func(c *Config) {
		c.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			ip, ok := hosts[machine.Canonical(host)]
			if !ok {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr(ip)}, nil
		}
	}, three[:1]...)
	w.handler("10.0.0.9", 1, 2)
	w.handler("Other.test", 3)
	w.handler("2001:db8:0::9", 4)
	w.joinStatic(structs.JoinRequest{Addr: "10.0.0.9", Ids: spans(1, 1)})
	w.joinStatic(structs.JoinRequest{Addr: "Other.test", Ids: spans(3, 3)})
	w.joinStatic(structs.JoinRequest{Addr: "2001:db8:0::9", Ids: spans(4, 4)})

	w.refusesJoin(structs.JoinRequest{Addr: "handler.test", Ids: spans(2, 2)}, "as 10.0.0.9")
	w.refusesJoin(structs.JoinRequest{Addr: "10.0.0.8", Ids: spans(2, 2)}, "as Other.test")
	w.refusesJoin(structs.JoinRequest{Addr: "v6.test", Ids: spans(2, 2)}, "as 2001:db8:0::9")
	require.EqualValues(t, "10.0.0.9", w.joinStatic(structs.JoinRequest{Addr: "::ffff:10.0.0.9", Ids: spans(2, 2)}).Addr)
	require.EqualValues(t, "Other.test", w.joinStatic(structs.JoinRequest{Addr: "other.test.", Ids: spans(3, 3)}).Addr)
	require.EqualValues(t, "2001:db8:0::9", w.joinStatic(structs.JoinRequest{Addr: "2001:DB8::9", Ids: spans(4, 4)}).Addr)
	require.Len(t, w.m.status().Slaves, 4)
	require.Equal(t, structs.QUERY_OK, w.remove(structs.RemoveChange{Addr: "2001:db8::0:9", Forget: true}).Status)
}

// TestMistypedJoin: a machine that does not answer does not make what it is said to
// hold unavailable, and what was joined can be taken out again.
func TestMistypedJoin(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.put(1, three[:1], 1)
	w.refusesJoin(structs.JoinRequest{Ids: spans(8, 9)}, "does not answer", "--force")
	w.refusesJoin(structs.JoinRequest{Ids: spans(8, 9), Replace: true}, "does not answer")
	w.joinStatic(structs.JoinRequest{Ids: spans(8, 9), Force: true})
	w.refusesJoin(structs.JoinRequest{Ids: spans(1, 1), Force: true}, "vector 1", handlerAddr)
	w.refusesJoin(structs.JoinRequest{Ids: spans(1, 1), Force: true, Replace: true}, "vector 1", handlerAddr)
	w.state(catalog.Down, handlerAddr)
	w.fails("R:*", structs.QUERY_UNAVAILABLE)

	r := w.remove(structs.RemoveChange{Addr: handlerAddr})
	require.Equal(t, structs.QUERY_FAILED, r.Status)
	require.Equal(t, []uint64{8, 9}, r.Failure.Vectors)
	require.Contains(t, r.Failure.Message, "--forget")
	r = w.remove(structs.RemoveChange{Addr: handlerAddr, Forget: true})
	require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
	require.Equal(t, spans(8, 9), r.Answer.Ids)
	require.EqualValues(t, 2, r.Answer.IdsTotal)
	require.Equal(t, []uint32{1}, w.rows("R:*"))
	require.Len(t, w.m.status().Slaves, 2)
	require.False(t, w.m.health.Watched(handlerAddr))
	require.Equal(t, structs.QUERY_FAILED, w.remove(structs.RemoveChange{Addr: handlerAddr}).Status)
	w.restart()
	w.serving(three[:2]...)
	require.Equal(t, []uint32{1}, w.rows("R:*"))

	// It comes back as a new one; what others hold too is not lost with it.
	w.handler(handlerAddr, 1)
	w.joinStatic(structs.JoinRequest{Ids: spans(1, 1)})
	w.serving(handlerAddr)
	require.Equal(t, structs.QUERY_OK, w.remove(structs.RemoveChange{Addr: handlerAddr}).Status)
	require.Equal(t, []uint32{1}, w.rows("P:1"))
	w.put(1, nil, 10)

	// A slave of ours that never was there; and those that serve.
	ghost, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.77", Protocol: 2, Force: true})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, ghost.Status)
	w.state(catalog.Down, "10.0.0.77")
	require.Equal(t, structs.QUERY_OK, w.remove(structs.RemoveChange{Addr: "10.0.0.77"}).Status)
	for _, addr := range three[:2] { // with vectors, and without
		r = w.remove(structs.RemoveChange{Addr: structs.MachineName(addr), Forget: true, Now: true})
		require.Equal(t, structs.QUERY_FAILED, r.Status)
		require.Contains(t, r.Failure.Message, "it has served")
	}
	for _, kind := range []structs.ChangeKind{structs.CHANGE_PRIORITY, structs.CHANGE_WEIGHT, structs.CHANGE_MASK, structs.CHANGE_UNMASK, structs.CHANGE_DRAIN, structs.CHANGE_MOVE} {
		r, err := w.client.MasterChange(w.ctx(), structs.ChangeRequest{Kind: kind})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_FAILED, r.Status)
		require.Contains(t, r.Failure.Message, changeName(kind)+" is not there yet")
	}
}

// TestHandlerWithoutAJoinedId: the error of a query says what the handler said.
func TestHandlerWithoutAJoinedId(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	c := w.handler(handlerAddr, 1)
	w.joinStatic(structs.JoinRequest{Ids: spans(1, 2)})
	w.serving(handlerAddr)
	says := func(want string) {
		t.Helper()
		f := w.fails("P:2", structs.QUERY_UNAVAILABLE)
		require.Contains(t, f.Message, want)
		require.Contains(t, f.Message, "vector 2")
		require.Contains(t, f.Message, "starfish remove")
		require.NotContains(t, f.Message, "start the slave again")
		require.Equal(t, []structs.MachineName{handlerAddr}, f.FailedMachines)
		w.serving(handlerAddr)
	}
	says("does not hold it")
	c.setRefuse(func(string, uint64) error { return rpc.ErrSystem })
	says("SYSTEM_ERR")
	c.setRefuse(nil)
	require.Equal(t, []uint32{1}, w.rows("P:1"))
}
