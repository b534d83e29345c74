package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"starfish/xdr"
)

// errDraining ends the reading of a connection when the server shuts down.
var errDraining = errors.New("server shuts down")

// streamConn is one connection of a server: records come in, are served by a
// crew, and the replies go out as they are ready.
type streamConn struct {
	s      *Server
	nc     net.Conn
	wire   net.Conn        // what is read and written: nc, or TLS over it
	ctx    context.Context // of its calls
	cancel context.CancelFunc
	call   Call // what all its calls have in common
	crew   crew
	rec    *recordReader // belongs to who has the crew's turn

	slowTill time.Time    // by when more of the record must have come; belongs to who has the turn
	arrived  int          // bytes since; the same
	reading  atomic.Int64 // bytes counted for the record that is read
	granted  atomic.Int64 // Unix nanoseconds: when it last got room; 0 while it waits for that
	pass     atomic.Bool  // it need not wait for it again
	unsent   atomic.Int64 // bytes of replies that are not written

	dropped  atomic.Bool
	lastUsed atomic.Int64 // Unix nanoseconds: of the last reply, or the start

	dmu      sync.Mutex
	draining bool
	idleTill time.Time // the read deadline, where it is the idle one

	out replyQueue
}

// replyQueue is the replies that are not written yet. Who finds nobody writing
// writes them, all of them at once.
type replyQueue struct {
	mu      sync.Mutex
	pending []*buffer
	spare   []*buffer // the last batch's array
	writing bool
	till    time.Time // the write deadline; belongs to who writes
}

func newStreamConn(s *Server, nc net.Conn) *streamConn {
	c := &streamConn{s: s, nc: nc, wire: nc}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.call = Call{Network: nc.LocalAddr().Network(), Remote: nc.RemoteAddr(), Local: nc.LocalAddr(), PeerUID: peerUID(nc)}
	c.rec = newRecordReader(c, s.cfg.MaxRecord)
	c.rec.charge = c.charge
	c.crew = crew{max: s.cfg.MaxCallsPerConn, maxHeld: s.cfg.MaxRecord, look: &s.look, work: c.work, left: c.finish}
	c.lastUsed.Store(time.Now().UnixNano())
	return c
}

// work is one goroutine of the crew.
func (c *streamConn) work() {
	var d xdr.Decoder
	for c.crew.take() {
		c.flush() // what another has left, whose next call takes long
		for c.serveNext(&d) {
		}
	}
}

// serveNext serves one call; false when the turn to read is lost.
func (c *streamConn) serveNext(d *xdr.Decoder) bool {
	if err := c.rec.wait(); err != nil {
		c.readEnded(err)
		return false
	}
	req := getBuffer()
	var err error
	if req.b, err = c.rec.next(req.b); err != nil {
		req.free()
		c.readEnded(err)
		return false
	}
	ctx := &callContext{Context: c.ctx, call: c.call}
	c.slowTill = time.Time{}
	size, charged := len(req.b), c.uncharge()
	defer c.s.records.add(-charged)
	d.Reset(req.b)
	refusal := readCall(d, &ctx.call)
	if refusal == errNotCall {
		req.free()
		c.readEnded(refusal)
		return false
	}
	if refusal == nil && ctx.call.Cred.Flavor == AUTH_TLS && c.s.cfg.TLSMode != TLSOff {
		if refusal = c.refuseProbe(&ctx.call); refusal == nil {
			return c.startTLS(&ctx.call, req)
		}
	}
	h, refusal := c.s.admit(ctx, refusal)
	slot := needsSlot(ctx, refusal)
	if slot && !(c.awaitReplies() && c.s.acquire(c.flush)) {
		req.free()
		c.readEnded(context.Canceled)
		return false
	}
	c.crew.pass(size)
	begin := time.Now()
	reply := getBuffer()
	answer := c.s.answer(ctx, h, refusal, d, reply.b)
	if slot {
		c.s.release()
	}
	if !d.Alias { // else what was decoded lives on in the record
		req.free()
	}
	*d = xdr.Decoder{}
	took := time.Since(begin)
	if answer == nil {
		reply.free()
		c.s.cfg.Metrics.Dropped(c.call.Network, DropSilent)
		c.crew.ran(took, 0)
		c.crew.done(1, size)
	} else {
		reply.b = answer
		putMark(reply.b)
		c.s.cfg.Metrics.Called(&ctx.call, CallResult{ctx.refused, took, size, len(reply.b) - markLen})
		c.crew.ran(took, len(reply.b)-size)
		c.push(reply)
	}
	mine := c.crew.retake()
	if mine && c.rec.ready() {
		return true // the next reply goes with this one
	}
	if c.crew.busy() > 1 {
		runtime.Gosched() // others may have their replies ready in a moment: one write for all
	}
	c.flush()
	return mine
}

// awaitReplies waits while the replies that others do not take are too many.
func (c *streamConn) awaitReplies() bool {
	if !c.s.replies.full() {
		return true
	}
	c.flush()
	return c.s.replies.await(0, &c.pass, c.ctx.Done(), c.s.shedReplies)
}

// readEnded ends the reading. After a clean end, which may be that of one
// direction only, the calls that run are answered; else they are cancelled.
func (c *streamConn) readEnded(err error) {
	c.s.records.add(-c.uncharge())
	c.flush()
	if err != io.EOF && !errors.Is(err, errDraining) {
		c.drop(dropReason(err, c.rec.open), err)
	}
	c.crew.over()
}

// drop closes the connection for a reason, the first of which counts.
func (c *streamConn) drop(reason string, err error) {
	if c.dropped.Swap(true) || c.ctx.Err() != nil {
		return
	}
	c.s.log.Debug("rpc: connection dropped", "reason", reason, "err", err, "remote", c.nc.RemoteAddr())
	c.s.cfg.Metrics.Dropped(c.call.Network, reason)
	c.close()
}

// finish is called when the last goroutine of the crew has left.
func (c *streamConn) finish() {
	if c.wire != c.nc {
		_ = c.wire.Close() // says so to the other side, where that still listens
	}
	c.close()
	c.s.forget(c)
}

// close ends the connection, and the contexts of its calls, now.
func (c *streamConn) close() {
	c.cancel()
	_ = c.nc.Close() // closed twice, it says so
}

// drain ends the reading; calls that run are answered.
func (c *streamConn) drain() {
	c.dmu.Lock()
	defer c.dmu.Unlock()
	c.draining = true
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection, which reads no more anyway
}

// Read is what the record reader reads by: with a deadline, which is the idle
// one between records and a shorter one inside of a record.
func (c *streamConn) Read(p []byte) (int, error) {
	for {
		if err := c.setReadDeadline(); err != nil {
			return 0, err
		}
		n, err := c.wire.Read(p)
		if c.arrived += n; n > 0 {
			return n, nil
		}
		if !isTimeout(err) || !c.goOn() {
			return 0, err
		}
	}
}

// setReadDeadline puts the deadline off, the idle one only now and then.
func (c *streamConn) setReadDeadline() error {
	c.dmu.Lock()
	defer c.dmu.Unlock()
	if c.draining {
		return errDraining
	}
	now := time.Now()
	if c.rec.open {
		if c.slowTill.IsZero() || c.arrived >= minArrival {
			c.slowTill, c.arrived = now.Add(c.s.cfg.StallTimeout), 0
		}
		c.idleTill = time.Time{}
		return c.nc.SetReadDeadline(c.slowTill)
	}
	idle := c.s.cfg.IdleTimeout
	if c.idleTill.Sub(now) >= idle {
		return nil
	}
	c.idleTill = now.Add(idle + idle/4)
	return c.nc.SetReadDeadline(c.idleTill)
}

// goOn reports whether a connection whose read deadline is over is to be read
// all the same: it drains, calls run, or it was used since.
func (c *streamConn) goOn() bool {
	c.dmu.Lock()
	c.idleTill = time.Time{}
	draining := c.draining
	c.dmu.Unlock()
	if draining {
		return true
	}
	return !c.rec.open && (c.crew.busy() > 0 || time.Since(time.Unix(0, c.lastUsed.Load())) < c.s.cfg.IdleTimeout)
}

// push adds a reply to those that wait to be written.
func (c *streamConn) push(b *buffer) {
	c.unsent.Add(int64(len(b.b)))
	c.s.replies.add(len(b.b))
	q := &c.out
	q.mu.Lock()
	q.pending = append(q.pending, b)
	q.mu.Unlock()
}

// flush writes the replies that wait, unless somebody does already.
func (c *streamConn) flush() {
	q := &c.out
	q.mu.Lock()
	if q.writing {
		q.mu.Unlock()
		return
	}
	q.writing = true
	for len(q.pending) > 0 {
		batch := q.pending
		q.pending = q.spare[:0]
		q.mu.Unlock()
		if err := c.write(batch); err != nil && c.ctx.Err() == nil {
			c.drop(dropReason(err, true), err)
		}
		size := 0
		for i, b := range batch {
			size += len(b.b)
			b.free()
			batch[i] = nil
		}
		c.unsent.Add(int64(-size))
		c.s.replies.add(-size)
		c.crew.done(len(batch), size)
		q.mu.Lock()
		q.spare = batch
	}
	q.writing = false
	q.mu.Unlock()
}

// write writes a batch, short replies together.
func (c *streamConn) write(batch []*buffer) error {
	if len(batch) == 1 {
		return c.writeAll(batch[0].b)
	}
	short := getBuffer()
	defer short.free()
	for _, b := range batch {
		if len(short.b)+len(b.b) > maxCoalesce {
			if err := c.writeAll(short.b); err != nil {
				return err
			}
			short.b = short.b[:0]
		}
		if len(b.b) <= maxCoalesce {
			short.b = append(short.b, b.b...)
		} else if err := c.writeAll(b.b); err != nil {
			return err
		}
	}
	return c.writeAll(short.b)
}

// writeAll writes b in parts, each within StallTimeout.
func (c *streamConn) writeAll(b []byte) error {
	stall := c.s.cfg.StallTimeout
	for len(b) > 0 {
		now := time.Now()
		if c.out.till.Sub(now) < stall {
			c.out.till = now.Add(stall + stall/4)
			if err := c.nc.SetWriteDeadline(c.out.till); err != nil {
				return err
			}
		}
		n, err := c.wire.Write(b[:min(len(b), maxWrite)])
		c.lastUsed.Store(now.UnixNano())
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
