package replica

import (
	"context"
	"errors"
	"sync"

	"starfish/catalog"
	"starfish/peer"
)

// stalled knows the open writes that cannot be ended before some slave is back, as
// rounds have found them. Nobody needs to wait for those.
type stalled struct {
	mu     sync.Mutex
	writes map[uint64]stalledWrite // by id
	news   chan struct{}           // closed at the next change; nil: nobody waits
}

type stalledWrite struct {
	revision uint64
	machines map[string]bool // that it waits for: true of one that serves and refuses
}

// changed returns a channel that is closed when more writes are known. Who waits
// takes it before it asks.
func (s *stalled) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// note notes why the write cannot be ended. An error that is no *openError is no
// reason to give it up.
func (s *stalled) note(in catalog.Intent, err error) {
	var waits *openError
	if !errors.As(err, &waits) {
		return
	}
	w := stalledWrite{in.Revision, map[string]bool{}}
	for i, addr := range waits.machines {
		w.machines[addr] = refuses(waits.causes[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes == nil {
		s.writes = map[uint64]stalledWrite{}
	}
	s.writes[in.ID] = w
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// refuses says that the machine has answered, though not what was asked for.
func refuses(err error) bool {
	var dead *peer.FailedError
	return !errors.As(err, &dead) && !errors.Is(err, errNotServing) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// prune forgets the writes that are not open any more.
func (s *stalled) prune(snap *catalog.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.writes {
		if in, open := snap.Pending(id); !open || in.Revision != w.revision {
			delete(s.writes, id)
		}
	}
}

// waits returns the machines that the write waits for, none where that is not known.
// hopeless: none of them has come back since.
func (s *stalled) waits(in catalog.Intent, snap *catalog.Snapshot) (machines []string, hopeless bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.writes[in.ID]
	if !ok || w.revision != in.Revision {
		return nil, false
	}
	hopeless = true
	for addr, refuses := range w.machines {
		machines = append(machines, addr)
		m, _ := snap.Slave(addr)
		hopeless = hopeless && (refuses || m.State != catalog.Serving)
	}
	return machines, hopeless
}

// Stalls is closed once more is known of the writes that wait for a machine. Who
// waits takes it before it asks.
func (r *Replica) Stalls() <-chan struct{} { return r.stalled.changed() }

// Waits returns the machines that the write waits for, none where that is not known.
// hopeless: none of them has come back since.
func (r *Replica) Waits(in catalog.Intent, snap *catalog.Snapshot) (machines []string, hopeless bool) {
	return r.stalled.waits(in, snap)
}
