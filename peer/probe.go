package peer

import (
	"context"
	"errors"
	"time"

	"starfish/rpc"
	"starfish/structs"
)

// Probe makes a NULL call over the machine's connection for probes. An error is
// a *FailedError, or the context's.
func (p *Pool) Probe(ctx context.Context, machine string) error {
	m, err := p.enter(machine)
	if err != nil {
		return err
	}
	defer p.leave(m)
	return m.probe(ctx, p.cfg.HopTimeout)
}

// A probe is one NULL call that everybody waits for who wants one meanwhile.
type probe struct {
	done chan struct{}
	err  error
}

// probe returns nil where the machine answers within timeout.
func (m *machine) probe(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := patient(ctx, timeout, m.silent())
	defer cancel()
	m.mu.Lock()
	pr := m.probing
	if pr == nil && m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	if pr == nil {
		pr = &probe{done: make(chan struct{})}
		m.probing = pr
		m.pool.retain(m)
		m.pool.wg.Go(func() { m.runProbe(pr) })
	}
	m.mu.Unlock()
	select {
	case <-pr.done:
		return pr.err
	case <-ctx.Done():
	}
	select {
	case <-pr.done: // both, and the answer counts
		return pr.err
	default:
		return context.Cause(ctx)
	}
}

func (m *machine) silent() error { return &FailedError{Machine: m.name, Err: errSilent} }

func (m *machine) runProbe(pr *probe) {
	defer m.pool.leave(m)
	ctx, cancel := patient(m.pool.ctx, m.pool.cfg.HopTimeout, errSilent)
	defer cancel()
	pr.err = m.null(ctx)
	m.mu.Lock()
	m.probing = nil
	m.mu.Unlock()
	close(pr.done)
}

// null makes the NULL call. Any reply is a sign of life, a refusal too, but not
// that the program is not there.
func (m *machine) null(ctx context.Context) error {
	for again := false; ; again = true {
		c, kept, err := m.probes.get(ctx, m.pool, m.name)
		if err != nil {
			return m.blame(ctx, err)
		}
		err = c.Call(ctx, structs.SLAVE_PROG, slaveVersion, 0, nil, nil)
		var refused *rpc.ReplyError
		if err == nil || errors.As(err, &refused) && !errors.Is(err, rpc.ErrProgUnavail) {
			return nil
		}
		m.probes.drop(c)
		if again || !kept || !lost(err) {
			return m.blame(ctx, err)
		}
	}
}

func (m *machine) blame(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx) // not what its end has done to the call
	}
	return m.failed(err)
}

// watched runs f and ends it as soon as a probe finds the machine dead or
// hanging. A call that is answered within half a hop timeout costs no probe and
// no goroutine; all that wait for longer share one.
func (m *machine) watched(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &waiter{cancel: cancel}
	timer := time.AfterFunc(m.pool.cfg.HopTimeout/2, func() { m.enroll(w) })
	err := f(ctx)
	cancel(nil) // changes nothing where the watch has given its verdict
	if !timer.Stop() {
		m.withdraw(w)
	}
	var verdict *FailedError
	if err != nil && errors.As(context.Cause(ctx), &verdict) {
		return verdict
	}
	return err
}

// waiter is a call that has waited for half a hop timeout.
type waiter struct {
	cancel context.CancelCauseFunc
	over   bool // guarded by machine.mu
}

// enroll has the machine probed for as long as w waits.
func (m *machine) enroll(w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.over || m.closed {
		return
	}
	watching := m.waiters != nil
	if !watching {
		m.waiters = map[*waiter]bool{}
	}
	m.waiters[w] = true
	if !watching {
		m.pool.retain(m)
		m.pool.wg.Go(m.watch)
	}
}

func (m *machine) withdraw(w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.over = true
	delete(m.waiters, w)
}

// watch probes every half hop timeout, until nobody waits or a probe fails.
func (m *machine) watch() {
	defer m.pool.leave(m)
	half := m.pool.cfg.HopTimeout / 2
	ticker := time.NewTicker(half)
	defer ticker.Stop()
	for m.anyWaits() {
		err := m.probe(m.pool.ctx, half)
		var failed *FailedError
		if errors.As(err, &failed) {
			m.giveUp(failed)
			return
		}
		select {
		case <-ticker.C:
		case <-m.pool.ctx.Done(): // their connection ends as well
			m.giveUp(ErrClosed)
			return
		}
	}
}

// anyWaits reports whether there is a reason to go on watching; where not, the
// watch is over.
func (m *machine) anyWaits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiters) == 0 {
		m.waiters = nil
		return false
	}
	return true
}

// giveUp ends all calls that wait, and the watch.
func (m *machine) giveUp(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.waiters {
		w.cancel(why)
	}
	m.waiters = nil
}
