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

	exclude  map[string]bool   // machines that this query does not use any more
	why      map[string]string // of each of them
	failed   []string          // machines that really failed, in order
	problem  string            // what the last failed machine said
	spared   map[string]int    // times that a failed machine was found alive and used again
	notHeld  map[string]int    // times that a machine did not hold what the plan said
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
		snap := r.m.cat.Snapshot()
		r.m.budget.routes <- struct{}{}
		plan, err := router.Route(snap, r.q, router.Options{Seed: r.seed, Exclude: r.exclude, Policy: r.m.policy, Turn: r.turn, Explain: r.explain, Chain: r.m.cfg.Strategy == "chain"})
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
		case errors.As(err, &pending), errors.As(err, &away):
			u := unreadOf(pending, away)
			if r.hope(ctx, snap, u) {
				continue
			}
			resp := r.unavailable(u)
			return nil, nil, &resp
		default:
			r.m.log.Error("route", "query", clipText(r.req.Text), "err", err)
			return fail(structs.QUERY_FAILED, failure(err.Error(), nil, 0, nil))
		}
	}
}

func noSuchVector(id uint64) structs.QueryResponse {
	return refused(structs.QUERY_NO_SUCH_VECTOR, failure(fmt.Sprintf("no such vector: %d was never put, or was deleted", id), []uint64{id}, 1, nil))
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
		r.exclude, r.why = map[string]bool{}, map[string]string{}
	}
	r.exclude[addr], r.why[addr] = true, why
	r.problem = addr + ": " + why
	r.m.log.Debug("query routed again", "text", clipText(r.req.Text), "seed", r.seed, "without", addr, "why", why)
}
