package master

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
	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// finisher carries through, or undoes, the writes that a failure or the end of a
// master left open.
type finisher struct {
	m    *Master
	kick chan struct{}
	wg   sync.WaitGroup

	stalled stalled // writes that wait for a slave
	waits   string  // the slaves that the last round waited for; only for round
}

const (
	finishers   = 8               // writes resolved at a time
	finishRetry = 2 * time.Second // for a write that waits for a slave
)

func (f *finisher) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// start runs the finisher until ctx ends.
func (f *finisher) start(ctx context.Context) {
	f.wg.Go(func() {
		tick := time.NewTicker(finishRetry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.kick:
			case <-tick.C:
			}
			f.round(ctx)
		}
	})
}

// round tries each open write once, those apart that are on their way.
func (f *finisher) round(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(finishers)
	var mu sync.Mutex
	causes := map[string]error{} // by machine, of one write each
	for _, in := range f.m.cat.Snapshot().Intents() {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			unlock, ok := f.m.ids.tryLock(in.ID)
			if !ok {
				return nil
			}
			defer unlock()
			now, open := f.m.cat.Snapshot().Pending(in.ID)
			if !open {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
			defer cancel()
			if err := f.resolve(ctx, now); err != nil && f.m.ctx.Err() == nil {
				f.m.log.Debug("unfinished write waits", "id", in.ID, "revision", now.Revision, "err", err)
				f.stalled.note(now, err)
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
	f.stalled.prune(f.m.cat.Snapshot())
	f.tell(causes)
}

// tell logs for which slaves unfinished writes wait, where that has changed.
func (f *finisher) tell(causes map[string]error) {
	waits := strings.Join(sortedKeys(causes), ", ")
	if waits != f.waits && waits != "" {
		f.m.log.Warn("unfinished writes wait for slaves", "slaves", waits, "err", failures(causes))
	}
	f.waits = waits
}

// resolve ends an open write, whose id is locked: where a holder has its
// revision all get it; where all can be asked and none has it, it is undone.
// Else it waits: the error is an *openError.
func (f *finisher) resolve(ctx context.Context, in catalog.Intent) error {
	found, away := f.ask(ctx, in)
	var have, lack []string
	var newest uint64
	for _, h := range in.Holders {
		rev, ok := found[h]
		switch newest = max(newest, rev); {
		case ok && rev == in.Revision:
			f.m.cat.Confirm(in.ID, in.Revision, h)
			have = append(have, h)
		case ok:
			lack = append(lack, h)
		}
	}
	switch {
	case len(have) == 0 && away != nil:
		return away
	case len(have) == 0:
		return f.undo(ctx, in, newest)
	case newest > in.Revision && away != nil:
		return away
	case newest > in.Revision:
		return f.raise(ctx, in, have, newest)
	}
	before, _ := f.m.cat.Snapshot().Member(in.ID)
	if len(lack) > 0 {
		if err := f.spread(ctx, in, have, lack); err != nil {
			return err
		}
	}
	if away != nil {
		return away
	}
	if err := f.m.finish(ctx, in); err != nil {
		return fmt.Errorf("master: finish write %d of %d: %w", in.Revision, in.ID, err)
	}
	f.m.log.Info("unfinished write finished", "id", in.ID, "revision", in.Revision, "holders", strings.Join(in.Holders, " "))
	f.m.vacate(before.Holders, in)
	return nil
}

// ask returns the revision that each serving holder has; away names the others.
func (f *finisher) ask(ctx context.Context, in catalog.Intent) (found map[string]uint64, away error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	found = map[string]uint64{}
	var silent openError
	snap := f.m.cat.Snapshot()
	for _, h := range in.Holders {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			mu.Lock()
			silent.add(h, errNotServing)
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			page, err := f.m.mon.page(ctx, h, in.ID, 1)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				f.m.blameFor(h, err)
				silent.add(h, err)
			case len(page.Items) > 0 && page.Items[0].Id == in.ID:
				found[h] = page.Items[0].Revision
			default:
				found[h] = 0
			}
		})
	}
	wg.Wait()
	return found, silent.orNil()
}

// spread gives those that lack the write what those that have it hold.
func (f *finisher) spread(ctx context.Context, in catalog.Intent, have, lack []string) error {
	var body structs.RowBitmap
	if in.Op == catalog.Put {
		v, err := f.fetch(ctx, in.ID, have, written(in))
		if err != nil {
			return err
		}
		body = v.Rows
	}
	todo := in
	todo.Holders = lack
	return failures(f.m.sendAll(ctx, todo, body))
}

// written says of a stored vector that it is the one of the put.
func written(in catalog.Intent) func(structs.StoredVector) bool {
	return func(v structs.StoredVector) bool { return v.Revision == in.Revision && !v.Deleted }
}

// raise writes again, above the revision floor, what some have: another holder
// has something newer, from before the catalog.
func (f *finisher) raise(ctx context.Context, in catalog.Intent, have []string, floor uint64) error {
	var body structs.RowBitmap
	if in.Op == catalog.Put {
		v, err := f.fetch(ctx, in.ID, have, written(in))
		if err != nil {
			return err
		}
		body = v.Rows
	}
	before, _ := f.m.cat.Snapshot().Member(in.ID)
	in.Revision = floor
	in, err := f.rewrite(ctx, in, body)
	if err == nil {
		f.m.vacate(before.Holders, in)
	}
	return err
}

// rewrite carries a write through that replaces the open one.
func (f *finisher) rewrite(ctx context.Context, in catalog.Intent, body structs.RowBitmap) (catalog.Intent, error) {
	in, err := f.m.begin(ctx, in)
	if err != nil {
		return in, err
	}
	if err := failures(f.m.sendAll(ctx, in, body)); err != nil {
		return in, err
	}
	return in, f.m.finish(ctx, in)
}

// undo ends a write that no holder has. A slave that was stopped may still have
// it in a buffer, so to forget it is not enough: the vector as it was is written
// again under a newer revision, which a late one never replaces. An id that was
// not known gets a tombstone.
func (f *finisher) undo(ctx context.Context, in catalog.Intent, floor uint64) error {
	fence := catalog.Intent{ID: in.ID, Revision: floor, Op: catalog.Delete, Holders: in.Holders, Pinned: in.Pinned}
	var body structs.RowBitmap
	if mem, known := f.m.cat.Snapshot().Member(in.ID); known {
		v, err := f.fetch(ctx, in.ID, mem.Holders, func(v structs.StoredVector) bool { return !v.Deleted && v.Revision > 0 })
		if errors.Is(err, errNobodyHas) {
			// Lost before this write: nothing to put back.
			return f.m.cat.Abort(ctx, in.ID, in.Revision)
		}
		if err != nil {
			return err
		}
		body = v.Rows
		fence = catalog.Intent{ID: in.ID, Revision: floor, Op: catalog.Put, Holders: mem.Holders, Pinned: mem.Pinned, Name: mem.Name, Bytes: mem.Bytes}
	}
	if _, err := f.rewrite(ctx, fence, body); err != nil {
		return fmt.Errorf("master: undo write %d of %d: %w", in.Revision, in.ID, err)
	}
	f.m.log.Info("unfinished write undone", "id", in.ID, "revision", in.Revision)
	return nil
}

var errNotServing = errors.New("not serving")

var errNobodyHas = errors.New("master: no holder has the vector")

// fetch reads the vector from the first of the holders that has a good one. The
// error is errNobodyHas only where all of them answered.
func (f *finisher) fetch(ctx context.Context, id uint64, from []string, good func(structs.StoredVector) bool) (structs.StoredVector, error) {
	var silent openError
	snap := f.m.cat.Snapshot()
	for _, h := range from {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			silent.add(h, errNotServing)
			continue
		}
		var res structs.FetchResponse
		err := f.m.pool.Call(ctx, h, func(ctx context.Context, c rpc.Caller) (err error) {
			res, err = structs.NewSlaveProgSlaveV2Client(c).SlaveFetch(ctx, id)
			return err
		})
		switch {
		case err != nil:
			f.m.blameFor(h, err)
			silent.add(h, err)
		case res.Status != structs.QUERY_OK:
			silent.add(h, fmt.Errorf("%v: %s", res.Status, res.Failure.Message))
		case good(res.Vector):
			return res.Vector, nil
		}
	}
	if err := silent.orNil(); err != nil {
		return structs.StoredVector{}, err
	}
	return structs.StoredVector{}, errNobodyHas
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
		parts[i] = fmt.Sprintf("%s (%s)", m, reported(m, peer.Reason(e.causes[i])))
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
	slices.SortFunc(keys, catalog.CompareAddr)
	return keys
}
