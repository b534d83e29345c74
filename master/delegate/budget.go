package delegate

import (
	"cmp"
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"

	"starfish/catalog"
	"starfish/router"
)

// A short query may name all vectors again and again, so that its plan takes a
// hundred bytes for each of up to router.MaxNodes nodes. How many nodes the plans
// in flight have together is bounded; who needs more waits within its deadline.
const (
	maxPlanned   = 2 * router.MaxNodes // nodes of all plans together
	freeNodes    = 4096                // a plan with at most so many is not counted
	routesPerCPU = 2                   // plans that are made at a time
)

// budget is what the queries in flight share.
type budget struct {
	nodes  *semaphore.Weighted
	routes chan struct{}
}

func newBudget(nodes int64) budget {
	return budget{semaphore.NewWeighted(cmp.Or(nodes, maxPlanned)), make(chan struct{}, routesPerCPU*runtime.GOMAXPROCS(0))}
}

// planned is a plan, the snapshot that it was made of, and its share of the budget,
// which it has until release is called.
type planned struct {
	*router.Plan
	snap    *catalog.Snapshot
	release func()
}

// nodes are the (machine, vector) pairs of the plan.
func (p *planned) nodes() (n uint64) {
	for _, rg := range p.Ranges {
		n += rg.Vectors
	}
	return n
}

// plan makes a plan that has its share of the budget. How large a plan is shows
// only when it is made: one that is too large for what is free is thrown away
// before the wait, since plans that wait would be the memory that is to be saved,
// and made again after it, when the catalog may have changed and it be larger.
func (r *run) plan(ctx context.Context) (*planned, error) {
	share := r.budget.nodes
	held := int64(0)
	for {
		plan, snap, err := r.route(ctx)
		if err != nil {
			share.Release(held)
			return nil, err
		}
		p := &planned{Plan: plan, snap: snap}
		need := int64(p.nodes())
		if need > max(held, freeNodes) && held == 0 && share.TryAcquire(need) {
			held = need
		}
		if need <= max(held, freeNodes) {
			p.release = func() { share.Release(held) }
			return p, nil
		}
		share.Release(held)
		held, plan, p = 0, nil, nil
		if share.Acquire(ctx, need) != nil {
			return nil, r.late()
		}
		held = need
	}
}
