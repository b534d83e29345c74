package master

import (
	"context"
	"fmt"
	"slices"

	"starfish/catalog"
	"starfish/structs"
)

// vacate has those that held the id before, and shall not any more, forget it, in
// the background and after the queries that may still ask them for it. Who cannot
// be reached is swept when it is back.
func (m *Master) vacate(before []string, in catalog.Intent) {
	var past <-chan struct{}
	for _, h := range before {
		if slices.Contains(in.Holders, h) {
			continue
		}
		if past == nil {
			past = m.reads.past()
		}
		m.background(past, func(ctx context.Context) {
			gone := catalog.Intent{ID: in.ID, Revision: in.Revision, Op: catalog.Delete}
			if err := m.forget(ctx, h, gone); err != nil {
				m.log.Warn("old copy not removed yet", "addr", h, "id", in.ID, "err", err)
				m.mon.recompare(h)
			}
		})
	}
}

// sweep removes a copy that the slave should not have, if that is still so. Its
// revision plus one is at most the one that the vector was moved with. A copy of
// the revision that is served is never removed: it is the only one where a slave
// is started with the data of another, or under another address.
func (m *Master) sweep(ctx context.Context, addr string, it structs.InventoryItem) {
	unlock, ok := m.ids.tryLock(it.Id)
	if !ok {
		return // being written: the next comparison sees to it
	}
	defer unlock()
	snap := m.cat.Snapshot()
	mem, known := snap.Member(it.Id)
	if _, pending := snap.Pending(it.Id); pending || !known || slices.Contains(mem.Holders, addr) {
		return
	}
	written, err := m.cat.Revisions([]uint64{it.Id})
	if err != nil || it.Revision >= written[0] {
		return
	}
	if err := m.forget(ctx, addr, catalog.Intent{ID: it.Id, Revision: it.Revision + 1, Op: catalog.Delete}); err != nil {
		m.log.Warn("old copy not removed", "addr", addr, "id", it.Id, "err", err)
	}
}

// forget has a slave that is no holder erase its copy.
func (m *Master) forget(ctx context.Context, addr string, gone catalog.Intent) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	m.mon.touch(addr, gone.ID)
	res, err := m.change(ctx, addr, func(ctx context.Context, slave *structs.SlaveProgSlaveV2Client, secret structs.JoinSecret) (structs.RevisionResponse, error) {
		return slave.SlaveDelete(ctx, structs.EraseRequest{Id: gone.ID, Revision: gone.Revision, Secret: secret})
	})
	if err == nil && res.Status != structs.QUERY_OK {
		err = fmt.Errorf("%s refused it: %v: %s", addr, res.Status, res.Failure.Message)
	}
	return err
}
