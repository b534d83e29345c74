package slave

import (
	"context"
	"errors"
	"fmt"

	"starfish/fault"
	"starfish/fault/wire"
	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// answered is a fault as the call's transport carries it: less of it over UDP.
// Not ok: err is none, and is answered SYSTEM_ERR.
func answered(ctx context.Context, err error) (st structs.QueryStatus, f structs.QueryFailure, ok bool) {
	if fault.Of(err) == nil {
		return st, f, false
	}
	const maxUDPVectors, maxUDPNames = 400, 4000
	st, f = wire.Encode(err)
	if !overUDP(ctx) {
		return st, f, true
	}
	f.Vectors = f.Vectors[:min(len(f.Vectors), maxUDPVectors)]
	size := 0
	for i, m := range f.FailedMachines {
		if size += len(m) + 8; size > maxUDPNames {
			f.FailedMachines = f.FailedMachines[:i]
			break
		}
	}
	return st, f, true
}

// fail makes a fault that blames machines.
func fail(kind fault.Kind, message string, machines ...string) *fault.Error {
	return fault.New(kind, "%s", fault.Plain(message)).On(machines...)
}

// notHeld is the fault of ids that the machine does not have.
func notHeld(machine string, ids []uint64) *fault.Error {
	message := fmt.Sprintf("%s does not hold %d of the vectors, the first is %d", machine, len(ids), ids[0])
	return fail(fault.ErrNotHeld, message, machine).About(uint64(len(ids)), ids[:min(len(ids), structs.MAX_LISTED)]...)
}

// outsider is the fault of a list that names a machine outside of the cluster.
func outsider(machine string) *fault.Error {
	return fail(fault.ErrFailed, fmt.Sprintf("%.255s is not a machine of this cluster: join it, or allow it with --allow-machine", machine), machine)
}

// callFailed is what an error of a call to machine means: the machine dead, or
// hanging, or refusing the call is to blame; a machine that answers SYSTEM_ERR
// is not, and neither is one that was not heard before the deadline.
func (s *Slave) callFailed(ctx context.Context, machine string, err error) error {
	var dead *peer.FailedError
	var refused *rpc.ReplyError
	switch {
	case errors.As(err, &dead):
		s.log.Info("machine failed", "machine", machine, "why", peer.Reason(err))
		return fail(fault.ErrUnavailable, machine+": "+peer.Reason(err), machine)
	case ctx.Err() != nil:
		return late(ctx)
	case errors.Is(err, rpc.ErrSystem):
		return fmt.Errorf("slave: %s answered: %w", machine, err)
	case errors.As(err, &refused):
		s.log.Info("machine refused a call", "machine", machine, "err", err)
		return fail(fault.ErrFailed, fmt.Sprintf("%s refused the call: %v", machine, refused), machine)
	case errors.Is(err, rpc.ErrTooLong):
		return fail(fault.ErrTooLarge, fmt.Sprintf("the list for %s does not fit a record: %s", machine, peer.Reason(err)))
	}
	return fmt.Errorf("slave: calling %s: %w", machine, err)
}

// late is the fault of a call whose time is over, or the error of one that
// nobody waits for any more.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fail(fault.ErrDeadline, "not answered within the deadline: no machine failed, give a longer one")
	}
	return fmt.Errorf("slave: call given up: %w", context.Cause(ctx))
}
