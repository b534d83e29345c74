package master

import (
	"context"
	"fmt"
	"slices"

	"starfish/catalog"
	"starfish/peer"
	"starfish/router"
	"starfish/structs"
)

// judge looks at what the legs did not have, by the catalog of now; true: the
// answer without it is right. A tombstone alone proves nothing, a copy that was
// moved away leaves one, too. An id is empty where
//   - a plan of now would not have it: it was deleted since ours was made, or
//   - the tombstone is that of a delete that was finished while this query ran, and
//     the id was put again since.
//
// For anything else the plan is made again: the vector is elsewhere by now, or the
// machine has lost it and is not asked for it any more.
func (r *run) judge(ctx context.Context, plan *router.Plan, absent []structs.AbsentVector) bool {
	if len(absent) == 0 {
		return true
	}
	asked := askedOf(plan, absent)
	r.confirmDeletes(asked, absent)
	snap := r.m.cat.Snapshot()
	stands := true
	lost := map[string][]uint64{}
	for _, v := range absent {
		machine, ok := asked[v.Id]
		if !ok || !router.Shown(snap, v.Id) || r.m.reads.erasedSince(r.read, v.Revision) {
			continue
		}
		stands = false
		if holds(snap, machine, v.Id) && !slices.Contains(lost[machine], v.Id) {
			lost[machine] = append(lost[machine], v.Id)
		}
	}
	for machine, ids := range lost {
		r.lost(ctx, machine, ids, fmt.Sprintf("it does not hold %s", idList(ids, uint64(len(ids)))))
	}
	return stands
}

// askedOf returns the machine that the plan takes each of the vectors from.
func askedOf(plan *router.Plan, absent []structs.AbsentVector) map[uint64]string {
	want := make(map[uint64]bool, len(absent))
	for _, v := range absent {
		want[v.Id] = true
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
func (r *run) confirmDeletes(asked map[uint64]string, absent []structs.AbsentVector) {
	snap := r.m.cat.Snapshot()
	for _, v := range absent {
		if in, open := snap.Pending(v.Id); open && in.Op == catalog.Delete && in.Revision == v.Revision {
			r.m.cat.Confirm(v.Id, v.Revision, asked[v.Id])
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

// missed judges a QUERY_NOT_HELD: more than an answer can name is absent, or the
// machine names nothing.
func (r *run) missed(ctx context.Context, addr string, plan *router.Plan, f structs.QueryFailure) {
	r.problem = addr + ": " + reported(addr, f.Message)
	if len(f.Vectors) == 0 {
		if len(f.FailedMachines) == 1 {
			addr = string(f.FailedMachines[0])
		}
		r.m.mon.recompareSoon(addr)
		r.drop(addr, reported(addr, f.Message))
		return
	}
	absent := make([]structs.AbsentVector, len(f.Vectors))
	for i, id := range f.Vectors {
		absent[i].Id = id
	}
	r.judge(ctx, plan, absent)
}

// lost has a machine looked at that does not have what it should hold: these ids
// where they are few, else all that it has. What is missing is not routed there
// any more.
func (r *run) lost(ctx context.Context, machine string, ids []uint64, why string) {
	if r.notHeld == nil {
		r.notHeld = map[string]int{}
	}
	r.notHeld[machine]++
	if len(ids) > maxVerify {
		r.m.mon.recompareSoon(machine)
		r.drop(machine, why)
		return
	}
	if r.notHeld[machine] >= maxNotHeld {
		r.drop(machine, why)
		return
	}
	if err := r.m.mon.verify(ctx, machine, ids); err != nil {
		r.drop(machine, peer.Reason(err))
	}
}

const maxVerify = 64 // ids that are looked for one by one
