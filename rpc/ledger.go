package rpc

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ledger counts bytes that all connections of a server hold together. At its
// bound they stop taking more, until there are less.
type ledger struct {
	max     int64
	used    atomic.Int64
	waiters atomic.Int32

	mu   sync.Mutex
	less chan struct{} // closed when there are less; nil: nobody waits
}

func (l *ledger) full() bool { return l.used.Load() >= l.max }

// add counts bytes in; a negative n counts them out.
func (l *ledger) add(n int) {
	if n == 0 {
		return
	}
	l.used.Add(int64(n))
	if n > 0 || l.waiters.Load() == 0 {
		return
	}
	if !l.full() {
		l.wake()
	}
}

// wake has those who wait look again.
func (l *ledger) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.less != nil {
		close(l.less)
		l.less = nil
	}
}

// take counts in n bytes if there is room, which one of them may exceed.
func (l *ledger) take(n int) bool {
	for {
		used := l.used.Load()
		if used >= l.max {
			return false
		}
		if l.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

// await is take, and waits for room; false where over ends first. Every shedTime
// it calls shed: what is held may be held for ever. Who has a pass needs no room.
func (l *ledger) await(n int, pass *atomic.Bool, over <-chan struct{}, shed func()) bool {
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	for {
		l.mu.Lock()
		if l.take(n) {
			l.mu.Unlock()
			return true
		}
		if pass.Swap(false) {
			l.mu.Unlock()
			l.add(n)
			return true
		}
		if l.less == nil {
			l.less = make(chan struct{})
		}
		less := l.less
		l.mu.Unlock()
		timer := time.NewTimer(shedTime)
		select {
		case <-less:
		case <-timer.C:
			shed()
		case <-over:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// charge counts in n bytes more of the record that is being read, and waits for
// room first.
func (c *streamConn) charge(n int) error {
	if !c.s.records.take(n) {
		c.flush() // nobody waits for these replies meanwhile
		c.granted.Store(0)
		if !c.s.records.await(n, &c.pass, c.ctx.Done(), c.s.shedRecord) {
			return errShed
		}
		c.slowTill = time.Time{}
	}
	c.reading.Add(int64(n))
	c.granted.Store(time.Now().UnixNano())
	return nil
}

// uncharge returns what the record that was read last has counted, which its
// call has to count out.
func (c *streamConn) uncharge() int { return int(c.reading.Swap(0)) }

var errShed = errors.New("others need the room")

// shedRecord closes the connections that have had room for longest, and have not
// filled it. Where all wait for room, the one that holds most gets some: it is the
// next to be complete, or to be closed.
func (s *Server) shedRecord() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shed(s.records.max, func(c *streamConn) (since, bytes int64) { return c.granted.Load(), c.reading.Load() }) {
		return
	}
	var next *streamConn
	for c := range s.conns {
		if c.granted.Load() != 0 && c.reading.Load() != 0 {
			return
		}
		if next == nil || c.reading.Load() > next.reading.Load() {
			next = c
		}
	}
	if next != nil {
		next.pass.Store(true)
		s.records.wake()
	}
}

// shedReplies closes the connections that have taken nothing of their replies
// for longest.
func (s *Server) shedReplies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shed(s.replies.max, func(c *streamConn) (since, bytes int64) { return c.lastUsed.Load(), c.unsent.Load() })
}

// shed closes connections that have held bytes for shedTime and done nothing
// about it since, those of longest ago first, until a quarter of the bound is
// free; since 0 is never. It does so once every shedTime, and returns whether there
// are none. s.mu is held.
func (s *Server) shed(bound int64, held func(*streamConn) (since, bytes int64)) (none bool) {
	now := time.Now()
	if now.Sub(s.lastShed) < shedTime {
		return false
	}
	s.lastShed = now
	type holder struct {
		c            *streamConn
		since, bytes int64
	}
	var idle []holder
	for c := range s.conns {
		since, n := held(c)
		if n > 0 && since > 0 && since <= now.Add(-shedTime).UnixNano() {
			idle = append(idle, holder{c, since, n})
		}
	}
	slices.SortFunc(idle, func(a, b holder) int { return cmp.Compare(a.since, b.since) })
	freed, closed := int64(0), 0
	for ; closed < len(idle) && freed < bound/4; closed++ {
		idle[closed].c.drop(DropEvicted, errShed)
		freed += idle[closed].bytes
	}
	if closed > 0 {
		s.log.Warn("rpc: connections closed: the server holds too many bytes", "connections", closed, "bytes", freed)
	}
	return closed == 0
}
