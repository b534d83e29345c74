package slave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// failure is an answer that is not QUERY_OK, as an error within the package. Any
// other error of the handler and the coordinator is answered SYSTEM_ERR.
type failure struct {
	status structs.QueryStatus
	structs.QueryFailure
}

func (f *failure) Error() string {
	return fmt.Sprintf("slave: %v: %s", f.status, f.Message)
}

// wire is the failure as the call's transport carries it: less of it over UDP.
func (f *failure) wire(ctx context.Context) structs.QueryFailure {
	const maxUDPVectors, maxUDPNames = 400, 4000
	w := f.QueryFailure
	if !overUDP(ctx) {
		return w
	}
	w.Vectors = w.Vectors[:min(len(w.Vectors), maxUDPVectors)]
	size := 0
	for i, m := range w.FailedMachines {
		if size += len(m) + 8; size > maxUDPNames {
			w.FailedMachines = w.FailedMachines[:i]
			break
		}
	}
	return w
}

// fail makes a failure that blames machines.
func fail(status structs.QueryStatus, message string, machines ...string) *failure {
	message = peer.Plain(message)
	f := &failure{status: status}
	f.Message = message
	if len(message) > structs.MAX_MESSAGE {
		f.Message = strings.ToValidUTF8(message[:structs.MAX_MESSAGE-3], "") + "..."
	}
	for _, m := range machines {
		f.FailedMachines = append(f.FailedMachines, structs.MachineName(m))
	}
	return f
}

// notHeld is the failure of ids that the machine does not have.
func notHeld(machine string, ids []uint64) *failure {
	f := fail(structs.QUERY_NOT_HELD, fmt.Sprintf("%s does not hold %d of the vectors, the first is %d", machine, len(ids), ids[0]), machine)
	f.Vectors = ids[:min(len(ids), structs.MAX_LISTED)]
	f.VectorsTotal = uint64(len(ids))
	return f
}

// outsider is the failure of a list that names a machine outside of the cluster.
func outsider(machine string) *failure {
	return fail(structs.QUERY_FAILED, fmt.Sprintf("%.255s is not a machine of this cluster: join it, or allow it with --allow-machine", machine), machine)
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
		return fail(structs.QUERY_UNAVAILABLE, machine+": "+peer.Reason(err), machine)
	case ctx.Err() != nil:
		return late(ctx)
	case errors.Is(err, rpc.ErrSystem):
		return fmt.Errorf("slave: %s answered: %w", machine, err)
	case errors.As(err, &refused):
		s.log.Info("machine refused a call", "machine", machine, "err", err)
		return fail(structs.QUERY_FAILED, fmt.Sprintf("%s refused the call: %v", machine, refused), machine)
	case errors.Is(err, rpc.ErrTooLong):
		return fail(structs.QUERY_TOO_LARGE, fmt.Sprintf("the list for %s does not fit a record: %s", machine, peer.Reason(err)))
	}
	return fmt.Errorf("slave: calling %s: %w", machine, err)
}

// late is the failure of a call whose time is over, or the error of one that
// nobody waits for any more.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fail(structs.QUERY_DEADLINE, "not answered within the deadline: no machine failed, give a longer one")
	}
	return fmt.Errorf("slave: call given up: %w", context.Cause(ctx))
}

// rank orders failures of the parts of one call by how much they tell the
// caller: dead machines before those that merely lack vectors.
var rank = []structs.QueryStatus{
	structs.QUERY_UNAVAILABLE, structs.QUERY_NOT_HELD, structs.QUERY_FAILED, structs.QUERY_TOO_LARGE, structs.QUERY_DEADLINE,
}

// worst is the one error of a call whose parts failed: failures of the highest
// rank together, each machine once; without any the first other error, one that
// only says that the call was given up last of all.
func worst(errs []error) error {
	var sum *failure
	var other error
	at := len(rank)
	for _, err := range errs {
		var f *failure
		if !errors.As(err, &f) {
			if other == nil || errors.Is(other, context.Canceled) {
				other = err
			}
			continue
		}
		i := slices.Index(rank, f.status)
		if i < 0 {
			i = len(rank) - 1
		}
		switch {
		case i < at:
			sum, at = &failure{status: f.status, QueryFailure: f.QueryFailure}, i
			sum.FailedMachines = unique(nil, f.FailedMachines)
		case i == at:
			sum.FailedMachines = unique(sum.FailedMachines, f.FailedMachines)
			sum.Vectors = slices.Concat(sum.Vectors, f.Vectors)
			sum.Vectors = sum.Vectors[:min(len(sum.Vectors), structs.MAX_LISTED)]
			sum.VectorsTotal += f.VectorsTotal
		}
	}
	if sum == nil {
		return other
	}
	return sum
}

// unique appends the machines that are not in list yet.
func unique(list, machines []structs.MachineName) []structs.MachineName {
	for _, m := range machines {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}
