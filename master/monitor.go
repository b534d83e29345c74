package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"starfish/catalog"
	"starfish/peer"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// monitor looks at every slave again and again: it decides who serves. A slave
// serves after its inventory was compared with the catalog, until a probe or
// the call of a query fails.
type monitor struct {
	m     *Master
	ctx   context.Context // ends the watching
	wg    sync.WaitGroup
	began time.Time

	mu     sync.Mutex
	slaves map[string]*watched
	ended  bool // nothing more is watched
}

// watched is what the master knows of one slave beyond the catalog.
type watched struct {
	addr string
	kick chan struct{} // asks for a visit now
	seen chan struct{} // closed after the first visit
	gone chan struct{} // closed once it is not watched any more

	mu       sync.Mutex
	told     string        // its own word on its disk, shown while it serves
	blames   int           // grows at each blame: a visit begun before it proves nothing
	verdict  chan struct{} // closed once it is known whether the slave serves
	instance uint64        // of the slave process, at the last comparison
	secret   structs.JoinSecret
	learned  chan struct{} // closed and replaced at each new secret
	asked    int           // comparisons of the inventory asked for
	compared int           // the last one that was done; behind asked: do it
	rest     time.Time     // before it a slave that serves is not compared again
	inventory
}

func newMonitor(ctx context.Context, m *Master) *monitor {
	return &monitor{m: m, ctx: ctx, began: time.Now(), slaves: map[string]*watched{}}
}

// watch begins to watch the slave, unless it is watched already.
func (o *monitor) watch(addr string) *watched {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.slaves[addr]; w != nil {
		return w
	}
	w := &watched{addr: addr, kick: make(chan struct{}, 1), seen: make(chan struct{}), gone: make(chan struct{}),
		verdict: make(chan struct{}), learned: make(chan struct{}), asked: 1}
	o.slaves[addr] = w
	if !o.ended {
		o.wg.Go(func() { o.run(w) })
	}
	return w
}

func (o *monitor) slave(addr string) *watched {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slaves[addr]
}

// unwatch ends the watching of a slave that was removed.
func (o *monitor) unwatch(addr string) {
	o.mu.Lock()
	w := o.slaves[addr]
	delete(o.slaves, addr)
	o.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gone)
	if !w.decided() {
		close(w.verdict) // nobody waits for it any more
	}
}

// removed says that the slave is not watched any more.
func (w *watched) removed() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// close waits for the end of the watching, after o.ctx has ended.
func (o *monitor) close() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	o.wg.Wait()
}

func (o *monitor) run(w *watched) {
	tick := time.NewTicker(o.m.cfg.ProbeInterval)
	defer tick.Stop()
	for first := true; ; first = false {
		o.visit(w)
		if first {
			close(w.seen)
		}
		select {
		case <-o.ctx.Done():
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

// visit finds out whether the slave serves, and says so in the catalog.
func (o *monitor) visit(w *watched) {
	w.mu.Lock()
	blames := w.blames
	w.mu.Unlock()
	s, ok := o.m.cat.Snapshot().Slave(w.addr)
	if !ok {
		return // the join is still being written
	}
	err := o.probe(s)
	if err == nil && s.Protocol != 1 {
		err = o.compare(w, s.State)
	}
	if o.ctx.Err() != nil {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blames != blames || w.removed() { // a blame asked for another visit
		return
	}
	switch {
	case err == nil:
		o.setState(w.addr, catalog.Serving, w.told)
	case !w.decided() && o.settling(err):
		o.setState(w.addr, catalog.Joining, peer.Reason(err))
		return
	default:
		o.setState(w.addr, catalog.Down, peer.Reason(err))
	}
	if !w.decided() {
		close(w.verdict)
	}
}

// settling says that a slave that was not found may not be up yet: who restarted the
// master may have restarted the portmapper with it, to which slaves register again
// every few seconds, and the slaves. Of several on one host the first registers the
// port of all, so that those that do not listen yet refuse the connection.
func (o *monitor) settling(err error) bool {
	unfound := errors.Is(err, portmap.ErrNotRegistered) || errors.Is(err, portmap.ErrNoPortmapper) || errors.Is(err, syscall.ECONNREFUSED)
	return unfound && time.Since(o.began) < o.m.cfg.settle
}

func (w *watched) decided() bool {
	select {
	case <-w.verdict:
		return true
	default:
		return false
	}
}

// setState logs and notes a change of state. Who was down may hold what an
// unfinished write waits for.
func (o *monitor) setState(addr string, st catalog.State, problem string) {
	s, ok := o.m.cat.Snapshot().Slave(addr)
	if !ok || s.State == st && s.Problem == problem {
		return
	}
	o.m.cat.SetState(addr, st, problem)
	switch {
	case s.State == st && problem != "" && st == catalog.Serving:
		o.m.log.Warn("slave has a problem", "addr", addr, "problem", problem)
	case s.State != st:
		o.m.log.Info("slave", "addr", addr, "state", stateName(st), "was", stateName(s.State), "problem", problem)
	}
	if st == catalog.Serving {
		o.m.fin.wake()
	}
}

// probe asks for a sign of life. A C handler is one thread and silent while it
// works, so it has several hop timeouts.
func (o *monitor) probe(s catalog.Slave) error {
	if s.Protocol != 1 {
		return o.m.pool.Probe(o.ctx, s.Addr)
	}
	return o.m.pool.CallOnce(o.ctx, s.Addr, staticPatience*o.m.cfg.HopTimeout, func(ctx context.Context, c rpc.Caller) error {
		return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V1, 0, nil, nil)
	})
}

const staticPatience = 5

// blame notes that a call to the slave failed: it serves no more until a visit
// finds it alive.
func (o *monitor) blame(addr string, why string) {
	w := o.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed() {
		return
	}
	w.blames++
	if w.decided() {
		w.verdict = make(chan struct{})
	}
	o.setState(addr, catalog.Down, why)
	w.wake()
}

// doubt returns the channel that is closed when it is known whether the slave
// serves, nil where that is known already.
func (o *monitor) doubt(addr string) <-chan struct{} {
	w := o.slave(addr)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.decided() {
		return nil
	}
	return w.verdict
}

// verdicts returns for each of the slaves the channel that is or will be closed when
// it is known whether it serves; another one since then: it was in doubt meanwhile.
func (o *monitor) verdicts(addrs []string) []<-chan struct{} {
	out := make([]<-chan struct{}, len(addrs))
	for i, addr := range addrs {
		if w := o.slave(addr); w != nil {
			w.mu.Lock()
			out[i] = w.verdict
			w.mu.Unlock()
		}
	}
	return out
}

// firstOpen returns the first that is not closed, nil where all are.
func firstOpen(verdicts []<-chan struct{}) <-chan struct{} {
	for _, ch := range verdicts {
		if ch == nil {
			continue
		}
		select {
		case <-ch:
		default:
			return ch
		}
	}
	return nil
}

// joined notes a JOIN of the slave process named by instance: a new process is
// not trusted to hold what the old one held. By the secret it knows us.
func (o *monitor) joined(addr string, instance uint64, secret structs.JoinSecret, problem string) {
	w := o.watch(addr)
	w.mu.Lock()
	defer w.mu.Unlock()
	if secret != (structs.JoinSecret{}) && secret != w.secret {
		w.secret = secret
		close(w.learned)
		w.learned = make(chan struct{})
		o.m.fin.wake() // writes may have been refused for want of it
	}
	if instance != 0 && w.compared > 0 && w.instance != instance {
		w.asked++
		w.blames++
		if w.decided() {
			w.verdict = make(chan struct{})
		}
		o.setState(addr, catalog.Joining, "")
	}
	w.told = problem
	s, _ := o.m.cat.Snapshot().Slave(addr)
	if s.State != catalog.Serving {
		w.wake()
	} else {
		o.setState(addr, catalog.Serving, problem)
	}
}

// secret is by what the slave knows us; learned is closed when there is another.
func (o *monitor) secret(addr string) (secret structs.JoinSecret, learned <-chan struct{}) {
	w := o.slave(addr)
	if w == nil {
		return secret, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secret, w.learned
}

// recompare asks for a comparison of the slave's inventory now.
func (o *monitor) recompare(addr string) {
	if w := o.slave(addr); w != nil {
		w.mu.Lock()
		w.asked++
		w.rest = time.Time{}
		w.mu.Unlock()
		w.wake()
	}
}

// recompareSoon is recompare for those who may ask with every query: comparisons of
// a slave that serves are restVisits of its visits apart.
func (o *monitor) recompareSoon(addr string) {
	if w := o.slave(addr); w != nil {
		w.mu.Lock()
		w.asked++
		w.mu.Unlock()
		w.wake()
	}
}

const restVisits = 10

// lookAround has every slave visited, and waits until each was at least once.
func (o *monitor) lookAround(ctx context.Context) {
	for _, s := range o.m.cat.Snapshot().Slaves() {
		w := o.slave(s.Addr)
		if w == nil {
			continue
		}
		w.wake()
		select {
		case <-w.seen:
		case <-ctx.Done():
			return
		}
	}
}

// awaitVerdict waits until it is known whether addr serves.
func (o *monitor) awaitVerdict(ctx context.Context, addr string) error {
	ch := o.doubt(addr)
	if ch == nil {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("master: waiting for a sign of %s: %w", addr, ctx.Err())
	}
}

// awaitVerdicts waits for the verdict on all of them; false: there was none to wait
// for, or ctx ended first.
func (o *monitor) awaitVerdicts(ctx context.Context, addrs []string) (waited bool) {
	for _, addr := range addrs {
		waited = waited || o.doubt(addr) != nil
		if o.awaitVerdict(ctx, addr) != nil {
			return false
		}
	}
	return waited
}

func stateName(s catalog.State) string {
	switch s {
	case catalog.Joining:
		return "joining"
	case catalog.Serving:
		return "serving"
	}
	return "down"
}
