package slave

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"starfish/fault"
	"starfish/fault/wire"
	"starfish/idset"
	"starfish/rpc"
	"starfish/slave/engine"
	"starfish/store"
	"starfish/structs"
	"starfish/vector/fold"
	"starfish/xdr"
)

// spread is a query taken apart by machine, so that each is called once for all
// ranges.
type spread struct {
	ranges int
	own    []idset.Encoded // nil: nothing is ours
	parts  []*part
}

// part is what another machine reads, or a C handler answers.
type part struct {
	leg  *leg   // of the first range that names it
	legs []*leg // of each range; nil: nothing
	sets []structs.IdSet
}

// maxLegIDs bounds the ids of one leg, all ranges together.
const maxLegIDs = 1 << 28

// spread takes the lists of the ranges apart.
func (s *Slave) spread(ctx context.Context, ranges []structs.RangePlan) (*spread, error) {
	q := &spread{ranges: len(ranges)}
	byMachine := map[string]*part{}
	for i, r := range ranges {
		l, err := s.split(ctx, r.List)
		if err != nil {
			return nil, err
		}
		if len(l.own) > 0 {
			if q.own == nil {
				q.own = make([]idset.Encoded, len(ranges))
			}
			if q.own[i], err = idset.Parse(encode(l.own), maxLegIDs); err != nil {
				return nil, fmt.Errorf("slave: %w", err)
			}
		}
		for _, g := range l.others {
			p := byMachine[g.machine]
			if p == nil {
				p = &part{leg: g, legs: make([]*leg, len(ranges))}
				byMachine[g.machine] = p
				q.parts = append(q.parts, p)
			}
			p.legs[i] = g
		}
	}
	for _, p := range q.parts {
		if !p.leg.target.static {
			p.encode()
		}
	}
	return q, nil
}

// encode writes the ids of a part as sets, a range each.
func (p *part) encode() {
	p.sets = make([]structs.IdSet, len(p.legs))
	for i, g := range p.legs {
		if g == nil {
			continue
		}
		ids := make([]uint64, 0, g.nodes)
		for n := g.head; n != nil; n = n.Next {
			ids = append(ids, uint64(n.Vector))
		}
		p.sets[i] = encode(ids)
	}
}

// encode is the set of the ids, which it puts in order.
func encode(ids []uint64) []byte {
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
	var set idset.Set
	for _, id := range ids {
		set.Add(id)
	}
	return set.Bytes()
}

// parallel runs the ranges with one call to each machine: the legs' containers are
// folded here, with our own.
func (s *Slave) parallel(ctx context.Context, ranges []structs.RangePlan, countOnly bool, lacks *absents) (engine.Answer, error) {
	q, err := s.spread(ctx, ranges)
	if err != nil {
		return engine.Answer{}, err
	}
	run := engine.Query{Ranges: q.ranges, Own: q.own, Count: countOnly, Together: s.together}
	for _, p := range q.parts {
		run.Remotes = append(run.Remotes, func(ctx context.Context, first, limit int) (engine.Window, error) {
			if p.leg.target.static {
				return s.askWords(ctx, p)
			}
			return s.askLeg(ctx, p, first, limit, uint32(lacks.most))
		})
	}
	a, err := s.engine.Coordinate(ctx, run)
	if err != nil {
		return a, s.engineFailed(ctx, err)
	}
	if err := lacks.add(s.cfg.Addr, wireAbsent(a.Absent)); err != nil {
		return a, err
	}
	for i, absent := range a.Remote {
		if err := lacks.add(q.parts[i].leg.machine, wireAbsent(absent)); err != nil {
			return a, err
		}
	}
	return a, nil
}

// together runs calls at once; where one fails the others have a grace.
func (s *Slave) together(ctx context.Context, calls []func(context.Context) error) error {
	g := s.newGroup(ctx)
	defer g.cancel()
	for _, call := range calls {
		g.run(call)
	}
	return g.wait()
}

// askLeg has another machine read its vectors.
func (s *Slave) askLeg(ctx context.Context, p *part, first, limit int, mostAbsent uint32) (engine.Window, error) {
	var res structs.LegResponse
	err := s.pool.Call(ctx, p.leg.target.dial, func(ctx context.Context, c rpc.Caller) error {
		// Not by the stub, which would copy the frame.
		return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V2, structs.SLAVE_LEG, structs.LegRequest{
			Ranges: p.sets, FirstKey: uint32(first), Limit: uint32(limit), DeadlineMs: remaining(ctx), MaxAbsent: mostAbsent,
		}, xdr.Aliased(&res))
	})
	if err != nil {
		return engine.Window{}, s.callFailed(ctx, p.leg.machine, err)
	}
	if res.Status != structs.QUERY_OK {
		return engine.Window{}, wire.Decode(res.Status, res.Failure)
	}
	w := engine.Window{Next: int(min(res.Window.NextKey, fold.Keys+1)), Fingerprint: res.Window.Fingerprint}
	if w.Next <= first || w.Next > fold.Keys {
		err = fmt.Errorf("a window of the keys from %d to %d", first, res.Window.NextKey)
	} else {
		w.Frame, err = fold.ParseFrame(res.Window.Frame, len(p.legs), first, w.Next)
	}
	if err != nil {
		return w, fail(fault.ErrUnavailable, fmt.Sprintf("%s answered what is no leg: %v", p.leg.machine, err), p.leg.machine)
	}
	for _, a := range res.Window.Absent {
		w.Absent = append(w.Absent, store.Absent{ID: a.Id, Revision: a.Revision})
	}
	return w, nil
}

// askWords has a C handler OR its nodes, a call a range.
func (s *Slave) askWords(ctx context.Context, p *part) (engine.Window, error) {
	words := make([]uint64, len(p.legs))
	for i, g := range p.legs {
		if g == nil {
			continue
		}
		word, err := s.callStatic(ctx, g)
		if err != nil {
			return engine.Window{}, err
		}
		words[i] = word
	}
	frame, err := engine.WordLeg(words)
	if err != nil {
		return engine.Window{}, err
	}
	f, err := fold.ParseFrame(frame, len(words), 0, fold.Keys)
	return engine.Window{Frame: f, Next: fold.Keys}, err
}

// SlaveLeg reads this machine's vectors for another one.
func (h v2) SlaveLeg(ctx context.Context, arg structs.LegRequest) (res structs.LegResponse, err error) {
	b, err := h.AppendSlaveLeg(ctx, arg, nil)
	if err == nil {
		err = xdr.Unmarshal(b, &res)
	}
	return res, err
}

// AppendSlaveLeg is what serves SLAVE_LEG: the engine writes the frame where the
// reply is, so that megabytes are not moved once more.
func (h v2) AppendSlaveLeg(ctx context.Context, arg structs.LegRequest, reply []byte) ([]byte, error) {
	ctx, cancel := withDeadline(ctx, arg.DeadlineMs)
	defer cancel()
	b, err := h.s.appendLeg(ctx, arg, reply)
	if st, f, ok := answered(ctx, err); ok {
		return structs.LegResponse{Status: st, Failure: f}.AppendXDR(reply)
	}
	return b, err
}

// appendLeg appends a leg_response of structs.x.
func (s *Slave) appendLeg(ctx context.Context, arg structs.LegRequest, b []byte) ([]byte, error) {
	sets, err := legSets(arg)
	if err != nil {
		return b, err
	}
	if overUDP(ctx) {
		return b, fail(fault.ErrTooLarge, "a leg is not sent over UDP: use tcp")
	}
	const most = 60 << 20 // of a record of 64 MiB; beyond come the absent and one key
	limit := min(cmp.Or(int(arg.Limit), fold.LegBytes), most)
	b = xdr.AppendUint32(b, uint32(structs.QUERY_OK))
	length := len(b)
	b = append(b, 0, 0, 0, 0)
	b, l, err := s.engine.AppendLeg(ctx, b, sets, int(arg.FirstKey), limit)
	if err != nil {
		return b, s.engineFailed(ctx, err)
	}
	size := len(b) - length - 4
	binary.BigEndian.PutUint32(b[length:], uint32(size))
	b = append(b, make([]byte, -size&3)...)
	lacks := absentsFor(ctx, arg.MaxAbsent)
	if err := lacks.add(s.cfg.Addr, wireAbsent(l.Absent)); err != nil {
		return b, err
	}
	// What is behind the frame in leg_window is what it is without one, but for the
	// length of none.
	rest, err := structs.LegWindow{NextKey: uint32(l.Next), Absent: lacks.list, Fingerprint: l.Fingerprint}.AppendXDR(nil)
	if err != nil {
		return b, fmt.Errorf("slave: a leg's answer: %w", err)
	}
	return append(b, rest[4:]...), nil
}

// legSets checks and reads what is asked of a leg.
func legSets(arg structs.LegRequest) ([]idset.Encoded, error) {
	garbage := func(format string, args ...any) ([]idset.Encoded, error) {
		return nil, fmt.Errorf("%w: %s", rpc.ErrGarbageArgs, fmt.Sprintf(format, args...))
	}
	if len(arg.Ranges) == 0 || arg.FirstKey >= fold.Keys {
		return garbage("%d ranges from key %d on", len(arg.Ranges), arg.FirstKey)
	}
	sets := make([]idset.Encoded, len(arg.Ranges))
	left := uint64(maxLegIDs)
	for i, data := range arg.Ranges {
		set, err := idset.Parse(data, left)
		if err != nil {
			return garbage("range %d: %v", i, err)
		}
		sets[i], left = set, left-set.Len()
	}
	return sets, nil
}

// engineFailed is what an error of the engine means.
func (s *Slave) engineFailed(ctx context.Context, err error) error {
	switch {
	case fault.Of(err) != nil:
		return err
	case ctx.Err() != nil:
		return late(ctx)
	case errors.Is(err, engine.ErrChanged):
		return fail(fault.ErrFailed, "vectors of the query were written faster than its large parts could be read: try again")
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrClosed), errors.Is(err, fold.ErrBytes):
		s.log.Error("reading the store failed", "err", err)
		return fail(fault.ErrFailed, fmt.Sprintf("%s cannot read its store: its log says why", s.cfg.Addr), s.cfg.Addr)
	}
	return err
}
