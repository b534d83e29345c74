package slave

import (
	"context"
	"errors"
	"fmt"
	"time"

	"starfish/fault"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// v1 serves SLAVE_PROG version 1: one word a vector. The wire has no status:
// what is no word, and no machine that failed, is SYSTEM_ERR and a line in the
// log.
type v1 struct{ s *Slave }

var _ structs.SlaveProgSlaveV1Handler = v1{}

// HandleQuery ORs the list into the word: own vectors first, then the machines
// of the rest in turn, each handing on what follows.
func (h v1) HandleQuery(ctx context.Context, arg structs.HandleQueryArgs) (structs.QueryReturnValue, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	word, err := h.handle(ctx, arg)
	if err == nil {
		return structs.QueryReturnValue{Vector: word}, nil
	}
	if f := fault.Of(err); f != nil && len(f.Machines) > 0 {
		return structs.QueryReturnValue{FailedMachine: f.Machines[0]}, nil
	}
	return structs.QueryReturnValue{}, systemError(err)
}

// systemError lets refusals of the arguments pass; all else is SYSTEM_ERR.
func systemError(err error) error {
	if errors.Is(err, rpc.ErrGarbageArgs) {
		return err
	}
	return fmt.Errorf("%w: %w", rpc.ErrSystem, err)
}

func (h v1) handle(ctx context.Context, arg structs.HandleQueryArgs) (structs.VecT, error) {
	s := h.s
	l, err := s.split(ctx, arg.List)
	if err != nil {
		return 0, err
	}
	sum := vector.FromWord(uint64(arg.Result))
	if err := s.orOwn(ctx, l.own, sum, &absents{}); err != nil {
		return 0, err
	}
	word, err := wordOf(sum)
	for rest := l.others; err == nil && len(rest) > 0; {
		g := rest[0]
		if _, nodes := count(rest); g.target.static && nodes > maxStaticNodes {
			// More than its stack takes: it gets its own nodes, in parts, and we go on.
			if err = s.orStatic(ctx, g, sum); err == nil {
				word, err = wordOf(sum)
			}
			rest = rest[1:]
			continue
		}
		return h.pass(ctx, rest, word)
	}
	return word, err
}

// pass hands the word and the rest of the list to the next machine.
func (h v1) pass(ctx context.Context, rest []*leg, word structs.VecT) (structs.VecT, error) {
	s, next := h.s, rest[0]
	machines, _ := count(rest)
	list, _ := join(rest)
	args := structs.HandleQueryArgs{List: list, Result: word}
	var res structs.QueryReturnValue
	var err error
	if next.target.static {
		// It answers no probe while it waits for those behind it, who take as
		// long as it gives them.
		res, err = s.handleOnce(ctx, next.target.dial, s.cfg.HopTimeout*time.Duration(machines), args)
	} else {
		err = s.pool.Call(ctx, next.target.dial, func(ctx context.Context, c rpc.Caller) (err error) {
			res, err = structs.NewSlaveProgSlaveV1Client(c).HandleQuery(ctx, args)
			return err
		})
	}
	switch {
	case err != nil:
		return 0, s.callFailed(ctx, next.machine, err)
	case res.FailedMachine != "":
		return 0, fail(fault.ErrUnavailable, "a machine behind the next one failed", res.FailedMachine)
	}
	return res.Vector, nil
}

func count(rest []*leg) (machines, nodes int) {
	for _, g := range rest {
		nodes += g.nodes
	}
	return len(rest), nodes
}

func wordOf(b *vector.Bitmap) (structs.VecT, error) {
	word, ok := b.Word()
	if !ok {
		top, _ := b.Max()
		return 0, fmt.Errorf("slave: the result has row %d and does not fit in a word: use version 2", top)
	}
	return structs.VecT(word), nil
}

// Coordinate runs the ranges as chains, in version 2 but for C handlers, and
// answers where the result of all fits in a word.
func (h v1) Coordinate(ctx context.Context, arg structs.CoordinateArgs) (structs.CoordinateReturnValue, error) {
	if len(arg.Ranges) == 0 {
		return structs.CoordinateReturnValue{}, fmt.Errorf("%w: no ranges", rpc.ErrGarbageArgs)
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	ranges := make([]structs.RangePlan, len(arg.Ranges))
	for i, list := range arg.Ranges {
		ranges[i].List = list
	}
	b, err := h.s.coordinate(ctx, ranges, &absents{})
	if err != nil {
		if _, f, ok := answered(ctx, err); ok && len(f.FailedMachines) > 0 {
			return structs.CoordinateReturnValue{FailedMachines: f.FailedMachines}, nil
		}
		return structs.CoordinateReturnValue{}, systemError(err)
	}
	word, err := wordOf(b)
	if err != nil {
		return structs.CoordinateReturnValue{}, systemError(err)
	}
	return structs.CoordinateReturnValue{Vector: word}, nil
}
