package health

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/peer"
)

// inventory is what comparing a slave with the catalog has found; it is guarded
// by watched.mu. Writes go on during a comparison, and one page is older than
// the next, so the ids that a write touches meanwhile are left out of the result.
type inventory struct {
	missing  map[uint64]struct{} // ids that the slave should hold and does not have
	setAside uint64              // ids that it has and the catalog does not know
	scans    int                 // comparisons running
	touched  map[uint64]struct{}
}

// findings of one comparison.
type findings struct {
	missing  []uint64
	stale    []uint64 // of missing: it has an older revision than the one that was acknowledged
	setAside []uint64
	strays   []peer.Item // known ids that the slave has and should not hold, in revisions of before
}

// compare pulls the slave's inventory where that was asked for, or where the
// slave is another process than the one that was compared.
func (h *Health) compare(w *watched, st catalog.State) error {
	w.mu.Lock()
	asked, compared, instance := w.asked, w.compared, w.instance
	rests := time.Now().Before(w.rest)
	w.mu.Unlock()
	if st == catalog.Serving && (rests || asked == compared) {
		return nil
	}
	if asked == compared {
		page, err := h.page(h.ctx, w.addr, 0, 1)
		if err != nil {
			return err
		}
		if page.Instance == instance {
			return h.same(w, instance)
		}
	}

	w.begin()
	found, instance, err := h.scan(w.addr)
	if err != nil {
		w.end(nil)
		return err
	}
	w.mu.Lock()
	w.compared, w.instance = asked, instance
	w.rest = time.Now().Add(restVisits * h.cfg.Interval)
	w.mu.Unlock()
	if err := h.same(w, instance); err != nil {
		w.end(nil)
		return err
	}
	missing, setAside := w.end(func(touched map[uint64]struct{}) {
		untouched := func(ids []uint64) []uint64 {
			return slices.DeleteFunc(ids, func(id uint64) bool { _, ok := touched[id]; return ok })
		}
		missing := untouched(found.missing)
		w.missing = make(map[uint64]struct{}, len(missing))
		for _, id := range missing {
			w.missing[id] = struct{}{}
		}
		w.setAside = uint64(len(untouched(found.setAside)))
		found.stale = untouched(found.stale)
		setAside := w.setAside
		w.notes.add(func() { h.cfg.Sightings.SetInventory(w.addr, missing, setAside) })
	})
	w.notes.flush()
	h.log.Info("inventory compared", "addr", w.addr, "missing", missing, "set_aside", setAside)
	if len(found.stale) > 0 {
		h.log.Warn("slave has older revisions than were acknowledged, which count as missing: was its data put back from a copy? put the vectors again",
			"addr", w.addr, "vectors", len(found.stale))
	}
	for _, it := range found.strays {
		h.cfg.Stray(h.ctx, w.addr, it)
	}
	return nil
}

// scan compares all that the slave has with all that the catalog says.
func (h *Health) scan(addr string) (found findings, instance uint64, err error) {
	for first := uint64(0); ; {
		snap := h.cfg.Views.Snapshot() // older than the page: what it says is on disk there
		page, err := h.page(h.ctx, addr, first, 0)
		if err != nil {
			return found, 0, err
		}
		if instance != 0 && instance != page.Instance {
			return found, 0, fmt.Errorf("health: %s was started anew while its inventory was read", addr)
		}
		instance = page.Instance
		last := uint64(math.MaxUint64)
		if n := len(page.Items); page.More && n > 0 {
			last = page.Items[n-1].ID
		}
		ids := make([]uint64, len(page.Items))
		for i, it := range page.Items {
			ids[i] = it.ID
		}
		written, err := h.cfg.Views.Revisions(ids)
		if err != nil {
			return found, 0, fmt.Errorf("health: inventory of %s: %w", addr, err)
		}
		found.merge(snap, addr, first, last, page.Items, written)
		if !page.More || last == math.MaxUint64 {
			return found, instance, nil
		}
		first = last + 1
	}
}

// page fetches a part of the slave's inventory.
func (h *Health) page(ctx context.Context, addr string, first uint64, limit uint32) (peer.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Patience)
	defer cancel()
	return h.cfg.Slaves.Inventory(ctx, addr, first, limit)
}

// merge compares the ids from lo to hi; written has the revision that each of the
// items should have at least. One that is lower is of a copy of the slave's data
// from before a write, and as good as missing.
func (f *findings) merge(snap *catalog.Snapshot, addr string, lo, hi uint64, items []peer.Item, written []uint64) {
	next := 0
	unknown := func(it peer.Item) {
		if _, pending := snap.Pending(it.ID); !it.Deleted && !pending {
			f.setAside = append(f.setAside, it.ID)
		}
	}
	snap.Ascend(lo, hi, func(mem catalog.Member) bool {
		for ; next < len(items) && items[next].ID < mem.ID; next++ {
			unknown(items[next])
		}
		has, stale := false, false
		var it peer.Item
		if next < len(items) && items[next].ID == mem.ID {
			it = items[next]
			has, stale = !it.Deleted, it.Revision < written[next]
			next++
		}
		_, pending := snap.Pending(mem.ID)
		held := slices.Contains(mem.Holders, addr)
		switch {
		case pending: // the finisher asks for it
		case held && !has:
			f.missing = append(f.missing, mem.ID)
		case held && stale:
			f.missing = append(f.missing, mem.ID)
			f.stale = append(f.stale, mem.ID)
		case !held && has && it.Revision < written[next-1]:
			f.strays = append(f.strays, it)
		case !held && has: // another slave's data, or another slave under a second address
			f.setAside = append(f.setAside, mem.ID)
		}
		return true
	})
	for ; next < len(items); next++ {
		unknown(items[next])
	}
}

// begin and end enclose a comparison; apply sees the ids touched meanwhile.
func (w *watched) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.scans++; w.touched == nil {
		w.touched = map[uint64]struct{}{}
	}
}

func (w *watched) end(apply func(touched map[uint64]struct{})) (missing int, setAside uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if apply != nil {
		apply(w.touched)
	}
	if w.scans--; w.scans == 0 {
		w.touched = nil
	}
	return len(w.missing), w.setAside
}

// Touch notes that a write of id is about to be sent to the slave.
func (h *Health) Touch(addr string, id uint64) {
	w := h.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.scans > 0 {
		w.touched[id] = struct{}{}
	}
}

// Arrived notes that the slave has id on disk, whatever was missing before.
func (h *Health) Arrived(addr string, id uint64) {
	w := h.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	_, missed := w.missing[id]
	if missed {
		delete(w.missing, id)
		w.notes.add(func() { h.cfg.Sightings.Found(addr, id) })
	}
	w.mu.Unlock()
	if missed {
		w.notes.flush()
	}
}

// Verify looks whether the slave really lacks the ids that it said it does not
// hold, and notes those as missing. The answer may be about a time before a
// write, so it is not taken at its word.
//
// The view is taken before the answers are weighed. A write that begins later is
// not in it, and is then either touched, and left out here, or not yet sent: then
// the id is missing until it has arrived, which is true.
func (h *Health) Verify(ctx context.Context, addr string, ids []uint64) error {
	w := h.slave(addr)
	if w == nil {
		return nil
	}
	w.begin()
	lacks := make([]bool, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, id := range ids {
		g.Go(func() error {
			page, err := h.page(gctx, addr, id, 1)
			lacks[i] = err == nil && (len(page.Items) == 0 || page.Items[0].ID != id || page.Items[0].Deleted)
			return err
		})
	}
	err := g.Wait()
	snap := h.cfg.Views.Snapshot()
	more := false
	missing, _ := w.end(func(touched map[uint64]struct{}) {
		var news []uint64
		for i, id := range ids {
			_, written := touched[id]
			_, pending := snap.Pending(id)
			mem, known := snap.Member(id)
			if _, noted := w.missing[id]; lacks[i] && !noted && !written && !pending && known && slices.Contains(mem.Holders, addr) {
				if w.missing == nil {
					w.missing = map[uint64]struct{}{}
				}
				w.missing[id] = struct{}{}
				news = append(news, id)
			}
		}
		if more = len(news) > 0; more {
			w.notes.add(func() { h.cfg.Sightings.Lacks(addr, news...) })
		}
	})
	w.notes.flush()
	if more {
		h.log.Warn("slave does not have what it should hold", "addr", addr, "missing", missing)
	}
	return err
}

// Recompare asks for a comparison of the slave's inventory now.
func (h *Health) Recompare(addr string) {
	if w := h.slave(addr); w != nil {
		w.mu.Lock()
		w.asked++
		w.rest = time.Time{}
		w.mu.Unlock()
		w.wake()
	}
}

// RecompareSoon is Recompare for those who may ask with every query: comparisons of
// a slave that serves are restVisits of its visits apart.
func (h *Health) RecompareSoon(addr string) {
	if w := h.slave(addr); w != nil {
		w.mu.Lock()
		w.asked++
		w.mu.Unlock()
		w.wake()
	}
}

const restVisits = 10
