package peer

import (
	"context"
	"sync"
	"sync/atomic"

	"starfish/rpc"
)

// A link is one kept connection to a machine, made when it is first needed. All
// who need it meanwhile wait for the same dial.
type link struct {
	mu      sync.Mutex
	kept    *conn
	dialing *dial
	closed  bool
}

type conn struct {
	*rpc.Client
	blame atomic.Pointer[FailedError] // why it was closed, where the machine failed; nil: by chance
}

type dial struct {
	done chan struct{}
	conn *conn
	err  error
}

// get returns the connection, and whether it was there before.
func (l *link) get(ctx context.Context, p *Pool, machine string) (c *conn, kept bool, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, false, ErrClosed
	}
	if c := l.kept; c != nil {
		if c.Err() == nil {
			l.mu.Unlock()
			return c, true, nil
		}
		l.kept = nil // it ended while nobody used it
	}
	d := l.dialing
	if d == nil {
		d = &dial{done: make(chan struct{})}
		l.dialing = d
		p.wg.Go(func() { l.connect(p, machine, d) })
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, false, d.err
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}

// connect dials for everyone who waits for d, within the hop timeout.
func (l *link) connect(p *Pool, machine string, d *dial) {
	ctx, cancel := patient(p.ctx, p.cfg.HopTimeout, errSilent)
	defer cancel()
	client, err := p.cfg.Dial(ctx, machine, slaveVersion)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing = nil
	switch {
	case err == nil && l.closed:
		client.Close()
		d.err = ErrClosed
	case err == nil:
		d.conn = &conn{Client: client}
		l.kept = d.conn
	case ctx.Err() != nil:
		d.err = context.Cause(ctx)
	default:
		d.err = err
	}
	close(d.done)
}

// drop closes c and forgets it.
func (l *link) drop(c *conn) {
	l.mu.Lock()
	if l.kept == c {
		l.kept = nil
	}
	l.mu.Unlock()
	c.Close()
}

// close closes the link for good.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	c := l.kept
	l.kept = nil
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// idle reports whether nothing is kept.
func (l *link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept == nil && l.dialing == nil
}
