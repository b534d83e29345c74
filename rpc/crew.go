package rpc

import (
	"sync"
	"time"
)

// crew is the goroutines that serve one socket. They take turns at reading: the
// one that has the turn reads a call, leaves the turn to whoever comes first, and
// runs the call itself, so that no call is handed from one goroutine to another.
// As a rule it is back for the turn before anybody else is needed. When its call
// takes long, the lookout wakes somebody; when calls of this socket have taken
// long of late, somebody is woken at once. When max calls run, or they hold more
// than maxHeld bytes, nobody reads until one is answered.
type crew struct {
	max     int
	maxHeld int
	look    *lookout
	work    func() // what one goroutine does: until take says false, read and serve
	left    func() // called by the last goroutine to leave

	mu      sync.Mutex
	turn    turn
	running int // calls taken on and not answered
	held    int // bytes of them and of their replies
	members int // goroutines
	idle    int // of them, waiting for the turn: 0 or 1
	wake    chan struct{}
	wary    int    // calls to come for which somebody is woken at once
	watched bool   // the lookout comes by
	passes  uint64 // how often the turn was left
	seen    uint64 // the same, when the lookout last came by
}

// turn says who reads.
type turn uint8

const (
	turnFull  turn = iota // nobody, since too many calls run
	turnOpen              // nobody yet: whoever comes first
	turnTaken             // somebody
	turnOver              // nobody, ever again
)

// start starts the first goroutine.
func (c *crew) start() {
	c.wake = make(chan struct{}, 1)
	c.turn, c.members = turnOpen, 1
	go c.run()
}

func (c *crew) run() {
	c.work()
	c.mu.Lock()
	c.members--
	last := c.members == 0
	c.mu.Unlock()
	if last {
		c.left()
	}
}

// full: c.mu is held.
func (c *crew) full() bool { return c.running >= c.max || c.held > c.maxHeld }

// free reports whether the turn can be taken; c.mu is held.
func (c *crew) free() bool { return c.turn == turnOpen || c.turn == turnFull && !c.full() }

// take waits until the caller has the turn. On false the caller is to leave:
// reading is over, or others are enough.
func (c *crew) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.free() {
		if c.turn == turnOver || c.idle > 0 {
			return false
		}
		c.idle++
		c.mu.Unlock()
		<-c.wake
		c.mu.Lock()
		c.idle--
	}
	c.turn = turnTaken
	return true
}

// retake is take without the wait.
func (c *crew) retake() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.free() {
		return false
	}
	c.turn = turnTaken
	return true
}

// pass counts in a call of n bytes and leaves the turn.
func (c *crew) pass(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.held += n
	c.passes++
	c.turn = turnFull
	if c.full() {
		return
	}
	c.turn = turnOpen
	if c.wary > 0 {
		c.call()
	} else if !c.watched {
		c.watched = true
		c.look.add(c)
	}
}

// ran says how long a call ran before it had a reply, and by how many bytes that
// is longer than the call.
func (c *crew) ran(d time.Duration, n int) {
	c.mu.Lock()
	c.held += n
	if d > longCall {
		c.wary = waryCalls
	} else if c.wary > 0 {
		c.wary--
	}
	c.mu.Unlock()
}

// done counts out calls that are answered, and the bytes they held.
func (c *crew) done(calls, n int) {
	c.mu.Lock()
	c.running -= calls
	c.held -= n
	if c.turn == turnFull && !c.full() && c.idle > 0 {
		c.turn = turnOpen
		c.call()
	}
	c.mu.Unlock()
}

// over ends the reading; the goroutines leave when their calls are answered.
func (c *crew) over() {
	c.mu.Lock()
	c.turn = turnOver
	if c.idle > 0 {
		c.call()
	}
	c.mu.Unlock()
}

// busy returns how many calls run.
func (c *crew) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// call wakes or starts a goroutine; c.mu is held.
func (c *crew) call() {
	if c.idle == 0 {
		c.members++
		go c.run()
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// visit has somebody read if the turn is open since the last visit. It reports
// whether to come by again.
func (c *crew) visit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == turnOpen && c.seen != c.passes {
		c.seen = c.passes
		return true
	}
	if c.turn == turnOpen {
		c.call()
	}
	c.watched = false
	return false
}

// lookout visits the crews whose turn was left, every lookoutTime while there
// are any.
type lookout struct {
	mu    sync.Mutex
	crews []*crew
	timer *time.Timer
}

// add is called with c.mu held.
func (l *lookout) add(c *crew) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crews = append(l.crews, c)
	if len(l.crews) > 1 {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(lookoutTime, l.round)
	} else {
		l.timer.Reset(lookoutTime)
	}
}

func (l *lookout) round() {
	l.mu.Lock()
	crews := l.crews
	l.crews = nil
	l.mu.Unlock()
	var again []*crew
	for _, c := range crews {
		if c.visit() {
			again = append(again, c)
		}
	}
	if len(again) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crews = append(l.crews, again...)
	l.timer.Reset(lookoutTime)
}
