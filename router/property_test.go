package router

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"starfish/catalog"
	"starfish/machine"
	"starfish/query"
)

const maxDrawn = 40 // ids are below

// world is a drawn cluster, beside the snapshot as plain data.
type world struct {
	snap      *catalog.Snapshot
	exclude   map[string]bool
	holders   map[uint64][]string // of each vector that queries see
	able      map[uint64][]string // of them, who may be asked
	waits     map[uint64]bool     // not readable yet
	claims    map[string]int64
	protocols map[string]uint32
}

func drawWorld(t *rapid.T) *world {
	c := newCluster()
	w := &world{
		exclude: map[string]bool{}, holders: map[uint64][]string{}, able: map[uint64][]string{},
		waits: map[uint64]bool{}, claims: map[string]int64{}, protocols: map[string]uint32{},
	}
	var addrs []string
	priorities := rapid.SampledFrom([][]int64{{unset}, {1}, {1, 2}, {unset, math.MaxInt32}, {unset, 1, 2, math.MaxInt32, math.MinInt32}}).Draw(t, "priorities")
	for i := range rapid.IntRange(1, 6).Draw(t, "slaves") {
		a := fmt.Sprintf("10.0.0.%d", 7+i)
		addrs = append(addrs, a)
		c.slave(a, rapid.SampledFrom(priorities).Draw(t, "priority"))
	}
	id := rapid.Uint64Range(0, maxDrawn-1)
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(addrs), 1, -1, rapid.ID[string])
	for range rapid.IntRange(0, 40).Draw(t, "vectors") {
		c.vector(id.Draw(t, "id"), 8, some.Draw(t, "holders")...)
	}
	if rapid.Bool().Draw(t, "static") {
		c.static("c", 35, maxDrawn-1)
	}
	for _, a := range addrs {
		c.SetInventory(a, rapid.SliceOfN(id, 0, 4).Draw(t, "missing"), 0)
		c.SetState(a, rapid.SampledFrom([]catalog.State{catalog.Serving, catalog.Serving, catalog.Serving, catalog.Down, catalog.Joining}).Draw(t, "state"), "")
		w.exclude[a] = rapid.IntRange(0, 5).Draw(t, "exclude") == 0
	}
	for range rapid.IntRange(0, 4).Draw(t, "writes") {
		in, ok := c.open(catalog.Intent{ID: id.Draw(t, "id"), Op: catalog.Op(rapid.IntRange(0, 1).Draw(t, "op")), Holders: some.Draw(t, "holders")})
		if !ok {
			continue
		}
		if rapid.Bool().Draw(t, "again") { // in the place of the first, which may have been seen
			in, _ = c.open(in)
		}
		for _, a := range rapid.SliceOfDistinct(rapid.SampledFrom(in.Holders), rapid.ID[string]).Draw(t, "confirmed") {
			c.Confirm(in.ID, in.Revision, a)
		}
	}
	w.snap = c.Snapshot()
	w.read(t)
	return w
}

// read puts the snapshot into plain data, by the words of the design.
func (w *world) read(t *rapid.T) {
	priorities := false
	for _, s := range w.snap.Slaves() {
		priorities = priorities || s.Priority != nil
		w.protocols[s.Addr] = s.Protocol
	}
	live := func(a string) bool {
		s, _ := w.snap.Slave(a)
		return s.State == catalog.Serving && !w.exclude[a]
	}
	for _, s := range w.snap.Slaves() {
		switch {
		case !priorities:
			w.claims[s.Addr] = int64(s.Members)
		case s.Priority != nil:
			w.claims[s.Addr] = int64(*s.Priority)
		default:
			w.claims[s.Addr] = 2147483647
		}
	}
	for id := range uint64(maxDrawn) {
		m, known := w.snap.Member(id)
		in, pending := w.snap.Pending(id)
		switch {
		case pending && len(in.Confirmed) == 0 && in.Seen:
			w.waits[id] = true
		case pending && len(in.Confirmed) == 0, pending && in.Op == catalog.Delete, !pending && !known:
		case pending:
			w.holders[id] = in.Holders
			w.able[id] = slices.DeleteFunc(slices.Clone(in.Confirmed), func(a string) bool { return !live(a) })
		default:
			w.holders[id] = m.Holders
			w.able[id] = slices.DeleteFunc(slices.Clone(m.Holders), func(a string) bool { return !live(a) || w.snap.IsMissing(a, id) })
		}
	}
}

func drawQuery(t *rapid.T) query.Query {
	id := rapid.Uint64Range(0, maxDrawn+5)
	if rapid.IntRange(0, 3).Draw(t, "point") == 0 {
		v := id.Draw(t, "id")
		return query.Query{Point: true, Ranges: []query.Range{{Spans: []query.Span{{Lo: v, Hi: v}}}}}
	}
	var q query.Query
	for range rapid.IntRange(1, 3).Draw(t, "ranges") {
		if rapid.IntRange(0, 3).Draw(t, "all") == 0 {
			q.Ranges = append(q.Ranges, query.Range{All: true})
			continue
		}
		var r query.Range
		for range rapid.IntRange(1, 3).Draw(t, "spans") {
			a, b := id.Draw(t, "a"), id.Draw(t, "b")
			r.Spans = append(r.Spans, query.Span{Lo: min(a, b), Hi: max(a, b)})
		}
		q.Ranges = append(q.Ranges, r)
	}
	return q
}

func inRange(r query.Range, id uint64) bool {
	return r.All || slices.ContainsFunc(r.Spans, func(s query.Span) bool { return s.Lo <= id && id <= s.Hi })
}

// ids returns those of the range, or of any range, for which ok is true.
func ids(rs []query.Range, ok func(uint64) bool) (out []uint64) {
	for id := range uint64(maxDrawn) {
		if ok(id) && slices.ContainsFunc(rs, func(r query.Range) bool { return inRange(r, id) }) {
			out = append(out, id)
		}
	}
	return out
}

func TestPlansAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, q := drawWorld(t), drawQuery(t)
		opts := Options{Seed: rapid.Uint64().Draw(t, "seed"), Exclude: w.exclude, Explain: true, Policy: Policy(rapid.IntRange(0, 2).Draw(t, "policy"))}
		plan, err := Route(w.snap, q, opts)
		again, errAgain := Route(w.snap, q, opts)
		require.Equal(t, plan, again, "the seed replays it")
		require.Equal(t, err, errAgain)

		lost := ids(q.Ranges, func(id uint64) bool { return w.holders[id] != nil && len(w.able[id]) == 0 })
		waits := ids(q.Ranges, func(id uint64) bool { return w.waits[id] })
		var away *UnavailableError
		var wait *PendingError
		switch {
		case len(lost) > 0:
			require.ErrorAs(t, err, &away)
			require.Equal(t, lost, away.IDs)
			require.EqualValues(t, len(lost), away.Total)
			return
		case len(waits) > 0:
			require.ErrorAs(t, err, &wait)
			require.Equal(t, waits, wait.IDs)
			return
		case q.Point && w.holders[q.ID()] == nil:
			require.True(t, errors.Is(err, ErrNoSuchVector))
			return
		}
		require.NoError(t, err)
		w.checkPlan(t, q, plan)
	})
}

func (w *world) checkPlan(t *rapid.T, q query.Query, plan *Plan) {
	beats := map[[2]string]bool{} // ties that were decided
	from := map[uint64]string{}
	require.Len(t, plan.Ranges, len(q.Ranges))
	for i, rp := range plan.Ranges {
		require.True(t, slices.IsSortedFunc(rp.Legs, func(a, b Leg) int { return machine.CompareSpelled(a.Machine, b.Machine) }))
		var got []uint64
		for j, leg := range rp.Legs {
			require.True(t, j == 0 || rp.Legs[j-1].Machine != leg.Machine)
			require.True(t, slices.IsSorted(leg.IDs))
			got = append(got, leg.IDs...)
			for _, id := range leg.IDs {
				require.Contains(t, w.able[id], leg.Machine)
				require.True(t, from[id] == "" || from[id] == leg.Machine, "one holder a query")
				from[id] = leg.Machine
				for _, other := range w.able[id] {
					require.LessOrEqual(t, w.claims[leg.Machine], w.claims[other])
					if other != leg.Machine && w.claims[other] == w.claims[leg.Machine] {
						beats[[2]string{leg.Machine, other}] = true
					}
				}
			}
		}
		slices.Sort(got)
		require.Equal(t, ids(q.Ranges[i:i+1], func(id uint64) bool { return w.holders[id] != nil }), got, "each known id once")
		require.EqualValues(t, len(got), rp.Vectors)
	}
	for pair := range beats {
		require.False(t, beats[[2]string{pair[1], pair[0]}], "one permutation decides all ties")
	}
	require.Len(t, plan.Members, len(from))
	for _, m := range plan.Members {
		require.Equal(t, from[m.ID], m.From)
	}
	if plan.Coordinator != "" {
		s, _ := w.snap.Slave(plan.Coordinator)
		require.True(t, !q.Point && s.Protocol == 2 && s.State == catalog.Serving && !w.exclude[s.Addr])
	}
}

// TestShown: an id is shown where a plan has it, or would if somebody could be asked.
func TestShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for id := range uint64(maxDrawn + 5) {
			_, exists := w.holders[id]
			require.Equal(t, exists || w.waits[id], Shown(w.snap, id), "%d", id)
			_, err := Route(w.snap, query.Query{Point: true, Ranges: []query.Range{{Spans: []query.Span{{Lo: id, Hi: id}}}}}, Options{})
			require.Equal(t, !Shown(w.snap, id), errors.Is(err, ErrNoSuchVector), "%d", id)
		}
	})
}
