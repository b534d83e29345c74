package master

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"starfish/catalog"
	"starfish/peer"
	"starfish/router"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
	"starfish/xdr"
)

// execute runs the plan once; a nil answer asks for another plan.
func (r *run) execute(ctx context.Context, snap *catalog.Snapshot, plan *router.Plan) *structs.QueryResponse {
	switch {
	case r.q.Point:
		leg := plan.Ranges[0].Legs[0]
		if s, _ := snap.Slave(leg.Machine); s.Protocol == 1 {
			return r.askStatic(ctx, leg.Machine, leg.IDs[0])
		}
		if r.req.Format == structs.BITMAP_NONE {
			plan.Coordinator = leg.Machine // which counts where the rows are
			return r.countAtHolder(ctx, plan, leg.IDs[0])
		}
		return r.askHolder(ctx, plan, leg.Machine, leg.IDs[0])
	case planNodes(plan) == 0:
		return r.answer(vector.New())
	case plan.Coordinator == "":
		resp := refused(structs.QUERY_UNAVAILABLE, failure("unavailable: no slave is serving that could coordinate the query (a C handler cannot): start one", nil, 0, r.failed))
		return &resp
	}
	return r.coordinate(ctx, plan)
}

func planNodes(plan *router.Plan) (n uint64) {
	for _, rg := range plan.Ranges {
		n += rg.Vectors
	}
	return n
}

// answer puts the rows in the form that was asked for.
func (r *run) answer(b *vector.Bitmap) *structs.QueryResponse {
	resp := structs.QueryResponse{Status: structs.QUERY_OK, Answer: structs.QueryAnswer{Count: b.Count()}}
	page := b
	if r.req.FirstRow > 0 || r.req.MaxRows > 0 {
		page = b.Page(r.req.FirstRow, r.req.MaxRows)
	}
	var err error
	if resp.Answer.Rows, err = rows.EncodeFrom(page, r.req.FirstRow, r.req.Format); err != nil {
		resp = refused(structs.QUERY_TOO_LARGE, failure(fmt.Sprintf("the answer has %d rows and cannot be sent in this format: %v", b.Count(), err), nil, 0, nil))
	}
	return &resp
}

// countAtHolder has the holder of one vector count it: no rows travel.
func (r *run) countAtHolder(ctx context.Context, plan *router.Plan, id uint64) *structs.QueryResponse {
	res, err := r.callCoordinator(ctx, plan.Coordinator, r.coordination(ctx, wireRanges(plan)))
	switch {
	case err != nil:
		return r.callFailed(ctx, plan.Coordinator, err)
	case res.Status != structs.QUERY_OK:
		return r.slaveFailed(ctx, plan.Coordinator, plan, res.Status, res.Failure)
	case !r.judge(ctx, plan, res.Result.Absent):
		return nil
	case len(res.Result.Absent) > 0:
		resp := noSuchVector(id)
		return &resp
	}
	return &structs.QueryResponse{Answer: res.Result.Answer}
}

// coordination is the call that has ranges run and answered as the caller wants it.
func (r *run) coordination(ctx context.Context, ranges []structs.RangePlan) structs.Coordinate2Args {
	return structs.Coordinate2Args{
		Ranges:     ranges,
		Format:     r.req.Format,
		DeadlineMs: remaining(ctx),
		FirstRow:   r.req.FirstRow,
		MaxRows:    r.req.MaxRows,
		MaxAbsent:  structs.MAX_ABSENT,
	}
}

func (r *run) callCoordinator(ctx context.Context, addr string, args structs.Coordinate2Args) (res structs.Coordinate2Response, err error) {
	err = r.m.pool.Call(ctx, addr, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV2Client(c).Coordinate(ctx, args)
		return err
	})
	return res, err
}

// askHolder takes one vector from a slave of ours.
func (r *run) askHolder(ctx context.Context, plan *router.Plan, addr string, id uint64) *structs.QueryResponse {
	var res structs.RowsResponse
	err := r.m.pool.Call(ctx, addr, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV2Client(c).HandleQuery(ctx, structs.HandleQuery2Args{
			List:       &structs.MachineVecNode{MachineAddr: addr, Vector: structs.VecT(id)},
			Result:     structs.RowBitmap{Format: structs.BITMAP_WORDS},
			Format:     structs.BITMAP_ROARING,
			DeadlineMs: remaining(ctx),
			MaxAbsent:  1,
		})
		return err
	})
	if err != nil {
		return r.callFailed(ctx, addr, err)
	}
	if res.Status != structs.QUERY_OK {
		return r.slaveFailed(ctx, addr, plan, res.Status, res.Failure)
	}
	if len(res.Leg.Absent) > 0 {
		if !r.judge(ctx, plan, res.Leg.Absent) {
			return nil
		}
		resp := noSuchVector(id)
		return &resp
	}
	b, err := rows.Decode(&res.Leg.Rows)
	if err != nil {
		return r.callFailed(ctx, addr, &peer.FailedError{Machine: addr, Err: fmt.Errorf("it answered with a bitmap that is none: %w", err)})
	}
	return r.answer(b)
}

// askStatic takes one vector, a word, from a C handler.
func (r *run) askStatic(ctx context.Context, addr string, id uint64) *structs.QueryResponse {
	word, err := r.m.word(ctx, addr, id, r.m.cfg.HopTimeout)
	switch lacks := (*lacksError)(nil); {
	case errors.As(err, &lacks):
		r.drop(addr, err.Error())
		if !slices.Contains(r.failed, addr) {
			r.failed = append(r.failed, addr)
		}
		return nil
	case err != nil:
		return r.callFailed(ctx, addr, err)
	}
	return r.answer(vector.FromWord(word))
}

// callHeader is room for what stands before the arguments of a call: its numbers
// and credential.
const callHeader = 512

// coordinate gives the plan to its coordinator.
func (r *run) coordinate(ctx context.Context, plan *router.Plan) *structs.QueryResponse {
	args := r.coordination(ctx, wireRanges(plan))
	if size := args.XDRSize(); size < 0 || callHeader+size > maxRecord {
		what := fmt.Sprintf("takes %d bytes, a record holds %d", callHeader+size, maxRecord)
		if size < 0 {
			what = fmt.Sprintf("has more than %d vectors in a range", xdr.MaxNodes)
		}
		resp := refused(structs.QUERY_TOO_LARGE, failure("too large: the plan of the query "+what+": ask in smaller ranges", nil, 0, nil))
		return &resp
	}
	res, err := r.callCoordinator(ctx, plan.Coordinator, args)
	if err != nil {
		return r.callFailed(ctx, plan.Coordinator, err)
	}
	if res.Status != structs.QUERY_OK {
		return r.slaveFailed(ctx, plan.Coordinator, plan, res.Status, res.Failure)
	}
	if !r.judge(ctx, plan, res.Result.Absent) {
		return nil
	}
	return &structs.QueryResponse{Answer: res.Result.Answer}
}

// wireRanges writes the plan as lists, one a range, each machine in it once and
// in the global order. An empty range is an empty list: the others run all the
// same, so that what fails in them is known.
func wireRanges(plan *router.Plan) []structs.RangePlan {
	out := make([]structs.RangePlan, len(plan.Ranges))
	nodes := make([]structs.MachineVecNode, planNodes(plan))
	for i, rg := range plan.Ranges {
		out[i].Strategy = rg.Strategy
		next := &out[i].List
		for _, leg := range rg.Legs {
			for _, id := range leg.IDs {
				n := &nodes[0]
				nodes = nodes[1:]
				n.MachineAddr, n.Vector = leg.Machine, structs.VecT(id)
				*next, next = n, &n.Next
			}
		}
	}
	return out
}

// remaining is what is left of the query's time, for the wire; at least 1 ms.
func remaining(ctx context.Context) uint32 {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint32(min(max(time.Until(end).Milliseconds(), 1), math.MaxUint32))
}
