// Package delegate runs queries: it has the router choose a holder for each
// vector, gives the plan to a slave, judges what came back, and plans again around
// what failed, until there is an answer or an error.
//
// Reading the source: delegate.go is a query's way, attempt by attempt; execute.go
// runs a plan; failed.go and absent.go look at what came back instead of rows;
// hope.go waits for what may make a vector readable; reads.go knows the queries
// that run, for the sake of those who delete.
package delegate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
	"starfish/query"
	"starfish/router"
	"starfish/vector"
)

// Views are what the catalog says now.
type Views interface {
	Snapshot() *catalog.Snapshot
	Changed() <-chan struct{}
	// Confirm notes that the machine has the revision on disk.
	Confirm(id, revision uint64, addr string)
}

// Slaves are called with a query.
type Slaves interface {
	Ask(ctx context.Context, machine string, id uint64) (*vector.Bitmap, []peer.Absent, error)
	Word(ctx context.Context, machine string, id uint64, timeout time.Duration) (uint64, error)
	Coordinate(ctx context.Context, machine string, plan peer.Coordination) (peer.Coordinated, error)
}

// Health hears of machines that failed, and knows whether they serve.
type Health interface {
	Blame(addr, why string)
	// Verdicts has for each machine a channel that is closed once it is known
	// whether it serves; another one than before: it was in doubt meanwhile.
	Verdicts(addrs []string) []<-chan struct{}
}

// Inventory finds out what machines have that answered that they lack something.
type Inventory interface {
	Verify(ctx context.Context, addr string, ids []uint64) error
	RecompareSoon(addr string)
}

// Writes are those that are not finished.
type Writes interface {
	// Stalls is closed once more is known of those that wait for a machine.
	Stalls() <-chan struct{}
	// Waits are the machines that the write waits for, none where that is not
	// known; hopeless: none of them has come back since.
	Waits(in catalog.Intent, snap *catalog.Snapshot) (machines []string, hopeless bool)
}

// Config is what queries run with.
type Config struct {
	Views     Views
	Slaves    Slaves
	Health    Health
	Inventory Inventory
	Writes    Writes

	Log            *slog.Logger
	Deadline       time.Duration // of a query that names none
	HandlerTimeout time.Duration // of a call of a C handler
	Policy         router.Policy // of coordinators
	Chain          bool          // run ranges hop by hop; else each machine is called once
	Seed           uint64        // replays all choices from the start; 0: drawn
	Nodes          int64         // of all large plans in flight; 0: as many as two of the largest have
}

// Delegate runs the queries of one master.
type Delegate struct {
	cfg    Config
	log    *slog.Logger
	draw   *seeds
	budget budget // of the plans in flight
	reads  reads
	turns  atomic.Uint64 // counts queries
}

// New makes a Delegate; all of cfg's interfaces must be set before the first query.
func New(cfg Config) *Delegate {
	return &Delegate{cfg: cfg, log: cfg.Log, draw: newSeeds(cfg.Seed), budget: newBudget(cfg.Nodes)}
}

// Request is one query.
type Request struct {
	Text     string
	Deadline time.Duration // 0: the default
	Seed     uint64        // replays the chance of an earlier query; 0: one is drawn
	Format   peer.Format   // of the answer
	FirstRow uint64        // a page of the answer: rows from here on,
	MaxRows  uint64        // at most so many; 0: all
}

// Answer is the complete answer to a query.
type Answer struct {
	Count uint64 // of the whole answer, also where Rows is a page of it
	Rows  peer.Rows
	Seed  uint64
}

// run is one query on its way.
type run struct {
	*Delegate
	q    query.Query
	req  Request
	turn uint64
	read *reading // nil where it is only explained

	explain bool // make a plan to show, not to run

	exclude map[string]bool   // machines that this query does not use any more
	why     map[string]string // of each of them
	failed  []string          // machines that really failed, in order
	problem string            // what the last machine said that was given up
	spared  map[string]int    // times that a failed machine was found alive and used again
	notHeld map[string]int    // times that a machine did not hold what the plan said
}

const (
	maxSpared  = 2
	maxNotHeld = 3
)

// outcome is how one attempt ended: exactly one of its three kinds.
type outcome struct {
	kind   kind
	answer Answer
	why    string // of again: what was wrong with the plan
	err    error  // of failed
}

type kind uint8

const (
	answered kind = iota
	again         // by a plan of what is known now
	failed        // for good
)

func tryAgain(why string) outcome { return outcome{kind: again, why: why} }

func giveUp(err error) outcome { return outcome{kind: failed, err: err} }

// Query answers one query. The error is a *fault.Error.
func (d *Delegate) Query(ctx context.Context, req Request) (Answer, error) {
	r, err := d.begin(req)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.req.Deadline)
	defer cancel()
	r.read = d.reads.begin()
	defer d.reads.end(r.read)
	start := time.Now()
	answer, attempts, err := r.attempts(ctx)
	if d.log.Enabled(ctx, slog.LevelDebug) {
		d.log.Debug("query", "text", ShortText(req.Text), "seed", r.req.Seed, "err", err, "count", answer.Count,
			"attempts", attempts, "failed", strings.Join(r.failed, " "), "took", time.Since(start))
	}
	return answer, err
}

// Explain makes the plan of a query and runs nothing. The snapshot is the one that
// the plan was made of.
func (d *Delegate) Explain(ctx context.Context, req Request) (*router.Plan, *catalog.Snapshot, error) {
	r, err := d.begin(req)
	if err != nil {
		return nil, nil, err
	}
	r.explain = true
	ctx, cancel := context.WithTimeout(ctx, r.req.Deadline)
	defer cancel()
	p, err := r.plan(ctx)
	if err != nil {
		return nil, nil, err
	}
	p.release()
	return p.Plan, p.snap, nil
}

// begin reads the query's text and draws what it leaves open.
func (d *Delegate) begin(req Request) (*run, error) {
	q, err := query.Parse(req.Text)
	if err != nil {
		f := fault.New(fault.ErrSyntax, "%v", err)
		if syntax := (*query.SyntaxError)(nil); errors.As(err, &syntax) {
			f.Position = syntax.Pos
		}
		return nil, f
	}
	req.Seed = d.draw.of(req.Seed)
	if req.Deadline == 0 {
		req.Deadline = d.cfg.Deadline
	}
	return &run{Delegate: d, q: q, req: req, turn: d.turns.Add(1) - 1}, nil
}

// attempts plans and executes until an attempt ends the query. Each failed attempt
// takes a machine out of the next plan, or was overtaken by a change of the
// catalog, so that they end; the bound is for slaves that lie.
func (r *run) attempts(ctx context.Context) (answer Answer, n int, err error) {
	for {
		p, err := r.plan(ctx)
		if err != nil {
			return Answer{}, n, err
		}
		n++
		if n > 8+4*len(p.snap.Slaves()) {
			p.release()
			return Answer{}, n, fault.New(fault.ErrUnavailable, "given up after %d attempts: %s", n, r.problem).On(r.failed...)
		}
		out := r.execute(ctx, p)
		p.release()
		switch {
		case out.kind == failed:
			return Answer{}, n, out.err
		case out.kind == answered:
			out.answer.Seed = r.req.Seed
			return out.answer, n, nil
		case ctx.Err() != nil:
			return Answer{}, n, r.late()
		}
		r.log.Debug("query is planned again", "text", ShortText(r.req.Text), "seed", r.req.Seed, "why", out.why)
	}
}

// late is the error where the time is up.
func (r *run) late() error {
	msg := fmt.Sprintf("not answered within %v: give a longer deadline", r.req.Deadline)
	if len(r.failed) > 0 {
		msg += fmt.Sprintf("; %s failed meanwhile (%s)", strings.Join(r.failed, ", "), r.problem)
	}
	return fault.New(fault.ErrDeadline, "%s", msg).On(r.failed...)
}

// route makes a plan. It waits for unfinished writes of the ids, and for the
// verdict on holders of which it is not known whether they serve.
func (r *run) route(ctx context.Context) (*router.Plan, *catalog.Snapshot, error) {
	for {
		snap := r.cfg.Views.Snapshot()
		r.budget.routes <- struct{}{}
		plan, err := router.Route(snap, r.q, router.Options{Seed: r.req.Seed, Exclude: r.exclude, Policy: r.cfg.Policy, Turn: r.turn, Explain: r.explain, Chain: r.cfg.Chain})
		<-r.budget.routes
		var (
			pending *router.PendingError
			away    *router.UnavailableError
			large   *router.TooLargeError
		)
		switch {
		case err == nil:
			return plan, snap, nil
		case errors.Is(err, router.ErrNoSuchVector):
			return nil, nil, noSuchVector(r.q.ID())
		case errors.As(err, &large):
			return nil, nil, fault.New(fault.ErrTooLarge, "%v: ask in smaller ranges", err)
		case errors.As(err, &pending), errors.As(err, &away):
			u := unreadOf(pending, away)
			if r.hope(ctx, snap, u) {
				continue
			}
			return nil, nil, r.unavailable(u)
		default:
			r.log.Error("route", "query", ShortText(r.req.Text), "err", err)
			return nil, nil, fault.New(fault.ErrFailed, "%v", err).Because(err)
		}
	}
}

func noSuchVector(id uint64) error {
	return fault.New(fault.ErrNoSuchVector, "no such vector: %d was never put, or was deleted", id).About(1, id)
}

// blame gives the machine up for this query, and has it looked at.
func (r *run) blame(addr, why string) {
	r.cfg.Health.Blame(addr, why)
	r.drop(addr, why)
	r.fails(addr)
}

// fails notes that the machine is to be named where there is no answer.
func (r *run) fails(addr string) {
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
	r.log.Debug("query routed again", "text", ShortText(r.req.Text), "seed", r.req.Seed, "without", addr, "why", why)
}

// ShortText is the start of a query for a log or a message.
func ShortText(text string) string {
	const shown = 200
	if len(text) > shown {
		return text[:shown] + "..."
	}
	return text
}
