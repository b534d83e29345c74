package slave

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"starfish/fault"
	"starfish/fault/wire"
	"starfish/rows"
	"starfish/rpc"
	"starfish/store"
	"starfish/structs"
	"starfish/vector"
)

// orOwn adds this machine's own vectors to sum.
func (s *Slave) orOwn(ctx context.Context, ids []uint64, sum *vector.Bitmap, lacks *absents) error {
	if len(ids) == 0 {
		return nil
	}
	var absent []store.Absent
	err := s.compute(ctx, func() (err error) {
		absent, err = s.store.OrInto(ctx, ids, sum)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return late(ctx)
	case err != nil:
		s.log.Error("reading the store failed", "err", err)
		return fail(fault.ErrFailed, fmt.Sprintf("%s cannot read its store: its log says why", s.cfg.Addr), s.cfg.Addr)
	}
	return lacks.add(s.cfg.Addr, wireAbsent(absent))
}

// runRange adds all vectors of a list to sum, in version 2: its own first, then
// hop by hop along the chain, or every machine at once. C handlers, which have
// only words and no deadline, are called aside with their own nodes.
func (s *Slave) runRange(ctx context.Context, list structs.MachineVecList, strategy structs.RangeStrategy, sum *vector.Bitmap, lacks *absents) error {
	l, err := s.split(ctx, list)
	if err != nil {
		return err
	}
	if err := s.orOwn(ctx, l.own, sum, lacks); err != nil {
		return err
	}
	var parts []func(context.Context, *vector.Bitmap) error
	var chain []*leg
	for _, g := range l.others {
		switch {
		case g.target.static:
			parts = append(parts, func(ctx context.Context, sum *vector.Bitmap) error { return s.orStatic(ctx, g, sum) })
		case strategy == structs.RANGE_FAN_OUT:
			parts = append(parts, func(ctx context.Context, sum *vector.Bitmap) error { return s.callParted(ctx, g, sum, lacks) })
		default:
			chain = append(chain, g)
		}
	}
	if len(parts) == 0 {
		if len(chain) == 0 {
			return nil
		}
		return s.callNext(ctx, chain, sum, lacks)
	}
	if len(chain) > 0 {
		parts = append(parts, func(ctx context.Context, sum *vector.Bitmap) error { return s.callNext(ctx, chain, sum, lacks) })
	}
	return s.orParts(ctx, parts, sum)
}

// orParts runs the parts at once and adds their results to sum.
func (s *Slave) orParts(ctx context.Context, parts []func(context.Context, *vector.Bitmap) error, sum *vector.Bitmap) error {
	g := s.newGroup(ctx)
	defer g.cancel()
	var mu sync.Mutex
	for _, part := range parts {
		g.run(func(ctx context.Context) error {
			b := vector.New()
			if err := part(ctx, b); err != nil {
				return err
			}
			return s.compute(ctx, func() error {
				mu.Lock()
				defer mu.Unlock()
				sum.Or(b)
				return nil
			})
		})
	}
	return g.wait()
}

// callNext hands sum and the list of the legs to the first of their machines,
// and replaces sum by what comes back.
func (s *Slave) callNext(ctx context.Context, chain []*leg, sum *vector.Bitmap, lacks *absents) error {
	next := chain[0]
	var so structs.RowBitmap
	err := s.compute(ctx, func() (err error) {
		if so, err = rows.Encode(sum, structs.BITMAP_ROARING); err != nil {
			return fail(fault.ErrTooLarge, fmt.Sprintf("the result so far is too large to hand on: %v", err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	list, _ := join(chain)
	var res structs.RowsResponse
	err = s.pool.Call(ctx, next.target.dial, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV2Client(c).HandleQuery(ctx, structs.HandleQuery2Args{
			List: list, Result: so, Format: structs.BITMAP_ROARING, DeadlineMs: remaining(ctx), MaxAbsent: lacks.room(),
		})
		return err
	})
	if err != nil {
		return s.callFailed(ctx, next.machine, err)
	}
	if res.Status != structs.QUERY_OK {
		return wire.Decode(res.Status, res.Failure)
	}
	if err := lacks.add(next.machine, res.Leg.Absent); err != nil {
		return err
	}
	return s.compute(ctx, func() error {
		b, err := rows.Decode(&res.Leg.Rows)
		if err != nil {
			return fail(fault.ErrUnavailable, fmt.Sprintf("%s answered with what is no bitmap: %v", next.machine, err), next.machine)
		}
		*sum = *b
		return nil
	})
}

// callParted is callNext for one machine and an empty sum. Vectors that are too
// large together for one record come in several, each of which fits alone.
func (s *Slave) callParted(ctx context.Context, g *leg, sum *vector.Bitmap, lacks *absents) error {
	err := s.callNext(ctx, []*leg{g}, sum, lacks)
	if g.nodes < 2 || !errors.Is(err, fault.ErrTooLarge) {
		return err
	}
	for _, half := range g.halves() {
		b := vector.New()
		if err := s.callParted(ctx, half, b, lacks); err != nil {
			return err
		}
		if err := s.compute(ctx, func() error { sum.Or(b); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// orStatic adds the word of a C handler to sum.
func (s *Slave) orStatic(ctx context.Context, g *leg, sum *vector.Bitmap) error {
	word, err := s.callStatic(ctx, g)
	if err == nil {
		sum.Or(vector.FromWord(word))
	}
	return err
}

// callStatic has a C handler OR its own nodes. It is one hop, and never more nodes
// than its stack takes.
func (s *Slave) callStatic(ctx context.Context, g *leg) (uint64, error) {
	var word structs.VecT
	for _, list := range g.chunks(maxStaticNodes) {
		res, err := s.handleOnce(ctx, g.target.dial, s.cfg.HopTimeout, structs.HandleQueryArgs{List: list, Result: word})
		switch {
		case err == nil && res.FailedMachine == g.machine:
			return 0, staticFailed(g.machine, list, "that it failed itself, which is how it says that it does not hold one")
		case err == nil && res.FailedMachine != "":
			return 0, staticFailed(g.machine, list, fmt.Sprintf("that %.255s failed", res.FailedMachine))
		case errors.Is(err, rpc.ErrSystem), errors.Is(err, rpc.ErrGarbageArgs), errors.Is(err, rpc.ErrProcUnavail):
			// It was asked for its own alone: nobody else is to blame.
			var reply *rpc.ReplyError
			errors.As(err, &reply)
			return 0, staticFailed(g.machine, list, fmt.Sprintf("with an error (%v)", reply))
		case err != nil:
			return 0, s.callFailed(ctx, g.machine, err)
		}
		word = res.Vector
	}
	return uint64(word), nil
}

// staticFailed is the failure of a C handler that lives and gave no word for the
// vectors of the list.
func staticFailed(machine string, list structs.MachineVecList, says string) error {
	const shown = 5
	n, ids := 0, ""
	for ; list != nil; list = list.Next {
		if n++; n <= shown {
			ids += fmt.Sprintf(", %d", list.Vector)
		}
	}
	if n > shown {
		ids += fmt.Sprintf(", ... (%d in all)", n)
	}
	return fail(fault.ErrFailed, fmt.Sprintf("asked for the vectors %s, the C handler at %s answers %s", ids[2:], machine, says), machine)
}

// handleOnce calls version 1 of HANDLE_QUERY at a C handler, which cannot be
// probed while it works.
func (s *Slave) handleOnce(ctx context.Context, machine string, timeout time.Duration, args structs.HandleQueryArgs) (res structs.QueryReturnValue, err error) {
	err = s.pool.CallOnce(ctx, machine, timeout, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV1Client(c).HandleQuery(ctx, args)
		return err
	})
	return res, err
}

// remaining is what is left of the call's time, for the wire; at least 1 ms.
func remaining(ctx context.Context) uint32 {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint32(min(max(time.Until(end).Milliseconds(), 1), math.MaxUint32))
}
