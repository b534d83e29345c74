package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"starfish/xdr"
)

// PoolConfig has the bounds of a Pool. A zero field is its default, which stands
// in limits.go.
type PoolConfig struct {
	Size    int           // connections
	PerConn int           // calls in flight on one while another may be dialed
	Backoff time.Duration // after a dial that failed there is none for so long, then twice as long, at most MaxDialBackoff

	// Idempotent reports whether a procedure may run twice, so that a call that was
	// sent and lost with its connection is made again. See also the function of that
	// name. nil: none may.
	Idempotent func(prog, vers, proc uint32) bool
}

func (c *PoolConfig) setDefaults() {
	orDefault(&c.Size, DefaultPoolSize)
	orDefault(&c.PerConn, DefaultPoolPerConn)
	orDefault(&c.Backoff, DefaultDialBackoff)
}

// DialFunc makes a connection, for a Pool.
type DialFunc func(ctx context.Context) (*Client, error)

// Pool makes calls to one server over a few connections, which it dials when
// they are needed, and again when they have ended. A call is made a second time
// only where the server cannot have run the first one, or may run it twice; else
// its error is what it is for a Client.
type Pool struct {
	cfg  PoolConfig
	dial DialFunc

	ctx    context.Context // of dialing; ends with the pool
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	conns   []*pooledConn // that live
	dialing *dialing      // one at a time
	backoff time.Duration // after the last dial, if it failed
	failed  time.Time     // when
	lastErr error
	wg      sync.WaitGroup
}

// pooledConn is a connection and how many calls use it.
type pooledConn struct {
	*Client
	calls int // under Pool.mu
}

// dialing is a dial under way.
type dialing struct {
	done chan struct{}
	err  error // set before done is closed
}

// NewPool returns a pool of the connections that dial makes. It dials when the
// first call is made.
func NewPool(dial DialFunc, cfg PoolConfig) *Pool {
	cfg.setDefaults()
	p := &Pool{cfg: cfg, dial: dial}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

type idempotentKey struct{}

// Idempotent marks the calls that are made with the context as ones that may run
// twice, as a Pool may have them.
func Idempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// Call is a Caller's. A call that was not sent, or may run twice, is made again
// when its connection has ended.
func (p *Pool) Call(ctx context.Context, prog, vers, proc uint32, args xdr.Appender, res xdr.DecoderFrom) error {
	twice := ctx.Value(idempotentKey{}) != nil || p.cfg.Idempotent != nil && p.cfg.Idempotent(prog, vers, proc)
	for tries := 1; ; tries++ {
		c, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		err = c.Call(ctx, prog, vers, proc, args, res)
		p.release(c)
		again := errors.Is(err, ErrClosed) && (twice || errors.Is(err, ErrNotSent))
		if !again || tries == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// acquire returns the connection with the fewest calls, or waits for one that is
// dialed.
func (p *Pool) acquire(ctx context.Context) (*pooledConn, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, fmt.Errorf("rpc: %w: %w: the pool is closed", ErrNotSent, ErrClosed)
		}
		c := p.leastUsed()
		more := len(p.conns) < p.cfg.Size && (c == nil || c.calls >= p.cfg.PerConn)
		if c == nil && p.lastErr != nil && time.Since(p.failed) < p.backoff {
			defer p.mu.Unlock()
			return nil, fmt.Errorf("%w (again in %v at the latest)", p.lastErr, p.backoff)
		}
		if more && p.dialing == nil && time.Since(p.failed) >= p.backoff {
			p.dialing = &dialing{done: make(chan struct{})}
			p.wg.Go(p.dialOne)
		}
		if c != nil { // a call does not wait for another connection
			c.calls++
			p.mu.Unlock()
			return c, nil
		}
		d := p.dialing
		p.mu.Unlock()
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("rpc: %w: %w", ErrNotSent, ctx.Err())
		}
	}
}

// leastUsed returns the connection with the fewest calls, nil if there is none,
// and forgets those that have ended; p.mu is held.
func (p *Pool) leastUsed() (best *pooledConn) {
	live := p.conns[:0]
	for _, c := range p.conns {
		select {
		case <-c.Done():
			p.wg.Go(func() { _ = c.Close() }) // waits for its goroutines
			continue
		default:
		}
		live = append(live, c)
		if best == nil || c.calls < best.calls {
			best = c
		}
	}
	clear(p.conns[len(live):])
	p.conns = live
	return best
}

// dialOne dials once. The dial is nobody's own: it outlives the call for which
// it was begun.
func (p *Pool) dialOne() {
	ctx, cancel := context.WithTimeout(p.ctx, DefaultCallTimeout)
	defer cancel()
	c, err := p.dial(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dialing
	p.dialing = nil
	defer close(d.done)
	switch {
	case err != nil:
		if !errors.Is(err, ErrNotSent) {
			err = fmt.Errorf("rpc: %w: %w", ErrNotSent, err)
		}
		d.err, p.lastErr, p.failed = err, err, time.Now()
		p.backoff = min(max(2*p.backoff, p.cfg.Backoff), MaxDialBackoff)
	case p.closed:
		_ = c.Close() // it was never used
	default:
		p.conns = append(p.conns, &pooledConn{Client: c})
		p.lastErr, p.backoff, p.failed = nil, 0, time.Time{}
	}
}

func (p *Pool) release(c *pooledConn) {
	p.mu.Lock()
	c.calls--
	p.mu.Unlock()
}

// Close ends all connections; calls that wait are ErrClosed.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	p.cancel()
	for _, c := range conns {
		_ = c.Close() // never fails
	}
	p.wg.Wait()
	return nil
}
