package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"starfish/catalog"
	"starfish/query"
	"starfish/router"
	"starfish/structs"
)

// run is one query on its way: routed, executed, and routed again around what
// failed, until there is an answer or the deadline.
type run struct {
	m    *Master
	q    query.Query
	req  structs.QueryRequest
	seed uint64
	turn uint64
	read *reading // nil where it is only explained

	explain bool // make a plan to show, not to run

	exclude  map[string]bool // machines that this query does not use any more
	failed   []string        // machines that really failed, in order
	problem  string          // what the last failed machine said
	spared   map[string]int  // times that a failed machine was found alive and used again
	notHeld  map[string]int  // times that a machine did not hold what the plan said
	attempts int
}

const (
	maxSpared  = 2
	maxNotHeld = 3
)

// query answers one query.
func (m *Master) query(ctx context.Context, req structs.QueryRequest) structs.QueryResponse {
	q, err := query.Parse(string(req.Text))
	if err != nil {
		return refused(structs.QUERY_SYNTAX, syntaxFailure(err))
	}
	ctx, cancel := context.WithTimeout(ctx, deadlineOf(req))
	defer cancel()
	r := m.newRun(q, req)
	r.read = m.reads.begin()
	defer m.reads.end(r.read)
	begin := time.Now()
	resp := r.loop(ctx)
	if !m.log.Enabled(ctx, slog.LevelDebug) {
		return resp
	}
	m.log.Debug("query", "text", clipText(req.Text), "seed", r.seed, "status", resp.Status.String(),
		"count", resp.Answer.Count, "attempts", r.attempts, "failed", strings.Join(r.failed, " "), "took", time.Since(begin))
	return resp
}

func (m *Master) newRun(q query.Query, req structs.QueryRequest) *run {
	return &run{m: m, q: q, req: req, seed: m.draw.of(req.Seed), turn: m.turns.Add(1) - 1}
}

func deadlineOf(req structs.QueryRequest) time.Duration {
	if req.DeadlineMs == 0 {
		return DefaultDeadline
	}
	return time.Duration(req.DeadlineMs) * time.Millisecond
}

func syntaxFailure(err error) structs.QueryFailure {
	f := failure(err.Error(), nil, 0, nil)
	var syntax *query.SyntaxError
	if errors.As(err, &syntax) {
		f.Position = uint32(syntax.Pos)
	}
	return f
}

// loop runs attempts; a nil answer asks for another one.
func (r *run) loop(ctx context.Context) structs.QueryResponse {
	for {
		plan, snap, release, failed := r.plan(ctx)
		if failed != nil {
			return *failed
		}
		r.attempts++
		if r.attempts > 8+4*len(snap.Slaves()) {
			release()
			return refused(structs.QUERY_UNAVAILABLE, failure(fmt.Sprintf("given up after %d attempts: %s", r.attempts, r.problem), nil, 0, r.failed))
		}
		resp := r.execute(ctx, snap, plan)
		release()
		if resp != nil {
			resp.Answer.Seed = r.seed
			return *resp
		}
		if ctx.Err() != nil {
			return r.late()
		}
	}
}

// late is the answer where the time is up.
func (r *run) late() structs.QueryResponse {
	msg := fmt.Sprintf("not answered within %v: give a longer deadline", deadlineOf(r.req))
	if len(r.failed) > 0 {
		msg += fmt.Sprintf("; %s failed meanwhile (%s)", strings.Join(r.failed, ", "), r.problem)
	}
	return refused(structs.QUERY_DEADLINE, failure(msg, nil, 0, r.failed))
}

// route makes a plan. It waits for unfinished writes of the ids, and for the
// verdict on holders of which it is not known whether they serve.
func (r *run) route(ctx context.Context) (*router.Plan, *catalog.Snapshot, *structs.QueryResponse) {
	fail := func(st structs.QueryStatus, f structs.QueryFailure) (*router.Plan, *catalog.Snapshot, *structs.QueryResponse) {
		resp := refused(st, f)
		return nil, nil, &resp
	}
	for {
		changed := r.m.cat.Changed()
		snap := r.m.cat.Snapshot()
		r.m.budget.routes <- struct{}{}
		plan, err := router.Route(snap, r.q, router.Options{Seed: r.seed, Exclude: r.exclude, Policy: r.m.policy, Turn: r.turn, Explain: r.explain})
		<-r.m.budget.routes
		var (
			pending *router.PendingError
			away    *router.UnavailableError
			large   *router.TooLargeError
		)
		switch {
		case err == nil:
			return plan, snap, nil
		case errors.Is(err, router.ErrNoSuchVector):
			resp := noSuchVector(r.q.ID())
			return nil, nil, &resp
		case errors.As(err, &large):
			return fail(structs.QUERY_TOO_LARGE, failure(err.Error()+": ask in smaller ranges", nil, 0, nil))
		case errors.As(err, &pending):
			if await(ctx, changed) {
				continue
			}
			return fail(structs.QUERY_UNAVAILABLE, failure(fmt.Sprintf("unavailable: a write of %s is not finished, and none of its holders %s is known to have it: try again when they serve",
				idList(pending.IDs, pending.Total), strings.Join(pending.Machines, ", ")), pending.IDs, pending.Total, pending.Machines))
		case errors.As(err, &away):
			if r.reconsider(ctx, away.Machines) || writing(snap, away.IDs) && await(ctx, changed) {
				continue
			}
			return fail(structs.QUERY_UNAVAILABLE, r.unavailable(away))
		default:
			r.m.log.Error("route", "query", clipText(r.req.Text), "err", err)
			return fail(structs.QUERY_FAILED, failure(err.Error(), nil, 0, nil))
		}
	}
}

func noSuchVector(id uint64) structs.QueryResponse {
	return refused(structs.QUERY_NO_SUCH_VECTOR, failure(fmt.Sprintf("no such vector: %d was never put, or was deleted", id), []uint64{id}, 1, nil))
}

// await waits for the change; false where the time is up first.
func await(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// writing says that a write to one of the ids is on its way to a holder that
// serves, so that it may soon be readable there.
func writing(snap *catalog.Snapshot, ids []uint64) bool {
	return slices.ContainsFunc(ids, func(id uint64) bool {
		in, _ := snap.Pending(id)
		return slices.ContainsFunc(in.Holders, func(h string) bool {
			s, _ := snap.Slave(h)
			return s.State == catalog.Serving && !slices.Contains(in.Confirmed, h)
		})
	})
}

// reconsider waits for the verdict on those of the machines that are in doubt,
// and takes back those that this query gave up and that are alive. False: there
// is nothing to hope for.
func (r *run) reconsider(ctx context.Context, machines []string) bool {
	waited := false
	for _, addr := range machines {
		if r.m.mon.doubt(addr) != nil {
			if r.m.mon.awaitVerdict(ctx, addr) != nil {
				return false
			}
			waited = true
		}
	}
	snap := r.m.cat.Snapshot()
	again := false
	for _, addr := range machines {
		s, _ := snap.Slave(addr)
		if s.State != catalog.Serving {
			continue
		}
		switch {
		case !r.exclude[addr]:
			again = again || waited
		case r.spared[addr] < maxSpared:
			if r.spared == nil {
				r.spared = map[string]int{}
			}
			r.spared[addr]++
			delete(r.exclude, addr)
			again = true
		}
	}
	return again
}

func (r *run) unavailable(e *router.UnavailableError) structs.QueryFailure {
	var b strings.Builder
	has := "has"
	if e.Total != 1 {
		has = "have"
	}
	fmt.Fprintf(&b, "unavailable: %s %s no live holder", idList(e.IDs, e.Total), has)
	snap := r.m.cat.Snapshot()
	for i, addr := range e.Machines {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		s, _ := snap.Slave(addr)
		why := stateName(s.State)
		switch {
		case s.State == catalog.Serving && r.exclude[addr]:
			why = "failed"
		case s.State == catalog.Serving:
			why = "does not have it"
		case s.Problem != "":
			why += ", " + s.Problem
		}
		fmt.Fprintf(&b, "%s%s (%s)", sep, addr, why)
	}
	b.WriteString("; start the slave again, or put the vector anew")
	machines := slices.Clone(r.failed)
	for _, addr := range e.Machines {
		if !slices.Contains(machines, addr) {
			machines = append(machines, addr)
		}
	}
	return failure(b.String(), e.IDs, e.Total, machines)
}

// blame gives the machine up for this query, and marks it down.
func (r *run) blame(addr, why string) {
	r.m.mon.blame(addr, why)
	r.drop(addr, why)
	if !slices.Contains(r.failed, addr) {
		r.failed = append(r.failed, addr)
	}
}

// drop gives the machine up for this query alone.
func (r *run) drop(addr, why string) {
	if r.exclude == nil {
		r.exclude = map[string]bool{}
	}
	r.exclude[addr] = true
	r.problem = addr + ": " + why
	r.m.log.Debug("query routed again", "text", clipText(r.req.Text), "seed", r.seed, "without", addr, "why", why)
}
