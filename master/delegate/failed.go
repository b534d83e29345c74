package delegate

import (
	"context"
	"errors"

	"starfish/fault"
	"starfish/peer"
	"starfish/rpc"
)

// callFailed judges a call to addr that brought no rows. Who is to blame decides
// what follows: a machine that is dead or hangs is taken out for all queries until
// it was looked at; one that lives and could not is taken out of this query; where
// no machine is to blame, another plan would end the same way.
func (r *run) callFailed(ctx context.Context, addr string, p *planned, err error) outcome {
	var (
		dead  *peer.FailedError
		large *peer.TooLargeError
		reply *rpc.ReplyError
	)
	switch f := fault.Of(err); {
	case errors.As(err, &dead): // the pool has logged it
		r.blame(addr, peer.Reason(err))
	case f != nil:
		return r.slaveFailed(ctx, addr, p, f)
	case ctx.Err() != nil:
		return giveUp(r.late())
	case errors.As(err, &large):
		return giveUp(tooLarge(large.What))
	case errors.Is(err, rpc.ErrTooLong) && !errors.Is(err, rpc.ErrClosed): // nothing was sent
		return giveUp(tooLarge("does not fit in a record (" + peer.Reason(err) + ")"))
	case errors.As(err, &reply) && (errors.Is(err, rpc.ErrSystem) || errors.Is(err, rpc.ErrGarbageArgs)):
		// It is alive and failed by itself: no machine is to blame.
		return giveUp(fault.New(fault.ErrFailed, "%s failed (%v): its log says why", addr, reply).Because(err))
	default:
		r.log.Debug("call failed", "machine", addr, "err", err)
		r.blame(addr, peer.Reason(err))
	}
	return tryAgain(r.problem)
}

// slaveFailed judges what addr answered instead of rows. What it says of others is
// taken at its word: it called them, with the same patience as we have.
func (r *run) slaveFailed(ctx context.Context, addr string, p *planned, f *fault.Error) outcome {
	switch {
	case f.Kind == fault.ErrNotHeld:
		return tryAgain(r.missed(ctx, addr, p, f))
	case f.Kind == fault.ErrUnavailable && len(f.Machines) > 0:
		for _, m := range f.Machines {
			r.blame(m, fault.SaidOf(m, f.Message))
		}
		return tryAgain(r.problem)
	case f.Kind == fault.ErrFailed && len(f.Machines) > 0:
		for _, m := range f.Machines {
			r.drop(m, fault.SaidOf(m, f.Message))
		}
		return tryAgain(r.problem)
	case f.Kind == fault.ErrDeadline || ctx.Err() != nil:
		return giveUp(r.late())
	}
	told := *f
	told.Message = addr + ": " + f.Message
	return giveUp(&told)
}
