package delegate

import (
	"context"
	"fmt"
	"slices"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
	"starfish/router"
)

// judge looks at what the legs did not have, by the catalog of now; "": the answer
// without it is right, else why it is not. A tombstone alone proves nothing, a copy
// that was moved away leaves one, too. An id is empty where
//   - a plan of now would not have it: it was deleted since ours was made, or
//   - the tombstone is that of a delete that was finished while this query ran, and
//     the id was put again since.
//
// For anything else the plan is made again: the vector is elsewhere by now, or the
// machine has lost it and is not asked for it any more.
func (r *run) judge(ctx context.Context, p *planned, absent []peer.Absent) (why string) {
	if len(absent) == 0 {
		return ""
	}
	asked := askedOf(p.Plan, absent)
	r.confirmDeletes(asked, absent)
	snap := r.cfg.Views.Snapshot()
	lost := map[string][]uint64{}
	for _, v := range absent {
		machine, ok := asked[v.ID]
		if !ok || !router.Shown(snap, v.ID) || r.reads.erasedSince(r.read, v.Revision) {
			continue
		}
		why = fmt.Sprintf("%s does not have vector %d, which is known", machine, v.ID)
		if holds(snap, machine, v.ID) && !slices.Contains(lost[machine], v.ID) {
			lost[machine] = append(lost[machine], v.ID)
		}
	}
	for machine, ids := range lost {
		r.lost(ctx, machine, ids, fmt.Sprintf("it does not hold %s", fault.Vectors(ids, uint64(len(ids)))))
	}
	return why
}

// askedOf returns the machine that the plan takes each of the vectors from.
func askedOf(plan *router.Plan, absent []peer.Absent) map[uint64]string {
	want := make(map[uint64]bool, len(absent))
	for _, v := range absent {
		want[v.ID] = true
	}
	asked := make(map[uint64]string, len(absent))
	for _, rg := range plan.Ranges {
		for _, leg := range rg.Legs {
			for _, id := range leg.IDs {
				if want[id] {
					asked[id] = leg.Machine
				}
			}
		}
	}
	return asked
}

// confirmDeletes notes that a machine has the tombstone of an open delete: it is as
// good as its acknowledgement, and what one query saw no later one sees undone.
func (r *run) confirmDeletes(asked map[uint64]string, absent []peer.Absent) {
	snap := r.cfg.Views.Snapshot()
	for _, v := range absent {
		if in, open := snap.Pending(v.ID); open && in.Op == catalog.Delete && in.Revision == v.Revision {
			r.cfg.Views.Confirm(v.ID, v.Revision, asked[v.ID])
		}
	}
}

// holds says that by the catalog the machine has the vector, and no write to it is
// open.
func holds(snap *catalog.Snapshot, machine string, id uint64) bool {
	mem, known := snap.Member(id)
	_, open := snap.Pending(id)
	return known && !open && slices.Contains(mem.Holders, machine) && !snap.IsMissing(machine, id)
}

// missed judges a machine that answered ErrNotHeld: more than an answer can name is
// absent, or it names nothing. It says why the query is planned again.
func (r *run) missed(ctx context.Context, addr string, p *planned, f *fault.Error) (why string) {
	r.problem = addr + ": " + fault.SaidOf(addr, f.Message)
	if len(f.IDs) == 0 {
		if len(f.Machines) == 1 {
			addr = f.Machines[0]
		}
		r.cfg.Inventory.RecompareSoon(addr)
		r.drop(addr, fault.SaidOf(addr, f.Message))
		return r.problem
	}
	absent := make([]peer.Absent, len(f.IDs))
	for i, id := range f.IDs {
		absent[i].ID = id
	}
	r.judge(ctx, p, absent)
	return r.problem
}

// lost has a machine looked at that does not have what it should hold: these ids
// where they are few, else all that it has. What is missing is not routed there
// any more. A machine whose word is not confirmed by its own inventory would be
// asked again and again, so it is given up after a few times.
func (r *run) lost(ctx context.Context, machine string, ids []uint64, why string) {
	if r.notHeld == nil {
		r.notHeld = map[string]int{}
	}
	r.notHeld[machine]++
	if len(ids) > maxVerify {
		r.cfg.Inventory.RecompareSoon(machine)
		r.drop(machine, why)
		return
	}
	if r.notHeld[machine] >= maxNotHeld {
		r.drop(machine, why)
		return
	}
	if err := r.cfg.Inventory.Verify(ctx, machine, ids); err != nil {
		r.drop(machine, peer.Reason(err))
	}
}

const maxVerify = 64 // ids that are looked for one by one
