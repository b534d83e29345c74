package master

import (
	"context"
	"errors"
	"fmt"
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
