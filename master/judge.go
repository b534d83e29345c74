package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"starfish/peer"
	"starfish/router"
	"starfish/rpc"
	"starfish/structs"
)

// callFailed judges a call to addr that brought no result: nil to route again.
func (r *run) callFailed(ctx context.Context, addr string, err error) *structs.QueryResponse {
	var dead *peer.FailedError
	var reply *rpc.ReplyError
	switch {
	case errors.As(err, &dead): // the pool has logged it
		r.blame(addr, peer.Reason(err))
	case ctx.Err() != nil:
		resp := r.late()
		return &resp
	case errors.Is(err, rpc.ErrTooLong) && !errors.Is(err, rpc.ErrClosed): // nothing was sent
		resp := refused(structs.QUERY_TOO_LARGE, failure(fmt.Sprintf("the plan of the query does not fit in a record (%s): ask in smaller ranges", peer.Reason(err)), nil, 0, nil))
		return &resp
	case errors.As(err, &reply) && (errors.Is(err, rpc.ErrSystem) || errors.Is(err, rpc.ErrGarbageArgs)):
		// It is alive and failed by itself: no machine is to blame.
		resp := refused(structs.QUERY_FAILED, failure(fmt.Sprintf("%s failed (%v): its log says why", addr, reply), nil, 0, nil))
		return &resp
	default:
		r.m.log.Debug("call failed", "machine", addr, "err", err)
		r.blame(addr, peer.Reason(err))
	}
	return nil
}

// slaveFailed judges what addr answered instead of rows: nil to route again.
func (r *run) slaveFailed(ctx context.Context, addr string, plan *router.Plan, st structs.QueryStatus, f structs.QueryFailure) *structs.QueryResponse {
	switch {
	case st == structs.QUERY_NOT_HELD:
		r.missed(ctx, addr, plan, f)
		return nil
	case st == structs.QUERY_UNAVAILABLE && len(f.FailedMachines) > 0:
		for _, m := range f.FailedMachines {
			r.blame(string(m), reported(string(m), f.Message))
		}
		return nil
	case st == structs.QUERY_FAILED && len(f.FailedMachines) > 0:
		for _, m := range f.FailedMachines {
			r.drop(string(m), reported(string(m), f.Message))
		}
		return nil
	case st == structs.QUERY_DEADLINE || ctx.Err() != nil:
		resp := r.late()
		return &resp
	}
	f.Message = clip(addr + ": " + f.Message)
	resp := refused(st, f)
	return &resp
}

// reported is what a slave says of the machine that it could not use: with its
// name before it, which stands beside it here anyway.
func reported(machine, message string) string {
	message = strings.TrimPrefix(message, machine+": ")
	return strings.TrimPrefix(message, machine+" ")
}

// missed notes that the plan took vectors from machines that do not hold them:
// what really is missing is not routed there any more.
func (r *run) missed(ctx context.Context, addr string, plan *router.Plan, f structs.QueryFailure) {
	asked := make(map[uint64]bool, len(f.Vectors))
	for _, id := range f.Vectors {
		asked[id] = true
	}
	ids := map[string][]uint64{}
	for _, rg := range plan.Ranges {
		for _, leg := range rg.Legs {
			for _, id := range leg.IDs {
				if asked[id] && !slices.Contains(ids[leg.Machine], id) {
					ids[leg.Machine] = append(ids[leg.Machine], id)
				}
			}
		}
	}
	if len(f.FailedMachines) == 1 { // it says itself whose they are
		one := string(f.FailedMachines[0])
		ids = map[string][]uint64{one: ids[one]}
	}
	if len(ids) == 0 {
		ids[addr] = nil
	}
	if r.notHeld == nil {
		r.notHeld = map[string]int{}
	}
	for machine, lacks := range ids {
		r.m.mon.recompare(machine)
		r.notHeld[machine]++
		tooMany := len(lacks) == 0 || len(lacks) > maxVerify || f.VectorsTotal > uint64(len(f.Vectors))
		if tooMany || r.notHeld[machine] >= maxNotHeld {
			r.drop(machine, reported(machine, f.Message))
			continue
		}
		if err := r.m.mon.verify(ctx, machine, lacks); err != nil {
			r.drop(machine, peer.Reason(err))
		}
	}
}

const maxVerify = 64 // ids that are looked for one by one
