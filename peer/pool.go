// Package peer keeps connections to the machines of the cluster and tells a dead
// or hanging machine from a slow one: it is the one place of the hop timeout.
//
// While a call waits, its machine is probed with a NULL call over a connection of
// its own every half hop timeout. A probe that is not answered in the other half
// blames the machine; a call to a machine that answers probes waits as long as
// its context lets it. So the wait for the machine that failed does not grow
// along a chain, and the hop before it is not blamed in its place.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// DefaultHopTimeout is how long a machine may be silent.
const DefaultHopTimeout = time.Second

// slaveVersion is what is looked up and what probes call: every slave has it, C
// handlers too, and one connection carries all versions.
const slaveVersion = structs.SLAVE_V1

// Config configures a Pool; the zero value is the default.
type Config struct {
	HopTimeout time.Duration // 0: 1 s
	Logger     *slog.Logger

	// Dial connects to SLAVE_PROG of a machine, by TCP. nil: through the
	// machine's portmapper, whose answer is kept until a connection is refused.
	Dial func(ctx context.Context, machine string, vers uint32) (*rpc.Client, error)
}

// Pool calls slaves by machine name over kept connections. All methods may be
// called concurrently.
type Pool struct {
	cfg    Config
	forget func(machine string) // its port
	ctx    context.Context      // of dials and probes
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	machines map[string]*machine
}

// machine is one machine with its two connections.
type machine struct {
	pool  *Pool
	name  string
	users int // calls under way; guarded by pool.mu

	calls, probes link
	turn          chan struct{}               // held by the one call of CallOnce
	blamed        atomic.Pointer[FailedError] // of the last CallOnce that found it dead or hanging

	mu      sync.Mutex
	closed  bool             // no more probes
	waiters map[*waiter]bool // not nil while watch runs
	probing *probe
}

// New returns an empty pool.
func New(cfg Config) *Pool {
	if cfg.HopTimeout <= 0 {
		cfg.HopTimeout = DefaultHopTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	forget := func(string) {}
	if cfg.Dial == nil {
		resolver := portmap.NewResolver()
		cfg.Dial = func(ctx context.Context, machine string, vers uint32) (*rpc.Client, error) {
			return resolver.Dial(ctx, "tcp", machine, structs.SLAVE_PROG, vers, rpc.ClientConfig{})
		}
		forget = func(machine string) { resolver.Forget("tcp", machine, structs.SLAVE_PROG, slaveVersion) }
	}
	p := &Pool{cfg: cfg, forget: forget, machines: map[string]*machine{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close closes all connections; calls under way fail.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.machines
	p.machines = nil
	p.mu.Unlock()
	p.cancel()
	for _, m := range all {
		m.mu.Lock()
		m.closed = true // no probe begins any more
		m.mu.Unlock()
		m.calls.close()
		m.probes.close()
	}
	p.wg.Wait()
}

func (p *Pool) enter(name string) (*machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	m := p.machines[name]
	if m == nil {
		m = &machine{pool: p, name: name, turn: make(chan struct{}, 1)}
		p.machines[name] = m
	}
	m.users++
	return m, nil
}

// retain counts one more use of a machine that is in use.
func (p *Pool) retain(m *machine) {
	p.mu.Lock()
	m.users++
	p.mu.Unlock()
}

// leave forgets a machine that nothing is kept of, so that names from outside do
// not pile up.
func (p *Pool) leave(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.users--; m.users == 0 && m.calls.idle() && m.probes.idle() && p.machines[m.name] == m {
		delete(p.machines, m.name)
	}
}

// Call runs f over the machine's connection, probing the machine while f waits;
// f must return when its context ends, and may be run twice where a kept
// connection turns out to be closed. The error is a *FailedError where the
// machine is dead or hangs, f's own where the machine answered, and the
// context's where that ended.
func (p *Pool) Call(ctx context.Context, machine string, f func(ctx context.Context, c rpc.Caller) error) error {
	m, err := p.enter(machine)
	if err != nil {
		return err
	}
	defer p.leave(m)
	return m.call(ctx, func(c *conn) error {
		return m.watched(ctx, func(ctx context.Context) error { return f(ctx, c) })
	})
}

// CallOnce runs f as Call does, but without probes: a C handler runs one call at
// a time and answers nothing meanwhile. So only one call is with the machine at
// any time, and one that takes longer than timeout blames it. Those that waited
// for their turn meanwhile fail with it: each would else take as long.
func (p *Pool) CallOnce(ctx context.Context, machine string, timeout time.Duration, f func(ctx context.Context, c rpc.Caller) error) error {
	m, err := p.enter(machine)
	if err != nil {
		return err
	}
	defer p.leave(m)
	before := m.blamed.Load()
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if blame := m.blamed.Load(); blame != before {
		return blame
	}
	err = m.call(ctx, func(c *conn) error {
		cctx, cancel := patient(ctx, timeout, errSilent)
		defer cancel()
		err := f(cctx, c)
		if err != nil && cctx.Err() != nil && ctx.Err() == nil {
			err = m.failed(fmt.Errorf("no answer within %v", timeout))
		}
		return err
	})
	if failed := (*FailedError)(nil); errors.As(err, &failed) {
		m.blamed.Store(failed)
	}
	return err
}

// call runs f over the kept connection or a new one, and once more where the
// kept one had been closed.
func (m *machine) call(ctx context.Context, f func(*conn) error) error {
	for again := false; ; again = true {
		c, kept, err := m.calls.get(ctx, m.pool, m.name)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrClosed):
			return err
		default:
			return m.failed(err)
		}
		if err = f(c); err == nil {
			return nil
		}
		var failed *FailedError
		switch {
		case errors.As(err, &failed):
			c.blame.Store(failed)
			m.calls.drop(c)
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, rpc.ErrProgUnavail):
			m.calls.drop(c) // another program has the port now
			m.pool.forget(m.name)
			return err
		case errors.Is(err, rpc.ErrBadReply):
			m.calls.drop(c)
			return m.failed(err)
		case !lost(err):
			return err
		}
		m.calls.drop(c)
		if blame := c.blame.Load(); blame != nil {
			return blame // of another call, which closed the connection
		}
		if !kept || again {
			return m.failed(err)
		}
	}
}

func (m *machine) failed(err error) error {
	if m.pool.ctx.Err() != nil {
		return ErrClosed // our end, not its
	}
	m.pool.cfg.Logger.Debug("peer: machine failed", "machine", m.name, "err", err)
	return &FailedError{Machine: m.name, Err: err}
}
