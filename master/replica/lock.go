package replica

import (
	"context"
	"sync"
)

// idLocks is a lock an id: writes of one vector follow each other, those of
// different vectors do not wait.
type idLocks struct {
	mu   sync.Mutex
	held map[uint64]*idLock
}

type idLock struct {
	slot  chan struct{} // holds one value while locked
	users int           // holder and waiters; under idLocks.mu
}

// lock waits for the id until ctx ends.
func (l *idLocks) lock(ctx context.Context, id uint64) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[uint64]*idLock{}
	}
	k := l.held[id]
	if k == nil {
		k = &idLock{slot: make(chan struct{}, 1)}
		l.held[id] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.slot <- struct{}{}:
		return func() { <-k.slot; l.leave(id, k) }, nil
	case <-ctx.Done():
		l.leave(id, k)
		return nil, ctx.Err()
	}
}

// tryLock is lock without waiting.
func (l *idLocks) tryLock(id uint64) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[id] != nil {
		return nil, false
	}
	if l.held == nil {
		l.held = map[uint64]*idLock{}
	}
	k := &idLock{slot: make(chan struct{}, 1), users: 1}
	k.slot <- struct{}{}
	l.held[id] = k
	return func() { <-k.slot; l.leave(id, k) }, true
}

func (l *idLocks) leave(id uint64, k *idLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, id)
	}
}

// Lock takes the turn of a vector, in which nobody writes it, once it is free or
// until ctx ends.
func (r *Replica) Lock(ctx context.Context, id uint64) (unlock func(), err error) {
	return r.ids.lock(ctx, id)
}

// Queue is how many have or wait for the turn of a vector.
func (r *Replica) Queue(id uint64) int {
	r.ids.mu.Lock()
	defer r.ids.mu.Unlock()
	if k := r.ids.held[id]; k != nil {
		return k.users
	}
	return 0
}
