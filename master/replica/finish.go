package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/fault"
	"starfish/machine"
	"starfish/peer"
)

const (
	finishers   = 8               // writes resolved at a time
	finishRetry = 2 * time.Second // for a write that waits for a slave
)

// Wake asks for a round over the open writes: a machine may be back that one of
// them waits for.
func (r *Replica) Wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Start ends open writes, those that a failure or the end of a master left, until
// the context of New ends.
func (r *Replica) Start() {
	r.bg.Go(func() {
		tick := time.NewTicker(finishRetry)
		defer tick.Stop()
		for {
			select {
			case <-r.ctx.Done():
				return
			case <-r.kick:
			case <-tick.C:
			}
			r.round(r.ctx)
		}
	})
}

// round tries each open write once, those apart that are on their way.
func (r *Replica) round(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(finishers)
	var mu sync.Mutex
	causes := map[string]error{} // by machine, of one write each
	for _, in := range r.cfg.Views.Snapshot().Intents() {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			unlock, ok := r.ids.tryLock(in.ID)
			if !ok {
				return nil
			}
			defer unlock()
			now, open := r.cfg.Views.Snapshot().Pending(in.ID)
			if !open {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
			defer cancel()
			if err := r.resolve(ctx, now); err != nil && r.ctx.Err() == nil {
				r.log.Debug("unfinished write waits", "id", in.ID, "revision", now.Revision, "err", err)
				r.stalled.note(now, err)
				mu.Lock()
				defer mu.Unlock()
				for _, machine := range machinesOf(err) {
					causes[machine] = err
				}
			}
			return nil
		})
	}
	g.Wait()
	r.stalled.prune(r.cfg.Views.Snapshot())
	r.tell(causes)
}

// tell logs for which slaves unfinished writes wait, where that has changed.
func (r *Replica) tell(causes map[string]error) {
	waits := strings.Join(sortedKeys(causes), ", ")
	if waits != r.waits && waits != "" {
		r.log.Warn("unfinished writes wait for slaves", "slaves", waits, "err", failures(causes))
	}
	r.waits = waits
}

// resolve ends an open write, whose id is locked: where a holder has its
// revision all get it; where all can be asked and none has it, it is undone.
// Else it waits: the error is an *openError.
func (r *Replica) resolve(ctx context.Context, in catalog.Intent) error {
	found, away := r.ask(ctx, in)
	var have, lack []string
	var newest uint64
	for _, h := range in.Holders {
		rev, ok := found[h]
		switch newest = max(newest, rev); {
		case ok && rev == in.Revision:
			r.cfg.Views.Confirm(in.ID, in.Revision, h)
			have = append(have, h)
		case ok:
			lack = append(lack, h)
		}
	}
	switch {
	case len(have) == 0 && away != nil:
		return away
	case len(have) == 0:
		return r.undo(ctx, in, newest)
	case newest > in.Revision && away != nil:
		return away
	case newest > in.Revision:
		return r.raise(ctx, in, have, newest)
	}
	before, _ := r.cfg.Views.Snapshot().Member(in.ID)
	if len(lack) > 0 {
		if err := r.spread(ctx, in, have, lack); err != nil {
			return err
		}
	}
	if away != nil {
		return away
	}
	if err := r.finish(ctx, in); err != nil {
		return fmt.Errorf("replica: finish write %d of %d: %w", in.Revision, in.ID, err)
	}
	r.log.Info("unfinished write finished", "id", in.ID, "revision", in.Revision, "holders", strings.Join(in.Holders, " "))
	r.Vacate(before.Holders, in)
	return nil
}

// ask returns the revision that each serving holder has; away names the others.
func (r *Replica) ask(ctx context.Context, in catalog.Intent) (found map[string]uint64, away error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	found = map[string]uint64{}
	var silent openError
	snap := r.cfg.Views.Snapshot()
	for _, h := range in.Holders {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			mu.Lock()
			silent.add(h, errNotServing)
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			page, err := r.look(ctx, h, in.ID)
			if err != nil {
				r.blameFor(h, err) // which tells the catalog: not under the lock
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				silent.add(h, err)
			case len(page.Items) > 0 && page.Items[0].ID == in.ID:
				found[h] = page.Items[0].Revision
			default:
				found[h] = 0
			}
		})
	}
	wg.Wait()
	return found, silent.orNil()
}

// look is the slave's inventory from the id on, one item of it.
func (r *Replica) look(ctx context.Context, addr string, id uint64) (peer.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
	defer cancel()
	return r.cfg.Copies.Inventory(ctx, addr, id, 1)
}

// spread gives those that lack the write what those that have it hold.
func (r *Replica) spread(ctx context.Context, in catalog.Intent, have, lack []string) error {
	var body peer.Rows
	if in.Op == catalog.Put {
		v, err := r.Fetch(ctx, in.ID, have, written(in))
		if err != nil {
			return err
		}
		body = v.Rows
	}
	todo := in
	todo.Holders = lack
	return failures(r.sendAll(ctx, todo, body))
}

// written says of a stored vector that it is the one of the put.
func written(in catalog.Intent) func(peer.Stored) bool {
	return func(v peer.Stored) bool { return v.Revision == in.Revision && !v.Deleted }
}

// raise writes again, above the revision floor, what some have: another holder
// has something newer, from before the catalog.
func (r *Replica) raise(ctx context.Context, in catalog.Intent, have []string, floor uint64) error {
	var body peer.Rows
	if in.Op == catalog.Put {
		v, err := r.Fetch(ctx, in.ID, have, written(in))
		if err != nil {
			return err
		}
		body = v.Rows
	}
	before, _ := r.cfg.Views.Snapshot().Member(in.ID)
	in.Revision = floor
	in, err := r.rewrite(ctx, in, body)
	if err == nil {
		r.Vacate(before.Holders, in)
	}
	return err
}

// rewrite carries a write through that replaces the open one.
func (r *Replica) rewrite(ctx context.Context, in catalog.Intent, body peer.Rows) (catalog.Intent, error) {
	in, err := r.begin(ctx, in)
	if err != nil {
		return in, err
	}
	if err := failures(r.sendAll(ctx, in, body)); err != nil {
		return in, err
	}
	return in, r.finish(ctx, in)
}

// undo ends a write that no holder has. A slave that was stopped may still have
// it in a buffer, so to forget it is not enough: the vector as it was is written
// again under a newer revision, which a late one never replaces. An id that was
// not known gets a tombstone.
func (r *Replica) undo(ctx context.Context, in catalog.Intent, floor uint64) error {
	fence := catalog.Intent{ID: in.ID, Revision: floor, Op: catalog.Delete, Holders: in.Holders, Pinned: in.Pinned}
	var body peer.Rows
	if mem, known := r.cfg.Views.Snapshot().Member(in.ID); known {
		v, err := r.Fetch(ctx, in.ID, mem.Holders, func(v peer.Stored) bool { return !v.Deleted && v.Revision > 0 })
		if errors.Is(err, errNobodyHas) {
			// Lost before this write: nothing to put back.
			return r.cfg.Intents.Abort(ctx, in.ID, in.Revision)
		}
		if err != nil {
			return err
		}
		body = v.Rows
		fence = catalog.Intent{ID: in.ID, Revision: floor, Op: catalog.Put, Holders: mem.Holders, Pinned: mem.Pinned, Name: mem.Name, Bytes: mem.Bytes}
	}
	if _, err := r.rewrite(ctx, fence, body); err != nil {
		return fmt.Errorf("replica: undo write %d of %d: %w", in.Revision, in.ID, err)
	}
	r.log.Info("unfinished write undone", "id", in.ID, "revision", in.Revision)
	return nil
}

var errNotServing = errors.New("not serving")

var errNobodyHas = errors.New("replica: no holder has the vector")

// Fetch reads the vector from the first of the holders that has a good one. The
// error is errNobodyHas only where all of them answered.
func (r *Replica) Fetch(ctx context.Context, id uint64, from []string, good func(peer.Stored) bool) (peer.Stored, error) {
	var silent openError
	snap := r.cfg.Views.Snapshot()
	for _, h := range from {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			silent.add(h, errNotServing)
			continue
		}
		v, err := r.cfg.Copies.Fetch(ctx, h, id)
		switch f := fault.Of(err); {
		case f != nil:
			silent.add(h, fmt.Errorf("%v: %w", f.Kind, err))
		case err != nil:
			r.blameFor(h, err)
			silent.add(h, err)
		case good(v):
			return v, nil
		}
	}
	if err := silent.orNil(); err != nil {
		return peer.Stored{}, err
	}
	return peer.Stored{}, errNobodyHas
}

// openError is a write that cannot be ended before some machines answer.
type openError struct {
	machines []string
	causes   []error
}

// add takes over what another such error says, each machine once.
func (e *openError) add(machine string, cause error) {
	var several *openError
	if errors.As(cause, &several) {
		for i, m := range several.machines {
			if !slices.Contains(e.machines, m) {
				e.add(m, several.causes[i])
			}
		}
		return
	}
	e.machines = append(e.machines, machine)
	e.causes = append(e.causes, cause)
}

func (e *openError) orNil() error {
	if len(e.machines) == 0 {
		return nil
	}
	return e
}

// Error is for people: users read it in the answer to a write.
func (e *openError) Error() string {
	parts := make([]string, len(e.machines))
	for i, m := range e.machines {
		parts[i] = fmt.Sprintf("%s (%s)", m, fault.SaidOf(m, peer.Reason(e.causes[i])))
	}
	return strings.Join(parts, ", ")
}

func (e *openError) Unwrap() []error { return e.causes }

// failures makes one error of those of several machines.
func failures(errs map[string]error) error {
	var e openError
	for _, h := range sortedKeys(errs) {
		e.add(h, errs[h])
	}
	return e.orNil()
}

// machinesOf returns the machines that an *openError waits for.
func machinesOf(err error) []string {
	var e *openError
	if errors.As(err, &e) {
		return e.machines
	}
	return nil
}

func sortedKeys(errs map[string]error) []string {
	keys := make([]string, 0, len(errs))
	for h := range errs {
		keys = append(keys, h)
	}
	slices.SortFunc(keys, machine.CompareSpelled)
	return keys
}
