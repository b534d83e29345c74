package master

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/rpc"
	"starfish/structs"
)

// inventory is what comparing a slave with the catalog has found; it is guarded
// by watched.mu. Writes go on during a comparison, and one page is older than
// the next, so the ids that a write touches meanwhile are left out of the result.
type inventory struct {
	missing  []uint64 // ascending: ids that the slave should hold and does not have
	setAside uint64   // ids that it has and the catalog does not know
	scans    int      // comparisons running
	touched  map[uint64]struct{}
}

// findings of one comparison.
type findings struct {
	missing  []uint64
	stale    []uint64 // of missing: it has an older revision than the one that was acknowledged
	setAside []uint64
	strays   []structs.InventoryItem // known ids that the slave has and should not hold, in revisions of before
}

// compare pulls the slave's inventory where that was asked for, or where the
// slave is another process than the one that was compared.
func (o *monitor) compare(w *watched, st catalog.State) error {
	w.mu.Lock()
	asked, compared, instance := w.asked, w.compared, w.instance
	rests := time.Now().Before(w.rest)
	w.mu.Unlock()
	if st == catalog.Serving && (rests || asked == compared) {
		return nil
	}
	if asked == compared {
		page, err := o.page(o.ctx, w.addr, 0, 1)
		if err != nil {
			return err
		}
		if page.Instance == instance {
			return o.twin(w, instance)
		}
	}

	w.begin()
	found, instance, err := o.scan(w.addr)
	if err != nil {
		w.end(nil)
		return err
	}
	w.mu.Lock()
	w.compared, w.instance = asked, instance
	w.rest = time.Now().Add(restVisits * o.m.cfg.ProbeInterval)
	w.mu.Unlock()
	if err := o.twin(w, instance); err != nil {
		w.end(nil)
		return err
	}
	missing, setAside := w.end(func(touched map[uint64]struct{}) {
		untouched := func(ids []uint64) []uint64 {
			return slices.DeleteFunc(ids, func(id uint64) bool { _, ok := touched[id]; return ok })
		}
		w.missing, w.setAside = untouched(found.missing), uint64(len(untouched(found.setAside)))
		found.stale = untouched(found.stale)
		o.m.cat.SetInventory(w.addr, w.missing, w.setAside)
	})
	o.m.log.Info("inventory compared", "addr", w.addr, "missing", missing, "set_aside", setAside)
	if len(found.stale) > 0 {
		o.m.log.Warn("slave has older revisions than were acknowledged, which count as missing: was its data put back from a copy? put the vectors again",
			"addr", w.addr, "vectors", len(found.stale))
	}
	for _, it := range found.strays {
		o.m.sweep(o.ctx, w.addr, it)
	}
	return nil
}

// scan compares all that the slave has with all that the catalog says.
func (o *monitor) scan(addr string) (found findings, instance uint64, err error) {
	for first := uint64(0); ; {
		snap := o.m.cat.Snapshot() // older than the page: what it says is on disk there
		page, err := o.page(o.ctx, addr, first, 0)
		if err != nil {
			return found, 0, err
		}
		if instance != 0 && instance != page.Instance {
			return found, 0, fmt.Errorf("master: %s was started anew while its inventory was read", addr)
		}
		instance = page.Instance
		last := uint64(math.MaxUint64)
		if n := len(page.Items); page.More && n > 0 {
			last = page.Items[n-1].Id
		}
		ids := make([]uint64, len(page.Items))
		for i, it := range page.Items {
			ids[i] = it.Id
		}
		written, err := o.m.cat.Revisions(ids)
		if err != nil {
			return found, 0, fmt.Errorf("master: inventory of %s: %w", addr, err)
		}
		found.merge(snap, addr, first, last, page.Items, written)
		if !page.More || last == math.MaxUint64 {
			return found, instance, nil
		}
		first = last + 1
	}
}

// page fetches a part of the slave's inventory and checks its order.
func (o *monitor) page(ctx context.Context, addr string, first uint64, limit uint32) (structs.InventoryPage, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	var res structs.InventoryResponse
	err := o.m.pool.Call(ctx, addr, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV2Client(c).SlaveInventory(ctx, structs.InventoryRequest{FirstId: first, MaxItems: limit})
		return err
	})
	if err != nil {
		return structs.InventoryPage{}, fmt.Errorf("master: inventory of %s: %w", addr, err)
	}
	if res.Status != structs.QUERY_OK {
		return structs.InventoryPage{}, fmt.Errorf("master: inventory of %s: %v: %s", addr, res.Status, res.Failure.Message)
	}
	items := res.Page.Items
	ascending := slices.IsSortedFunc(items, func(a, b structs.InventoryItem) int {
		if a.Id < b.Id {
			return -1
		}
		return 1
	})
	if !ascending || len(items) > 0 && items[0].Id < first || len(items) == 0 && res.Page.More {
		return structs.InventoryPage{}, fmt.Errorf("master: inventory of %s: a page from id %d is out of order", addr, first)
	}
	return res.Page, nil
}

// merge compares the ids from lo to hi; written has the revision that each of the
// items should have at least. One that is lower is of a copy of the slave's data
// from before a write, and as good as missing.
func (f *findings) merge(snap *catalog.Snapshot, addr string, lo, hi uint64, items []structs.InventoryItem, written []uint64) {
	next := 0
	unknown := func(it structs.InventoryItem) {
		if _, pending := snap.Pending(it.Id); !it.Deleted && !pending {
			f.setAside = append(f.setAside, it.Id)
		}
	}
	snap.Ascend(lo, hi, func(mem catalog.Member) bool {
		for ; next < len(items) && items[next].Id < mem.ID; next++ {
			unknown(items[next])
		}
		has, stale := false, false
		var it structs.InventoryItem
		if next < len(items) && items[next].Id == mem.ID {
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

// touch notes that a write of id is about to be sent to the slave.
func (o *monitor) touch(addr string, id uint64) {
	w := o.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.scans > 0 {
		w.touched[id] = struct{}{}
	}
}

// arrived notes that the slave has id on disk, whatever was missing before.
func (o *monitor) arrived(addr string, id uint64) {
	w := o.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, ok := slices.BinarySearch(w.missing, id); ok {
		w.missing = slices.Delete(slices.Clone(w.missing), i, i+1)
		o.m.cat.SetInventory(addr, w.missing, w.setAside)
	}
}

// verify looks whether the slave really lacks the ids that it said it does not
// hold, and notes those as missing. The answer may be about a time before a
// write, so it is not taken at its word.
func (o *monitor) verify(ctx context.Context, addr string, ids []uint64) error {
	w := o.slave(addr)
	if w == nil {
		return nil
	}
	w.begin()
	lacks := make([]bool, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, id := range ids {
		g.Go(func() error {
			page, err := o.page(gctx, addr, id, 1)
			lacks[i] = err == nil && (len(page.Items) == 0 || page.Items[0].Id != id || page.Items[0].Deleted)
			return err
		})
	}
	err := g.Wait()
	w.end(func(touched map[uint64]struct{}) {
		snap := o.m.cat.Snapshot()
		missing := slices.Clone(w.missing)
		for i, id := range ids {
			_, written := touched[id]
			_, pending := snap.Pending(id)
			mem, known := snap.Member(id)
			if lacks[i] && !written && !pending && known && slices.Contains(mem.Holders, addr) {
				missing = append(missing, id)
			}
		}
		slices.Sort(missing)
		if missing = slices.Compact(missing); len(missing) > len(w.missing) {
			w.missing = missing
			o.m.cat.SetInventory(addr, w.missing, w.setAside)
			o.m.log.Warn("slave does not have what it should hold", "addr", addr, "missing", len(missing))
		}
	})
	return err
}
