// Package replica changes vectors: it takes a put or a delete to all holders of its
// vector, and ends the writes that a failure left open. A write is durable in the
// catalog before a holder hears of it (its intent), and is finished there once all
// have it; what is between is open, and is finished or undone here.
//
// Reading the source: write.go is a write's way; send.go takes it to a holder;
// finish.go ends open writes; vacate.go removes copies that were moved away;
// stalled.go knows which open writes wait for a machine; lock.go has the writes of
// one vector follow each other.
package replica

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"starfish/catalog"
	"starfish/peer"
)

// Views are what the catalog says now.
type Views interface {
	Snapshot() *catalog.Snapshot
	// Confirm notes that the machine has the revision on disk.
	Confirm(id, revision uint64, addr string)
	// Revisions has for each id the revision that its holders should have.
	Revisions(ids []uint64) ([]uint64, error)
}

// Intents are the writes in the catalog: see catalog.Catalog.
type Intents interface {
	Begin(ctx context.Context, in catalog.Intent) (catalog.Intent, error)
	Finish(ctx context.Context, id, revision uint64) error
	Abort(ctx context.Context, id, revision uint64) error
}

// Slaves are written to.
type Slaves interface {
	Store(ctx context.Context, machine string, w peer.Write) (revision uint64, err error)
	Erase(ctx context.Context, machine string, w peer.Write) (revision uint64, err error)
}

// Copies are looked at.
type Copies interface {
	Fetch(ctx context.Context, machine string, id uint64) (peer.Stored, error)
	Inventory(ctx context.Context, machine string, first uint64, limit uint32) (peer.Page, error)
}

// Health hears of machines that failed, and knows whether they serve.
type Health interface {
	Blame(addr, why string)
	AwaitVerdicts(ctx context.Context, addrs []string) (waited bool)
	// Secret is by what the slave knows us; learned is closed when there is another.
	Secret(addr string) (secret peer.Secret, learned <-chan struct{})
}

// Inventory compares what slaves have with the catalog, while we write.
type Inventory interface {
	Touch(addr string, id uint64)
	Arrived(addr string, id uint64)
	Recompare(addr string)
}

// Queries are those that run, and may have been planned before a write.
type Queries interface {
	// Erased notes a delete that was finished just now.
	Erased(revision uint64)
	// Past is closed once all that run now have ended.
	Past() <-chan struct{}
}

// Config is what writes run with.
type Config struct {
	Views     Views
	Intents   Intents
	Slaves    Slaves
	Copies    Copies
	Health    Health
	Inventory Inventory
	Queries   Queries

	Log       *slog.Logger
	Deadline  time.Duration // of every write
	Replicas  int           // holders of a vector that the put does not pin
	NoOverlap bool          // refuse a second holder of a vector
}

// Replica makes the writes of one master.
type Replica struct {
	cfg     Config
	log     *slog.Logger
	ids     idLocks
	stalled stalled
	kick    chan struct{} // asks for a round over the open writes
	waits   string        // the slaves that the last round waited for; only for round

	ctx   context.Context // of all background work
	bg    sync.WaitGroup
	slots chan struct{} // bounds the background work of vacate
}

// New makes a Replica; its background work ends with ctx, and Close waits for that.
// All of cfg's interfaces must be set before the first write.
func New(ctx context.Context, cfg Config) *Replica {
	return &Replica{cfg: cfg, log: cfg.Log, ctx: ctx, kick: make(chan struct{}, 1), slots: make(chan struct{}, backgroundJobs)}
}

// Close waits for the background work, after its context has ended.
func (r *Replica) Close() { r.bg.Wait() }

const backgroundJobs = 16

// background runs f once after is closed, or the deadline of a write has passed, at
// most backgroundJobs at a time, until the master ends.
func (r *Replica) background(after <-chan struct{}, f func(ctx context.Context)) {
	r.bg.Go(func() {
		late := time.NewTimer(r.cfg.Deadline)
		defer late.Stop()
		select {
		case <-after:
		case <-late.C:
		case <-r.ctx.Done():
			return
		}
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
			f(r.ctx)
		case <-r.ctx.Done():
		}
	})
}
