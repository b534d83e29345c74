package health

import "sync"

// notes are what was found out about one slave and is still to be told: to the
// catalog, to the log, to those who wait. Telling may take its time, so nobody
// holds a lock meanwhile. But the order must be that in which things were found
// out, else a slave that was blamed just now is noted as serving by the visit that
// began before. So a note is queued under the lock under which it was decided, and
// whoever finds nobody telling tells all of them, one after the other.
type notes struct {
	mu      sync.Mutex
	queue   []note
	telling bool
}

type note struct {
	tell func()
	told chan struct{}
}

// add queues a note; flush tells it. It may be called under any lock.
func (n *notes) add(tell func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, note{tell, make(chan struct{})})
}

// flush returns when all that was queued before is told. It is called without a
// lock, and never by a note.
func (n *notes) flush() {
	n.mu.Lock()
	if len(n.queue) == 0 && !n.telling {
		n.mu.Unlock()
		return
	}
	if n.telling {
		// The last one in the queue, or the one that is being told: queue a mark.
		mark := note{func() {}, make(chan struct{})}
		n.queue = append(n.queue, mark)
		n.mu.Unlock()
		<-mark.told
		return
	}
	n.telling = true
	for len(n.queue) > 0 {
		next := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		next.tell()
		close(next.told)
		n.mu.Lock()
	}
	n.telling = false
	n.mu.Unlock()
}
