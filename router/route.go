package router

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"starfish/catalog"
	"starfish/query"
)

// Route makes the plan of a query. Vectors that are not known are left out. The
// error is *NoSuchVectorError, *UnavailableError, *PendingError or *TooLargeError.
func Route(snap *catalog.Snapshot, q query.Query, opts Options) (*Plan, error) {
	r := &route{chooser: newChooser(snap, opts), chain: opts.Chain, bytes: make([]uint64, len(snap.Slaves()))}
	plan := &Plan{Seed: opts.Seed, Ranges: make([]RangePlan, 0, len(q.Ranges))}
	for _, text := range q.Ranges {
		rp, err := r.rangePlan(spans(text))
		if err != nil {
			return nil, err
		}
		if r.bad {
			return nil, r.failure(union(q))
		}
		plan.Ranges = append(plan.Ranges, rp)
	}
	if opts.Explain {
		plan.Members = r.explain(union(q))
	}
	if q.Point {
		if plan.Empty() {
			return nil, &NoSuchVectorError{ID: q.ID()}
		}
		return plan, nil
	}
	plan.Coordinator = r.coordinator(opts, r.bytes)
	return plan, nil
}

// route is the state of one Route.
type route struct {
	*chooser
	bytes []uint64 // of the plan, a slave each
	chain bool     // Options.Chain
	bad   bool     // a vector cannot be read
	nodes int
}

// spans are the ids of a range, each once, ascending.
func spans(r query.Range) []catalog.Span {
	if r.All {
		return []catalog.Span{{First: 0, Last: math.MaxUint64}}
	}
	out := make([]catalog.Span, len(r.Spans))
	for i, s := range r.Spans {
		out[i] = catalog.Span{First: s.Lo, Last: s.Hi}
	}
	if len(out) == 1 {
		return out
	}
	return catalog.MergeSpans(out)
}

// union are the ids of all ranges, each once, ascending.
func union(q query.Query) []catalog.Span {
	var all []catalog.Span
	for _, r := range q.Ranges {
		all = append(all, spans(r)...)
	}
	return catalog.MergeSpans(all)
}

// vector is a vector that a query may read. Of in and set one says who holds it.
type vector struct {
	id      uint64
	size    uint64
	set     catalog.SetID
	in      *catalog.Intent // an open write to it
	pending bool            // wait: nobody is known to have the write
	decision
}

// walk calls f for the vectors in the spans, ascending, until it returns false.
// What a write has deleted, or has not created yet, is left out.
func (r *route) walk(spans []catalog.Span, f func(*vector) bool) {
	var open []*catalog.Intent
	var v vector
	goOn := true
	visit := func(in *catalog.Intent) bool {
		if shown := r.write(in, &v); shown {
			goOn = f(&v)
		}
		return goOn
	}
	for _, s := range spans {
		open = open[:0]
		r.snap.AscendIntents(s.First, s.Last, func(in *catalog.Intent) bool {
			open = append(open, in)
			return true
		})
		r.snap.AscendSets(s.First, s.Last, func(id uint64, set catalog.SetID, size uint64) bool {
			for len(open) > 0 && open[0].ID <= id {
				in := open[0]
				open = open[1:]
				if !visit(in) || in.ID == id {
					return goOn
				}
			}
			v = vector{id: id, size: size, set: set, decision: r.member(id, set)}
			goOn = f(&v)
			return goOn
		})
		for ; goOn && len(open) > 0; open = open[1:] {
			visit(open[0])
		}
		if !goOn {
			return
		}
	}
}

// write makes v the vector of an open write; false: queries do not see it.
func (r *route) write(in *catalog.Intent, v *vector) bool {
	*v = vector{id: in.ID, size: in.Bytes, in: in}
	switch {
	case len(in.Confirmed) == 0:
		v.place, v.pending = -1, true
	case in.Op == catalog.Put:
		v.decision = r.confirmed(in)
	}
	return shown(in)
}

// shown says whether queries see the vector of an open write, or wait for it.
func shown(in *catalog.Intent) bool {
	if len(in.Confirmed) == 0 {
		return in.Seen
	}
	return in.Op != catalog.Delete
}

// Shown says whether a plan made of snap has the vector. One that it leaves out is
// empty to queries.
func Shown(snap *catalog.Snapshot, id uint64) bool {
	if in, open := snap.Pending(id); open {
		return shown(&in)
	}
	_, known := snap.Member(id)
	return known
}

// rangePlan makes the plan of one range; r.bad says that it cannot be run.
func (r *route) rangePlan(spans []catalog.Span) (RangePlan, error) {
	var rp RangePlan
	legs := make([][]uint64, len(r.slaves))
	r.walk(spans, func(v *vector) bool {
		if v.place < 0 {
			r.bad = true
			return false
		}
		r.nodes++
		legs[v.place] = append(legs[v.place], v.id)
		r.bytes[v.place] += v.size
		rp.Bytes += v.size
		rp.Vectors++
		return r.nodes <= MaxNodes
	})
	if r.nodes > MaxNodes {
		return rp, &TooLargeError{}
	}
	for p, ids := range legs {
		if len(ids) > 0 {
			rp.Legs = append(rp.Legs, Leg{Machine: r.slaves[p].Addr, IDs: ids})
		}
	}
	// A chain is never faster: its result crosses the network twice a hop, and each
	// hop waits for the one before it.
	rp.Strategy = FanOut
	if r.chain {
		rp.Strategy = Chain
	}
	switch n := len(rp.Legs); n {
	case 0:
		rp.Why = "no known vector"
	case 1:
		rp.Why = fmt.Sprintf("%s on one machine", size(rp.Bytes))
	default:
		rp.Why = fmt.Sprintf("%s on %d machines", size(rp.Bytes), n)
	}
	if r.chain {
		rp.Why += ", hop by hop as was asked for"
	}
	return rp, nil
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
}

// explain lists where each vector is taken from.
func (r *route) explain(spans []catalog.Span) []Choice {
	var out []Choice
	r.walk(spans, func(v *vector) bool {
		out = append(out, Choice{ID: v.id, From: r.slaves[v.place].Addr, Reason: v.reason})
		return true
	})
	return out
}

// failure says which vectors cannot be read. Those without a live holder come
// first: waiting for a write does not help them.
func (r *route) failure(spans []catalog.Span) error {
	var out, wait unread
	r.walk(spans, func(v *vector) bool {
		switch {
		case v.place >= 0:
		case v.in == nil:
			out.add(v.id, r.holders(v.set))
		case v.pending:
			wait.add(v.id, r.places(v.in.Holders))
		default:
			out.add(v.id, r.places(v.in.Holders))
		}
		return true
	})
	if out.total > 0 {
		return &UnavailableError{IDs: out.ids, Total: out.total, Machines: r.addrs(out.holders)}
	}
	return &PendingError{IDs: wait.ids, Total: wait.total, Machines: r.addrs(wait.holders)}
}

// unread are vectors that cannot be read.
type unread struct {
	ids     []uint64 // the first of them
	total   uint64
	holders map[int]bool
}

func (u *unread) add(id uint64, places []int) {
	u.total++
	if len(u.ids) < maxListed {
		u.ids = append(u.ids, id)
	}
	if u.holders == nil {
		u.holders = map[int]bool{}
	}
	for _, p := range places {
		if !u.holders[p] {
			u.holders[p] = true
		}
	}
}

// addrs returns the addresses of a set of places, in order.
func (r *route) addrs(places map[int]bool) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(places)) {
		out = append(out, r.slaves[p].Addr)
	}
	return out
}
