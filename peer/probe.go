package peer

import (
	"context"
	"errors"
	"sync"
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
// no goroutine.
func (m *machine) watched(ctx context.Context, f func(context.Context) error) error {
	half := m.pool.cfg.HopTimeout / 2
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Add(1)
	timer := time.AfterFunc(half, func() {
		defer watcher.Done()
		m.watch(ctx, cancel, half)
	})
	err := f(ctx)
	cancel(nil) // changes nothing where the watcher has given its verdict
	if timer.Stop() {
		watcher.Done()
	}
	watcher.Wait()
	var verdict *FailedError
	if err != nil && errors.As(context.Cause(ctx), &verdict) {
		return verdict
	}
	return err
}

// watch probes until ctx ends or a probe fails.
func (m *machine) watch(ctx context.Context, cancel context.CancelCauseFunc, half time.Duration) {
	ticker := time.NewTicker(half)
	defer ticker.Stop()
	for ctx.Err() == nil {
		err := m.probe(ctx, half)
		var failed *FailedError
		if errors.As(err, &failed) {
			cancel(failed)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
