package peer

import (
	"context"
	"fmt"

	"starfish/rpc"
	"starfish/structs"
	"starfish/xdr"
)

// Leg is what one machine ORs for a range.
type Leg struct {
	Machine string
	IDs     []uint64 // ascending
}

// Strategy is how the coordinator runs a range: range_strategy of structs.x.
type Strategy structs.RangeStrategy

// Range is a list of legs, each machine once and in the global order; none: the
// range is empty.
type Range struct {
	Legs     []Leg
	Strategy Strategy
}

// Coordination is a plan that one slave runs for us: the ranges are ORed each and
// ANDed together.
type Coordination struct {
	Ranges   []Range
	Format   Format // of the answer
	FirstRow uint64 // a page of the answer: rows from here on,
	MaxRows  uint64 // at most so many; 0: all
}

// Coordinated is what a plan brought.
type Coordinated struct {
	Count  uint64   // of the whole answer
	Rows   Rows     // as they came: whoever asked reads them
	Absent []Absent // an id once for each list that has it
}

// callHeader is room for what stands before the arguments of a call: its numbers
// and credential.
const callHeader = 512

// TooLargeError is a plan that no record holds: nobody was called.
type TooLargeError struct {
	What string // such as "takes 70000000 bytes, a record holds 67108864"
}

// Error says how large it is.
func (e *TooLargeError) Error() string { return "peer: the plan " + e.What }

// Coordinate gives the plan to the machine, which may be a *TooLargeError.
func (p *Pool) Coordinate(ctx context.Context, machine string, plan Coordination) (Coordinated, error) {
	args := structs.Coordinate2Args{
		Ranges:    wireRanges(plan.Ranges),
		Format:    plan.Format,
		FirstRow:  plan.FirstRow,
		MaxRows:   plan.MaxRows,
		MaxAbsent: structs.MAX_ABSENT,
	}
	if size := args.XDRSize(); size < 0 {
		return Coordinated{}, &TooLargeError{fmt.Sprintf("has more than %d vectors in a range", xdr.MaxNodes)}
	} else if callHeader+size > rpc.DefaultMaxRecord {
		return Coordinated{}, &TooLargeError{fmt.Sprintf("takes %d bytes, a record holds %d", callHeader+size, rpc.DefaultMaxRecord)}
	}
	var res structs.Coordinate2Response
	err := p.Call(ctx, machine, func(ctx context.Context, c rpc.Caller) error {
		args.DeadlineMs = remaining(ctx)
		// Not by the stub, which would copy the rows.
		return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V2, structs.COORDINATE, args, xdr.Aliased(&res))
	})
	if err = answered(err, res.Status, res.Failure); err != nil {
		return Coordinated{}, err
	}
	return Coordinated{Count: res.Result.Answer.Count, Rows: Rows(res.Result.Answer.Rows), Absent: absents(res.Result.Absent)}, nil
}

// wireRanges writes the plan as lists, one a range. An empty range is an empty
// list: the others run all the same, so that what fails in them is known. All
// nodes are one piece of memory: there may be millions.
func wireRanges(ranges []Range) []structs.RangePlan {
	total := 0
	for _, rg := range ranges {
		for _, leg := range rg.Legs {
			total += len(leg.IDs)
		}
	}
	out := make([]structs.RangePlan, len(ranges))
	nodes := make([]structs.MachineVecNode, total)
	for i, rg := range ranges {
		out[i].Strategy = structs.RangeStrategy(rg.Strategy)
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
