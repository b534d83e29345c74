package catalog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// Over returns the catalog that log is the truth of. What this process sights,
// who serves, who misses what, who confirmed a write, is beside the log and ends
// with the process.
func Over(log Log) Catalog {
	c := &sighted{log: log, slaves: map[string]*sighting{}, intents: new(btree.Map[uint64, *Intent])}
	c.restored = log.Load().last
	log.Watch(c.follow)
	return c
}

// sighted lays what was sighted over what the log says. mu orders the two: each
// snapshot is of the newest of both.
type sighted struct {
	log      Log
	restored uint64 // writes up to this revision were open before this process: their ids may have been seen
	snapshot atomic.Pointer[Snapshot]

	mu      sync.Mutex
	base    *Snapshot                   // what the log says
	slaves  map[string]*sighting        // by address; none: joining
	intents *btree.Map[uint64, *Intent] // base's, with who confirmed them
	changed chan struct{}               // nil: nobody asked
}

// sighting is what was seen of one slave.
type sighting struct {
	number   uint32 // another slave may get the address
	state    State
	problem  string
	setAside uint64
	missing  *btree.Map[uint64, uint64] // id to the revision that it lacks; a newer one that was finished it has
	shown    *btree.Map[uint64, uint64] // its copy for snapshots; nil: none
}

// follow takes over what the log says now.
func (c *sighted) follow(now *Snapshot, touched []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	whose := c.base == nil || c.base.epoch != now.epoch
	c.base = now
	if whose {
		for addr, s := range c.slaves {
			if i, ok := now.index[addr]; !ok || now.numbers[i] != s.number {
				delete(c.slaves, addr)
			}
		}
	}
	if touched == nil {
		touched = c.all()
	}
	for _, id := range touched {
		c.followIntent(id)
	}
	for addr, s := range c.slaves {
		before := s.missing.Len()
		for _, id := range touched {
			if rev, lacks := s.missing.Get(id); lacks && !now.has(addr, id, rev) {
				s.missing.Delete(id)
			}
		}
		if s.missing.Len() != before {
			s.show()
		}
	}
	c.publish()
}

// all are the ids that something may be sighted of.
func (c *sighted) all() []uint64 {
	ids := append(c.intents.Keys(), c.base.intents.Keys()...)
	for _, s := range c.slaves {
		ids = append(ids, s.missing.Keys()...)
	}
	return ids
}

// followIntent takes over the open write of the id; who confirmed another one has
// not confirmed it.
func (c *sighted) followIntent(id uint64) {
	in, ok := c.base.intents.Get(id)
	if !ok {
		c.intents.Delete(id)
		return
	}
	if was, ok := c.intents.Get(id); ok && was.Revision == in.Revision {
		return
	}
	next := *in
	next.Seen = in.Seen || in.Revision <= c.restored
	c.intents.Set(id, &next)
}

// has says that the slave holds the id, whose last finished put is of that revision.
func (s *Snapshot) has(addr string, id, revision uint64) bool {
	e, _ := s.ids.get(id)
	return e.revision == revision && slices.Contains(s.sets[e.set].addrs, addr)
}

// publish shows base and what was sighted.
func (c *sighted) publish() {
	s := *c.base
	s.slaves = slices.Clone(s.slaves)
	s.missing = make([]*btree.Map[uint64, uint64], len(s.slaves))
	for i := range s.slaves {
		if seen := c.slaves[s.slaves[i].Addr]; seen != nil {
			sl := &s.slaves[i]
			sl.State, sl.Problem, sl.SetAside = seen.state, seen.problem, seen.setAside
			sl.Missing = uint64(seen.missing.Len())
			s.missing[i] = seen.shown
		}
	}
	s.intents = c.intents.Copy()
	c.snapshot.Store(&s)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// sight changes what was seen of the slave, and shows it where f says that it did.
func (c *sighted) sight(addr string, f func(*sighting) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.base.index[addr]
	if !ok {
		return
	}
	s := c.slaves[addr]
	if s == nil {
		s = &sighting{number: c.base.numbers[i], missing: new(btree.Map[uint64, uint64])}
		c.slaves[addr] = s
	}
	if f(s) {
		c.publish()
	}
}

// lacks notes that the slave misses the id, if it is to hold it.
func (c *sighted) lacks(addr string, s *sighting, id uint64) {
	if e, ok := c.base.ids.get(id); ok && slices.Contains(c.base.sets[e.set].addrs, addr) {
		s.missing.Set(id, e.revision)
	}
}

// show makes what the slave misses visible in the next snapshot. The copy shares
// all nodes, so that one id costs one path of them.
func (s *sighting) show() {
	s.shown = nil
	if s.missing.Len() > 0 {
		s.shown = s.missing.Copy()
	}
}

// Snapshot is the current view.
func (c *sighted) Snapshot() *Snapshot { return c.snapshot.Load() }

// Changed returns a channel that is closed at the next change of the snapshot.
func (c *sighted) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// SetState notes what the slave can do now.
func (c *sighted) SetState(addr string, st State, problem string) {
	c.sight(addr, func(s *sighting) bool {
		changes := s.state != st || s.problem != problem
		s.state, s.problem = st, problem
		return changes
	})
}

// SetInventory notes what comparing the slave's inventory found.
func (c *sighted) SetInventory(addr string, missing []uint64, setAside uint64) {
	c.sight(addr, func(s *sighting) bool {
		if len(missing) == 0 && s.missing.Len() == 0 && s.setAside == setAside {
			return false
		}
		s.setAside = setAside
		s.missing = new(btree.Map[uint64, uint64])
		for _, id := range missing {
			c.lacks(addr, s, id)
		}
		s.show()
		return true
	})
}

// Lacks notes that the slave misses these ids as well.
func (c *sighted) Lacks(addr string, ids ...uint64) {
	c.sight(addr, func(s *sighting) bool {
		before := s.missing.Len()
		for _, id := range ids {
			c.lacks(addr, s, id)
		}
		s.show()
		return s.missing.Len() != before
	})
}

// Found notes that the slave has the id after all.
func (c *sighted) Found(addr string, id uint64) {
	c.sight(addr, func(s *sighting) bool {
		if _, lacks := s.missing.Get(id); !lacks {
			return false
		}
		s.missing.Delete(id)
		s.show()
		return true
	})
}

// Confirm notes that addr has the revision on disk.
func (c *sighted) Confirm(id, revision uint64, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, ok := c.intents.Get(id)
	if !ok || in.Revision != revision || slices.Contains(in.Confirmed, addr) || !slices.Contains(in.Holders, addr) {
		return
	}
	next := *in
	next.Confirmed = append(slices.Clone(in.Confirmed), addr)
	c.intents.Set(id, &next)
	c.publish()
}

// append has one change made.
func (c *sighted) append(ctx context.Context, change Change) (uint64, error) {
	verdicts, err := c.log.Append(ctx, change)
	if err != nil {
		return 0, err
	}
	return verdicts[0].Revision, verdicts[0].Err
}

// AddSlave adds the slave or changes it.
func (c *sighted) AddSlave(ctx context.Context, s Slave, ids []Span) error {
	_, err := c.Claim(ctx, s, Claim{IDs: ids})
	return err
}

// Claim is AddSlave of a static slave that shares ids with others, or takes them.
func (c *sighted) Claim(ctx context.Context, s Slave, claim Claim) (revision uint64, err error) {
	if err := checkSlave(s, claim.IDs); err != nil {
		return 0, err
	}
	return c.append(ctx, Join{Addr: s.Addr, Protocol: s.Protocol, Priority: s.Priority, Weight: s.Weight, Identity: s.Identity, Claim: claim})
}

// Remove forgets the slave.
func (c *sighted) Remove(ctx context.Context, addr string, forget bool) error {
	s, known := c.Snapshot().Slave(addr)
	if !known {
		return fmt.Errorf("%w: %s", ErrUnknownSlave, addr)
	}
	_, err := c.append(ctx, Remove{Addr: addr, Forget: forget, Served: s.State == Serving})
	return err
}

// Begin writes the intent with a new revision.
func (c *sighted) Begin(ctx context.Context, in Intent) (Intent, error) {
	change := Begin{ID: in.ID, Floor: in.Revision, Op: in.Op, Pinned: in.Pinned, Holders: in.Holders, Name: in.Name, Bytes: in.Bytes}
	err := change.check()
	if err == nil {
		in.Revision, err = c.append(ctx, change)
	}
	if err != nil {
		return Intent{}, err
	}
	in.Confirmed = nil
	return in, nil
}

// Finish makes the intent the state of the id.
func (c *sighted) Finish(ctx context.Context, id, revision uint64) error {
	_, err := c.append(ctx, Finish{ID: id, Revision: revision})
	return err
}

// Abort forgets the intent.
func (c *sighted) Abort(ctx context.Context, id, revision uint64) error {
	_, err := c.append(ctx, Abort{ID: id, Revision: revision})
	return err
}

// Revisions returns for each of the ids the revision of its last finished put.
func (c *sighted) Revisions(ids []uint64) ([]uint64, error) {
	revisions := make([]uint64, len(ids))
	s := c.log.Load()
	for i, id := range ids {
		e, _ := s.ids.get(id)
		revisions[i] = e.revision
	}
	return revisions, nil
}

// Close ends the log.
func (c *sighted) Close() error { return c.log.Close() }
