package delegate

import (
	"container/list"
	"sync"
)

// reads knows the queries that run, and two things for their sake: what was
// deleted since they began, and when those that may still ask for a copy that was
// moved away have ended.
type reads struct {
	mu   sync.Mutex
	tick uint64    // grows with each event: a query begins, a delete is finished, somebody waits
	open list.List // of *reading, in the order in which they began

	deleted map[uint64]uint64 // revision of a finished delete to its tick
	deletes []uint64          // the same revisions, by tick
	waiters []waiter          // by tick
}

// reading is one query that runs.
type reading struct {
	began uint64
	place *list.Element
}

// waiter waits for the end of all queries that began before tick.
type waiter struct {
	tick uint64
	done chan struct{}
}

// maxDeletes bounds the deletes that are remembered; a query that needs one that
// is forgotten is planned again.
const maxDeletes = 1 << 20

// begin notes that a query begins, before it looks at the catalog.
func (r *reads) begin() *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tick++
	q := &reading{began: r.tick}
	q.place = r.open.PushBack(q)
	return q
}

// end notes that the query has its answer.
func (r *reads) end(q *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.Remove(q.place)
	oldest := r.tick + 1
	if front := r.open.Front(); front != nil {
		oldest = front.Value.(*reading).began
	}
	for len(r.deletes) > 0 && r.deleted[r.deletes[0]] < oldest {
		r.dropDelete()
	}
	for len(r.waiters) > 0 && r.waiters[0].tick < oldest {
		close(r.waiters[0].done)
		r.waiters = r.waiters[1:]
	}
}

func (r *reads) dropDelete() {
	delete(r.deleted, r.deletes[0])
	r.deletes = r.deletes[1:]
}

// erased notes a delete that was finished in the catalog just now, before its id
// can be put again.
func (r *reads) erased(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open.Len() == 0 {
		return
	}
	if r.deleted == nil {
		r.deleted = map[uint64]uint64{}
	}
	if len(r.deletes) == maxDeletes {
		r.dropDelete()
	}
	r.tick++
	r.deleted[revision] = r.tick
	r.deletes = append(r.deletes, revision)
}

// erasedSince says that the delete of that revision was finished while q ran: its
// id was unknown for a moment at least.
func (r *reads) erasedSince(q *reading, revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.deleted[revision]
	return ok && at > q.began
}

// past is closed once all queries that run now have ended.
func (r *reads) past() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := make(chan struct{})
	if r.open.Len() == 0 {
		close(done)
		return done
	}
	r.tick++
	r.waiters = append(r.waiters, waiter{r.tick, done})
	return done
}

// Erased notes a delete that was finished in the catalog just now, before its id
// can be put again: a query that met the tombstone has met a moment at which the
// vector did not exist.
func (d *Delegate) Erased(revision uint64) { d.reads.erased(revision) }

// Past is closed once all queries that run now have ended: nobody asks any more
// for a copy that was moved away before.
func (d *Delegate) Past() <-chan struct{} { return d.reads.past() }
