// Package health knows who serves: it visits every slave again and again, hears of
// calls that failed, and compares what slaves hold with what the catalog says they
// hold. Its verdicts are in the catalog's snapshot, beside what is durable.
//
// A slave serves after its inventory was compared with the catalog, until a probe
// or somebody's call fails.
//
// Reading the source: health.go is a slave's way from joining to serving and down;
// doubt.go takes blame and has others wait for a verdict; joined.go hears of new
// processes; inventory.go is the comparison; same.go finds one process under two
// names; notes.go keeps what is told in order.
package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"starfish/catalog"
	"starfish/peer"
	"starfish/portmap"
)

// Views are what the catalog says now.
type Views interface {
	Snapshot() *catalog.Snapshot
	// Revisions has for each id the revision that its holders should have.
	Revisions(ids []uint64) ([]uint64, error)
}

// Sightings take what was found out about a slave.
type Sightings interface {
	SetState(addr string, st catalog.State, problem string)
	SetInventory(addr string, missing []uint64, setAside uint64) // in place of all that was found before
	Lacks(addr string, ids ...uint64)                            // more that is missing
	Found(addr string, id uint64)                                // that is not missing any more
}

// Slaves are visited.
type Slaves interface {
	Probe(ctx context.Context, machine string) error
	Null(ctx context.Context, machine string, version uint32, timeout time.Duration) error
	Inventory(ctx context.Context, machine string, first uint64, limit uint32) (peer.Page, error)
}

// Config is what slaves are watched with.
type Config struct {
	Views     Views
	Sightings Sightings
	Slaves    Slaves

	// Serving is called when a slave serves, or has told its secret: it may hold
	// what an unfinished write waits for. It must not wait.
	Serving func()
	// Stray is called for a copy that the slave should not have.
	Stray func(ctx context.Context, addr string, it peer.Item)

	Log            *slog.Logger
	Interval       time.Duration // between two visits of a slave
	Settle         time.Duration // after the start, for slaves to register again
	HandlerTimeout time.Duration // of a visit to a C handler, which is silent while it works
	Patience       time.Duration // with one page of an inventory
}

// Health watches the slaves of one master.
type Health struct {
	cfg   Config
	log   *slog.Logger
	ctx   context.Context // ends the watching
	wg    sync.WaitGroup
	began time.Time

	mu     sync.Mutex
	slaves map[string]*watched
	ended  bool // nothing more is watched
}

// watched is what is known of one slave beyond the catalog.
type watched struct {
	addr  string
	kick  chan struct{} // asks for a visit now
	seen  chan struct{} // closed after the first visit
	gone  chan struct{} // closed once it is not watched any more
	notes notes

	// mu guards the rest. It is held for a few instructions: what is decided under
	// it is told by a note.
	mu       sync.Mutex
	word     string          // its own on its disk, shown while it serves
	callers  []chan struct{} // closed after the next visit
	served   bool            // it did, since this master began
	blames   int             // grows at each blame: a visit begun before it proves nothing
	verdict  chan struct{}   // closed once it is known whether the slave serves
	instance uint64          // of the slave process, at the last comparison
	secret   peer.Secret
	learned  chan struct{} // closed and replaced at each new secret
	asked    int           // comparisons of the inventory asked for
	compared int           // the last one that was done; behind asked: do it
	rest     time.Time     // before it a slave that serves is not compared again
	inventory
}

// New watches nobody yet; the watching ends with ctx, and Close waits for that.
func New(ctx context.Context, cfg Config) *Health {
	return &Health{cfg: cfg, log: cfg.Log, ctx: ctx, began: time.Now(), slaves: map[string]*watched{}}
}

// Watch begins to watch the slave, unless it is watched already.
func (h *Health) Watch(addr string) { h.watch(addr) }

func (h *Health) watch(addr string) *watched {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.slaves[addr]; w != nil {
		return w
	}
	w := &watched{addr: addr, kick: make(chan struct{}, 1), seen: make(chan struct{}), gone: make(chan struct{}),
		verdict: make(chan struct{}), learned: make(chan struct{}), asked: 1}
	h.slaves[addr] = w
	if !h.ended {
		h.wg.Go(func() { h.run(w) })
	}
	return w
}

func (h *Health) slave(addr string) *watched {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slaves[addr]
}

// Unwatch ends the watching of a slave that was removed.
func (h *Health) Unwatch(addr string) {
	h.mu.Lock()
	w := h.slaves[addr]
	delete(h.slaves, addr)
	h.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gone)
	w.decide() // nobody waits for it any more
}

// Watched says whether the slave is watched.
func (h *Health) Watched(addr string) bool { return h.slave(addr) != nil }

// Close waits for the end of the watching, after its context has ended.
func (h *Health) Close() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *Health) run(w *watched) {
	tick := time.NewTicker(h.cfg.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		w.mu.Lock()
		callers := w.callers
		w.callers = nil
		w.mu.Unlock()
		h.visit(w)
		for _, done := range callers {
			close(done)
		}
		if first {
			close(w.seen)
		}
		select {
		case <-h.ctx.Done():
			return
		case <-w.gone:
			return
		case <-w.kick:
		case <-tick.C:
		}
	}
}

func (w *watched) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Visit asks for a visit that begins from now on; done is closed when it has ended,
// nil where the slave is not watched.
func (h *Health) Visit(addr string) (done <-chan struct{}) {
	w := h.slave(addr)
	if w == nil {
		return nil
	}
	ch := make(chan struct{})
	w.mu.Lock()
	w.callers = append(w.callers, ch)
	w.mu.Unlock()
	w.wake()
	return ch
}

// removed says that the slave is not watched any more.
func (w *watched) removed() bool { return closed(w.gone) }

// decided says that it is known whether the slave serves.
func (w *watched) decided() bool { return closed(w.verdict) }

// decide ends the doubt, under w.mu.
func (w *watched) decide() {
	if !w.decided() {
		close(w.verdict)
	}
}

// doubt begins one, under w.mu: what is visited now proves nothing any more.
func (w *watched) doubt() {
	w.blames++
	if w.decided() {
		w.verdict = make(chan struct{})
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// visit finds out whether the slave serves, and says so in the catalog.
func (h *Health) visit(w *watched) {
	w.mu.Lock()
	blames := w.blames
	w.mu.Unlock()
	s, ok := h.cfg.Views.Snapshot().Slave(w.addr)
	if !ok {
		return // the join is still being written
	}
	err := h.probe(s)
	if err == nil && s.Protocol != 1 {
		err = h.compare(w, s.State)
	}
	if h.ctx.Err() != nil {
		return
	}
	h.found(w, blames, err)
	w.notes.flush()
}

// found is the verdict of a visit that began when there had been so many blames. A
// blame since then has asked for another visit, which will tell.
func (h *Health) found(w *watched, blames int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blames != blames || w.removed() {
		return
	}
	st, problem := catalog.Serving, w.word
	if err != nil {
		st, problem = catalog.Down, peer.Reason(err)
	}
	decides := true
	w.served = w.served || err == nil
	if !w.served && !w.decided() && h.settling(err) {
		st, decides = catalog.Joining, false
	}
	w.notes.add(func() {
		h.tellState(w, st, problem)
		// Those who wait for the verdict look at the catalog next: it comes first
		// there. Where a blame came between, its doubt stays.
		w.mu.Lock()
		defer w.mu.Unlock()
		if decides && w.blames == blames {
			w.decide()
		}
	})
}

// settling says that a slave that was never found may not be up yet: who restarted the
// master may have restarted the portmapper with it, to which slaves register again
// every few seconds, and the slaves. Of several on one host the first registers the
// port of all, so that those that do not listen yet refuse the connection.
func (h *Health) settling(err error) bool {
	unfound := errors.Is(err, portmap.ErrNotRegistered) || errors.Is(err, portmap.ErrNoPortmapper) || errors.Is(err, syscall.ECONNREFUSED)
	return unfound && time.Since(h.began) < h.cfg.Settle
}

// tellState logs a change of state and notes it in the catalog; only notes call it,
// so that states follow each other as they were found. Who was down may hold what an
// unfinished write waits for.
func (h *Health) tellState(w *watched, st catalog.State, problem string) {
	s, ok := h.cfg.Views.Snapshot().Slave(w.addr)
	if !ok || s.State == st && s.Problem == problem {
		return
	}
	h.cfg.Sightings.SetState(w.addr, st, problem)
	switch {
	case s.State == st && problem != "" && st == catalog.Serving:
		h.log.Warn("slave has a problem", "addr", w.addr, "problem", problem)
	case s.State != st:
		h.log.Info("slave", "addr", w.addr, "state", st.String(), "was", s.State.String(), "problem", problem)
	}
	if st == catalog.Serving {
		h.cfg.Serving()
	}
}

// probe asks for a sign of life. A C handler is one thread and silent while it
// works, so it has a longer time.
func (h *Health) probe(s catalog.Slave) error {
	if s.Protocol != 1 {
		return h.cfg.Slaves.Probe(h.ctx, s.Addr)
	}
	return h.cfg.Slaves.Null(h.ctx, s.Addr, s.Protocol, h.cfg.HandlerTimeout)
}
