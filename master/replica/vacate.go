package replica

import (
	"context"
	"fmt"
	"slices"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
)

// Vacate has those that held the id before, and shall not any more, forget it, in
// the background and after the queries that may still ask them for it. Who cannot
// be reached is swept when it is back.
func (r *Replica) Vacate(before []string, in catalog.Intent) {
	var past <-chan struct{}
	for _, h := range before {
		if slices.Contains(in.Holders, h) {
			continue
		}
		if past == nil {
			past = r.cfg.Queries.Past()
		}
		r.background(past, func(ctx context.Context) {
			gone := catalog.Intent{ID: in.ID, Revision: in.Revision, Op: catalog.Delete}
			if err := r.forget(ctx, h, gone); err != nil {
				r.log.Warn("old copy not removed yet", "addr", h, "id", in.ID, "err", err)
				r.cfg.Inventory.Recompare(h)
			}
		})
	}
}

// Sweep removes a copy that the slave should not have, if that is still so. Its
// revision plus one is at most the one that the vector was moved with. A copy of
// the revision that is served is never removed: it is the only one where a slave
// is started with the data of another, or under another address.
func (r *Replica) Sweep(ctx context.Context, addr string, it peer.Item) {
	unlock, ok := r.ids.tryLock(it.ID)
	if !ok {
		return // being written: the next comparison sees to it
	}
	defer unlock()
	snap := r.cfg.Views.Snapshot()
	mem, known := snap.Member(it.ID)
	if _, pending := snap.Pending(it.ID); pending || !known || slices.Contains(mem.Holders, addr) {
		return
	}
	written, err := r.cfg.Views.Revisions([]uint64{it.ID})
	if err != nil || it.Revision >= written[0] {
		return
	}
	if err := r.forget(ctx, addr, catalog.Intent{ID: it.ID, Revision: it.Revision + 1, Op: catalog.Delete}); err != nil {
		r.log.Warn("old copy not removed", "addr", addr, "id", it.ID, "err", err)
	}
}

// forget has a slave that is no holder erase its copy.
func (r *Replica) forget(ctx context.Context, addr string, gone catalog.Intent) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
	defer cancel()
	r.cfg.Inventory.Touch(addr, gone.ID)
	_, err := r.change(ctx, addr, peer.Write{ID: gone.ID, Revision: gone.Revision}, r.cfg.Slaves.Erase)
	if f := fault.Of(err); f != nil {
		return fmt.Errorf("%s refused it: %v: %w", addr, f.Kind, f)
	}
	return err
}
