package delegate

import (
	"context"
	"errors"
	"fmt"

	"starfish/fault"
	"starfish/peer"
	"starfish/router"
	"starfish/rows"
	"starfish/vector"
)

// execute runs the plan once.
func (r *run) execute(ctx context.Context, p *planned) outcome {
	switch {
	case r.q.Point:
		leg := p.Ranges[0].Legs[0]
		if s, _ := p.snap.Slave(leg.Machine); s.Protocol == 1 {
			return r.askHandler(ctx, p, leg.Machine, leg.IDs[0])
		}
		if r.req.Format == peer.None {
			return r.coordinate(ctx, p, leg.Machine) // it counts where the rows are: none travel
		}
		return r.askHolder(ctx, p, leg.Machine, leg.IDs[0])
	case p.nodes() == 0:
		return r.answer(vector.New())
	case p.Coordinator == "":
		return giveUp(fault.New(fault.ErrUnavailable, "unavailable: no slave is serving that could coordinate the query (a C handler cannot): start one").On(r.failed...))
	}
	return r.coordinate(ctx, p, p.Coordinator)
}

// answer puts the rows in the form that was asked for.
func (r *run) answer(b *vector.Bitmap) outcome {
	page := b
	if r.req.FirstRow > 0 || r.req.MaxRows > 0 {
		page = b.Page(r.req.FirstRow, r.req.MaxRows)
	}
	encoded, err := rows.EncodeFrom(page, r.req.FirstRow, r.req.Format)
	if err != nil {
		return giveUp(fault.New(fault.ErrTooLarge, "the answer has %d rows and cannot be sent in this format: %v", b.Count(), err).Because(err))
	}
	return outcome{answer: Answer{Count: b.Count(), Rows: peer.Rows(encoded)}}
}

// askHolder takes one vector from a slave of ours.
func (r *run) askHolder(ctx context.Context, p *planned, addr string, id uint64) outcome {
	b, absent, err := r.cfg.Slaves.Ask(ctx, addr, id)
	if err != nil {
		return r.callFailed(ctx, addr, p, err)
	}
	if len(absent) > 0 {
		if why := r.judge(ctx, p, absent); why != "" {
			return tryAgain(why)
		}
		return giveUp(noSuchVector(id))
	}
	return r.answer(b)
}

// askHandler takes one vector, a word, from a C handler. One that does not have it
// lives, so that it is given up by this query alone; it is named all the same where
// nobody else has the vector.
func (r *run) askHandler(ctx context.Context, p *planned, addr string, id uint64) outcome {
	word, err := r.cfg.Slaves.Word(ctx, addr, id, r.cfg.HandlerTimeout)
	switch lacks := (*peer.LacksError)(nil); {
	case errors.As(err, &lacks):
		r.drop(addr, err.Error())
		r.fails(addr)
		return tryAgain(r.problem)
	case err != nil:
		return r.callFailed(ctx, addr, p, err)
	}
	return r.answer(vector.FromWord(word))
}

// coordinate gives the plan to a slave that runs it.
func (r *run) coordinate(ctx context.Context, p *planned, coordinator string) outcome {
	got, err := r.cfg.Slaves.Coordinate(ctx, coordinator, peer.Coordination{
		Ranges: ranges(p.Plan), Format: r.req.Format, FirstRow: r.req.FirstRow, MaxRows: r.req.MaxRows})
	if err != nil {
		return r.callFailed(ctx, coordinator, p, err)
	}
	if why := r.judge(ctx, p, got.Absent); why != "" {
		return tryAgain(why)
	}
	if r.q.Point && len(got.Absent) > 0 {
		return giveUp(noSuchVector(r.q.ID()))
	}
	return outcome{answer: Answer{Count: got.Count, Rows: got.Rows}}
}

// ranges is the plan as it is sent. The ids are those of the plan: they may be
// millions.
func ranges(plan *router.Plan) []peer.Range {
	out := make([]peer.Range, len(plan.Ranges))
	for i, rg := range plan.Ranges {
		out[i] = peer.Range{Strategy: peer.Strategy(rg.Strategy), Legs: make([]peer.Leg, len(rg.Legs))}
		for j, leg := range rg.Legs {
			out[i].Legs[j] = peer.Leg{Machine: leg.Machine, IDs: leg.IDs}
		}
	}
	return out
}

// tooLarge is the error of a plan that no record holds: nothing was sent, and no
// machine is to blame.
func tooLarge(why string) error {
	return fault.New(fault.ErrTooLarge, "%s", fmt.Sprintf("too large: the plan of the query %s: ask in smaller ranges", why))
}
