package rpc

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// packetTransport sends each call as a datagram, again and again until there is
// a reply.
type packetTransport struct{ c *Client }

func (t *packetTransport) roundTrip(ctx context.Context, p *pendingCall) (*buffer, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.c.cfg.Timeout)
		defer cancel()
	}
	defer func() { p.req.free() }()
	wait := t.c.cfg.Retransmit
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if err := t.send(p); err != nil {
			return t.giveUp(p, err)
		}
		select {
		case r := <-p.reply:
			return r.rec, r.err
		case <-ctx.Done():
			return t.giveUp(p, ctx.Err())
		case <-timer.C:
			wait = min(2*wait, t.c.cfg.MaxRetransmit)
			timer.Reset(wait)
		}
	}
}

// send writes the datagram once.
func (t *packetTransport) send(p *pendingCall) error {
	t.c.mu.Lock()
	before := p.sent
	p.sent = true // its reply may come before Write returns
	t.c.mu.Unlock()
	_, err := t.c.conn.Write(p.req.b[markLen:])
	if err != nil && !before {
		t.c.mu.Lock()
		p.sent = false
		t.c.mu.Unlock()
	}
	return err
}

// giveUp abandons a call, unless it has its result.
func (t *packetTransport) giveUp(p *pendingCall, why error) (*buffer, error) {
	sent, known := t.c.abandon(p)
	if !known {
		r := <-p.reply
		return r.rec, r.err
	}
	return nil, gaveUp(why, sent)
}

// receive hands the replies out. What the network reports of a datagram that
// did not arrive ends the calls that wait, and not the client.
func (t *packetTransport) receive() error {
	datagram := make([]byte, maxDatagram)
	for {
		n, err := t.c.conn.Read(datagram)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
			t.refuse(err)
		case err != nil:
			return err
		default:
			rec := getBuffer()
			rec.b = append(rec.b, datagram[:n]...)
			t.c.deliver(rec)
		}
	}
}

func (t *packetTransport) settle() {}

// refuse ends the calls that wait, since nobody listens.
func (t *packetTransport) refuse(why error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for xid, p := range t.c.pending {
		delete(t.c.pending, xid)
		p.reply <- result{err: fmt.Errorf("nobody listens: %w", why)}
	}
}
