package rpc

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"time"
)

// streamTransport sends calls over a stream, by a goroutine of its own: a
// context may end a call while its record is half written, which the record
// must not notice.
type streamTransport struct {
	c     *Client
	queue []*pendingCall // under c.mu
	wake  chan struct{}
	idle  chan struct{} // closed when nothing is written any more
}

func newStreamTransport(c *Client) *streamTransport {
	t := &streamTransport{c: c, wake: make(chan struct{}, 1), idle: make(chan struct{})}
	c.wg.Go(t.write)
	return t
}

func (t *streamTransport) roundTrip(ctx context.Context, p *pendingCall) (*buffer, error) {
	t.c.mu.Lock()
	t.queue = append(t.queue, p)
	t.c.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
	r, why := t.wait(ctx, p)
	if why == nil {
		if r.err == nil { // else it may still be in the queue
			t.c.used.Put(p)
		}
		return r.rec, r.err
	}
	sent, known := t.c.abandon(p)
	if !known {
		r = <-p.reply
		return r.rec, r.err
	}
	if !sent {
		t.drop(p)
	}
	return nil, gaveUp(why, sent)
}

// drop takes a call that was given up out of the queue, so that callers of a
// server that does not read do not fill memory.
func (t *streamTransport) drop(p *pendingCall) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if i := slices.Index(t.queue, p); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
		p.req.free()
	}
}

// wait waits for the result of p, for as long as ctx or else the client's
// Timeout allows: the error says which of them ended.
func (t *streamTransport) wait(ctx context.Context, p *pendingCall) (result, error) {
	var timeout <-chan time.Time
	if _, ok := ctx.Deadline(); !ok {
		if p.timer == nil {
			p.timer = time.NewTimer(t.c.cfg.Timeout)
		} else {
			p.timer.Reset(t.c.cfg.Timeout)
		}
		defer p.timer.Stop()
		timeout = p.timer.C
	}
	select {
	case r := <-p.reply:
		return r, nil
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-timeout:
		return result{}, context.DeadlineExceeded
	}
}

// write writes the calls that wait, short ones together.
func (t *streamTransport) write() {
	defer close(t.idle)
	var calls []*buffer
	for {
		select {
		case <-t.wake:
		case <-t.c.done:
			return
		}
		if t.c.callers() > 1 {
			runtime.Gosched() // others may have their calls ready in a moment: one write for all
		}
		calls = t.next(calls[:0])
		for batch := calls; len(batch) > 0; {
			n := together(batch)
			if written, err := t.writeTogether(batch[:n]); err != nil {
				t.unsent(batch, written)
				t.c.fail(err)
				return
			}
			batch = batch[n:]
		}
	}
}

// writeTogether writes the batch at once, and gives its buffers back if it is
// written.
func (t *streamTransport) writeTogether(batch []*buffer) (written int, err error) {
	all := batch[0]
	if len(batch) > 1 {
		all = getBuffer()
		defer all.free()
		for _, req := range batch {
			all.b = append(all.b, req.b...)
		}
	}
	if written, err = t.c.conn.Write(all.b); err != nil {
		return written, err
	}
	for i, req := range batch {
		req.free()
		batch[i] = nil
	}
	return written, nil
}

// together returns how many of the batch are short enough for one write, at
// least 1.
func together(batch []*buffer) int {
	size := 0
	for n, req := range batch {
		if size += len(req.b); size > maxCoalesce {
			return max(n, 1)
		}
	}
	return len(batch)
}

// next takes the queue, without the calls that were abandoned in it.
func (t *streamTransport) next(batch []*buffer) []*buffer {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for i, p := range t.queue {
		if t.c.pending[p.xid] == p {
			p.sent = true
			batch = append(batch, p.req)
			p.req = nil
		}
		t.queue[i] = nil
	}
	t.queue = t.queue[:0]
	return batch
}

// unsent notes that of the batch only so many bytes were written: who has not
// got a whole record cannot run it.
func (t *streamTransport) unsent(batch []*buffer, written int) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for _, req := range batch {
		if written -= len(req.b); written >= 0 {
			continue
		}
		if p := t.c.pending[binary.BigEndian.Uint32(req.b[markLen:])]; p != nil {
			p.sent = false
		}
	}
}

func (t *streamTransport) settle() { <-t.idle }

// receive hands the replies out.
func (t *streamTransport) receive() error {
	records := newRecordReader(t.c.conn, t.c.cfg.MaxReply)
	for {
		if err := records.wait(); err != nil {
			return err
		}
		records.max = t.c.maxReply() // its call is registered
		rec := getBuffer()
		var err error
		if rec.b, err = records.next(rec.b); err != nil {
			rec.free()
			return err
		}
		t.c.deliver(rec)
	}
}
