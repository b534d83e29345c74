package master

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
	"starfish/structs"
)

// maxShared bounds the ids of one join that others hold: each is asked for.
const maxShared = 10_000

// claimError refuses a join over ids.
type claimError struct {
	ids []uint64
	msg string
}

func (e *claimError) Error() string { return e.msg }

// joinStatic makes a C handler a holder of ids, besides those that it has; with
// req.Replace of those alone, and their only holder. What others hold is not taken
// on trust: the catalog's data is what queries were answered with.
func (m *Master) joinStatic(ctx context.Context, s catalog.Slave, ids []catalog.Span, req structs.JoinRequest, answer *structs.JoinAnswer) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	leave, err := m.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer leave()
	snap := m.cat.Snapshot()
	old, known := snap.Slave(s.Addr)
	had := snap.Spans(s.Addr)
	claim := catalog.Claim{IDs: ids, Alone: req.Replace}
	if !req.Replace {
		claim.IDs = catalog.MergeSpans(slices.Concat(had, ids))
	}
	if catalog.CountIDs(claim.IDs) > catalog.MaxStaticIDs {
		return fmt.Errorf("a C handler holds at most %d ids, these are more", catalog.MaxStaticIDs)
	}
	added, removed := catalog.SubtractSpans(claim.IDs, had), catalog.SubtractSpans(had, claim.IDs)
	ask := added // what others must not hold, or hold with the same content
	if req.Replace {
		ask = claim.IDs
	}
	if !req.Force && (!known || len(added) > 0) {
		if err := m.answers(ctx, s); err != nil {
			return err
		}
	}
	shared, unlock, err := m.lockShared(ctx, s.Addr, ask)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.mayShare(ctx, s.Addr, ask, shared, req.Replace); err != nil {
		return err
	}
	for _, mem := range shared {
		claim.Known = append(claim.Known, mem.ID)
	}
	if known && len(added) == 0 && len(removed) == 0 && len(shared) == 0 && s.Protocol == old.Protocol && samePriority(old.Priority, s.Priority) {
		return nil // again
	}
	if err := m.claim(ctx, s, claim, shared); err != nil {
		return err
	}
	answer.Added, answer.AddedTotal = wireSpans(added)
	answer.Removed, answer.RemovedTotal = wireSpans(removed)
	if req.Replace {
		answer.Taken = uint64(len(shared))
	} else {
		answer.Compared = uint64(len(shared))
	}
	m.log.Info("C handler joined", "addr", s.Addr, "added", answer.AddedTotal, "removed", answer.RemovedTotal, "compared", answer.Compared, "taken", answer.Taken)
	return nil
}

// takeTurn waits for the one place of those who change what C handlers hold.
func (m *Master) takeTurn(ctx context.Context) (leave func(), err error) {
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn }, nil
	case <-ctx.Done():
		return nil, errors.New("another join or removal is still running: nothing was changed, try again")
	}
}

// lockShared takes the turns of the ids that others hold, so that no write changes
// them before the claim. What is put meanwhile for the first time the catalog
// refuses to have claimed.
func (m *Master) lockShared(ctx context.Context, addr string, ids []catalog.Span) (shared []catalog.Member, unlock func(), err error) {
	find := func() (found []catalog.Member) {
		m.cat.Snapshot().Shared(addr, ids, func(mem catalog.Member) bool {
			found = append(found, mem)
			return len(found) <= maxShared
		})
		return found
	}
	before := find()
	if len(before) > maxShared {
		return nil, nil, fmt.Errorf("more than %d of the vectors are known already, the first is %d: join fewer of those at a time; nothing was changed", maxShared, before[0].ID)
	}
	var locks []func()
	unlock = func() {
		for _, f := range locks {
			f()
		}
	}
	locked := make(map[uint64]bool, len(before))
	for _, mem := range before {
		f, err := m.writes.Lock(ctx, mem.ID)
		if err != nil {
			unlock()
			return nil, nil, fmt.Errorf("a write of vector %d is still running: nothing was changed, try again", mem.ID)
		}
		locks = append(locks, f)
		locked[mem.ID] = true
	}
	shared = find() // as it is now that nothing can change it
	return slices.DeleteFunc(shared, func(mem catalog.Member) bool { return !locked[mem.ID] }), unlock, nil
}

// mayShare says whether addr may become a holder of what others hold: it has the
// same in it, or, to replace them, has something.
func (m *Master) mayShare(ctx context.Context, addr string, ids []catalog.Span, shared []catalog.Member, replace bool) error {
	snap := m.cat.Snapshot()
	for _, span := range ids {
		var err error
		snap.AscendIntents(span.First, span.Last, func(in *catalog.Intent) bool {
			err = fmt.Errorf("a write of vector %d is not finished: nothing was changed, try again", in.ID)
			return false
		})
		if err != nil {
			return err
		}
	}
	if m.cfg.NoOverlap && !replace && len(shared) > 0 {
		mem := shared[0]
		other := mem.Holders[slices.IndexFunc(mem.Holders, func(h string) bool { return h != addr })]
		return fmt.Errorf("overlap is off, and vector %d of %s is on %s already", mem.ID, addr, other)
	}
	if len(shared) == 0 {
		return nil
	}
	found, err := m.compare(ctx, addr, shared, replace)
	if err != nil {
		return fmt.Errorf("%s of the ids are known, and it could not be asked for them (%s): nothing was changed", idsOf(shared), peer.Reason(err))
	}
	return found.verdict(addr)
}

func idsOf(shared []catalog.Member) string {
	var ids []uint64
	for _, mem := range shared[:min(len(shared), 11)] {
		ids = append(ids, mem.ID)
	}
	return fault.Vectors(ids, uint64(len(shared)))
}

// claim writes the join down. It does not end with its caller: what was found out
// under locks is better used.
func (m *Master) claim(ctx context.Context, s catalog.Slave, claim catalog.Claim, shared []catalog.Member) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultDeadline)
	defer cancel()
	revision, err := m.cat.Claim(ctx, s, claim)
	switch {
	case errors.Is(err, catalog.ErrTaken):
		return fmt.Errorf("%w: it was put meanwhile; nothing was changed, try again", err)
	case err != nil:
		return err
	case !claim.Alone:
		return nil
	}
	snap := m.cat.Snapshot()
	for _, mem := range shared {
		var ours []string // a C handler deletes nothing
		for _, h := range mem.Holders {
			if other, _ := snap.Slave(h); other.Protocol == 2 {
				ours = append(ours, h)
			}
		}
		m.writes.Vacate(ours, catalog.Intent{ID: mem.ID, Revision: revision, Holders: []string{s.Addr}})
	}
	return nil
}

// wireSpans are the first spans, and how many ids are in all of them.
func wireSpans(spans []catalog.Span) (out []structs.IdRange, total uint64) {
	for _, s := range spans[:min(len(spans), structs.MAX_LISTED)] {
		out = append(out, structs.IdRange{First: s.First, Last: s.Last})
	}
	return out, catalog.CountIDs(spans)
}
