package master

import (
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"

	"starfish/catalog"
	"starfish/router"
	"starfish/structs"
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

func newBudget() budget {
	return budget{semaphore.NewWeighted(maxPlanned), make(chan struct{}, routesPerCPU*runtime.GOMAXPROCS(0))}
}

// plan makes a plan that has its share of the budget until release is called.
func (r *run) plan(ctx context.Context) (plan *router.Plan, snap *catalog.Snapshot, release func(), failed *structs.QueryResponse) {
	nodes := r.m.budget.nodes
	held := int64(0)
	release = func() { nodes.Release(held) }
	for {
		if plan, snap, failed = r.route(ctx); failed != nil {
			release()
			return nil, nil, nil, failed
		}
		need := int64(planNodes(plan))
		switch {
		case need <= max(held, freeNodes):
			return plan, snap, release, nil
		case held == 0 && nodes.TryAcquire(need):
			held = need
			return plan, snap, release, nil
		}
		// It is made again after the wait: those that wait hold none.
		nodes.Release(held)
		held, plan = 0, nil
		if nodes.Acquire(ctx, need) != nil {
			resp := r.late()
			return nil, nil, nil, &resp
		}
		held = need
	}
}
