package rpc

import "sync"

// crew is the goroutines that serve one socket. They take turns at reading: the
// one that has the turn reads a call, gives the turn away, and runs the call
// itself, so that a call is never handed from one goroutine to another. Who is
// done with its call may take the turn back before anybody else woke up. When
// max calls run, or they hold maxHeld bytes, nobody reads until one is answered.
type crew struct {
	max     int
	maxHeld int
	work    func() // what one goroutine does: until take says false, read and serve

	mu      sync.Mutex
	turn    turn
	running int // calls taken on and not answered
	held    int // bytes of them and of their replies
	members int // goroutines
	idle    int // of them, waiting for the turn
	wake    chan struct{}
	left    func() // called by the last one to leave
}

// turn says who reads.
type turn uint8

const (
	turnFree  turn = iota // nobody, since too many calls run
	turnOffer             // nobody yet; somebody was woken
	turnTaken             // somebody
	turnOver              // nobody, ever again
)

// start starts the first goroutine.
func (c *crew) start() {
	c.wake = make(chan struct{}, 1)
	c.turn, c.members = turnOffer, 1
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

// take waits until the caller has the turn. On false the caller is to leave:
// reading is over, or others are enough.
func (c *crew) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.turn == turnOver:
			return false
		case c.turn == turnOffer, c.turn == turnFree && !c.full():
			c.turn = turnTaken
			return true
		case c.idle > 0:
			return false
		}
		c.idle++
		c.mu.Unlock()
		<-c.wake
		c.mu.Lock()
		c.idle--
	}
}

// begin counts a call of n bytes in, whose reader runs it and then reads on.
// False: too many calls run, and the caller has lost the turn.
func (c *crew) begin(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.held += n
	if c.full() && c.turn == turnTaken {
		c.turn = turnFree
		return false
	}
	return true
}

// pass counts a call of n bytes in and gives the turn away.
func (c *crew) pass(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.held += n
	if c.turn != turnTaken {
		return
	}
	c.turn = turnFree
	if c.full() {
		return
	}
	c.turn = turnOffer
	if c.idle == 0 {
		c.members++
		go c.run()
		return
	}
	c.signal()
}

// hold counts bytes in or out.
func (c *crew) hold(n int) {
	c.mu.Lock()
	c.held += n
	c.mu.Unlock()
}

// done counts out calls that are answered, and the bytes they held.
func (c *crew) done(calls, n int) {
	c.mu.Lock()
	c.running -= calls
	c.held -= n
	if c.turn == turnFree && !c.full() && c.idle > 0 {
		c.turn = turnOffer
		c.signal()
	}
	c.mu.Unlock()
}

// over ends the reading; the goroutines leave when their calls are answered.
func (c *crew) over() {
	c.mu.Lock()
	c.turn = turnOver
	if c.idle > 0 {
		c.signal()
	}
	c.mu.Unlock()
}

// busy returns how many calls run.
func (c *crew) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// signal wakes one that is idle; c.mu is held.
func (c *crew) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
