package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
)

// Put is a vector to be stored.
type Put struct {
	ID      uint64
	Rows    peer.Rows // valid, in the roaring format
	Holders []string  // pins the vector to these slaves; none: placement decides
}

// write is one put or delete on its way.
type write struct {
	*Replica
	op     catalog.Op
	id     uint64
	body   peer.Rows // of a put
	pins   []string
	intent catalog.Intent // once begun
}

// Put stores a vector on all its holders, and returns its revision. The error is a
// *fault.Error.
func (r *Replica) Put(ctx context.Context, p Put) (revision uint64, err error) {
	return (&write{Replica: r, op: catalog.Put, id: p.ID, body: p.Rows, pins: p.Holders}).run(ctx)
}

// Erase makes the id an unknown one. The error is a *fault.Error.
func (r *Replica) Erase(ctx context.Context, id uint64) (revision uint64, err error) {
	return (&write{Replica: r, op: catalog.Delete, id: id}).run(ctx)
}

// fail is the error of a write that did not succeed.
func (w *write) fail(kind fault.Kind, machines []string, format string, args ...any) *fault.Error {
	op := "put"
	if w.op == catalog.Delete {
		op = "delete"
	}
	return fault.New(kind, "%s of %d: %s", op, w.id, fmt.Sprintf(format, args...)).About(1, w.id).On(machines...)
}

// unfinished is the error of a write that not all of its holders acknowledged.
func (w *write) unfinished(errs map[string]error) error {
	whom := "it"
	if len(errs) > 1 {
		whom = "they"
	}
	return w.fail(fault.ErrUnavailable, sortedKeys(errs),
		"not acknowledged by %v: it may or may not have happened; it is finished or undone once %s can be asked", failures(errs), whom)
}

// run carries the write through, also when its caller goes away meanwhile: what
// was begun is better finished now than in a later round.
func (w *write) run(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Deadline)
	defer cancel()
	unlock, err := w.ids.lock(ctx, w.id)
	if err != nil {
		return 0, w.fail(fault.ErrDeadline, nil, "another write of it is still running: nothing was changed, try again")
	}
	defer unlock()
	if in, open := w.cfg.Views.Snapshot().Pending(w.id); open {
		// One intent an id: the earlier write comes to its end first, so that a
		// revision is never skipped that some reader has seen.
		w.cfg.Health.AwaitVerdicts(ctx, in.Holders)
		if err := w.resolve(ctx, in); err != nil {
			return 0, w.fail(fault.ErrUnavailable, machinesOf(err), "an earlier write of it is not finished (%v): nothing was changed, try again when the slave is back", err)
		}
	}
	in, err := w.place(ctx)
	if err != nil {
		return 0, err
	}
	before, _ := w.cfg.Views.Snapshot().Member(w.id)
	errs, err := w.send(ctx, in)
	switch {
	case err != nil:
		return 0, err
	case len(errs) > 0:
		w.Wake()
		return 0, w.unfinished(errs)
	}
	if err := w.finish(ctx, w.intent); err != nil {
		w.log.Error("finish of a write", "id", w.id, "err", err)
		w.Wake()
		return 0, w.fail(fault.ErrFailed, nil, "the catalog could not note its end (%v): it may or may not have happened", err)
	}
	w.Vacate(before.Holders, w.intent)
	return w.intent.Revision, nil
}

// send notes the intent and takes it to its holders, whose errors it returns. Where
// one has a newer revision, from before the catalog, the write is begun anew above
// that one; w.intent is the last that was begun.
func (w *write) send(ctx context.Context, in catalog.Intent) (errs map[string]error, err error) {
	for range maxRaised {
		if w.intent, err = w.begin(ctx, in); errors.Is(err, catalog.ErrStatic) { // it has joined meanwhile
			return nil, w.fail(fault.ErrFailed, nil, "%v: nothing was changed, try again", err)
		} else if err != nil {
			w.log.Error("begin of a write", "id", w.id, "err", err)
			w.Wake()
			return nil, w.fail(fault.ErrFailed, nil, "the catalog could not note it (%v): it may or may not happen", err)
		}
		errs = w.sendAll(ctx, w.intent, w.body)
		if in.Revision = newest(errs); in.Revision == 0 {
			break
		}
	}
	return errs, nil
}

// place decides who shall have the write, and waits for those of whom it is not
// known yet whether they serve. On failure nothing was changed.
func (w *write) place(ctx context.Context) (catalog.Intent, error) {
	in := catalog.Intent{ID: w.id, Op: w.op, Bytes: uint64(len(w.body.Roaring))}
	mem, known := w.cfg.Views.Snapshot().Member(w.id)
	if w.op == catalog.Delete && !known {
		return in, w.fail(fault.ErrNoSuchVector, nil, "there is no such vector")
	}
	holders, pinned, err := w.holders(ctx)
	if handler := w.handler(mem); handler != "" {
		return in, w.fail(fault.ErrFailed, nil, readOnly, handler, handler)
	}
	switch {
	case errors.Is(err, catalog.ErrNoSlaves):
		return in, w.fail(fault.ErrUnavailable, nil, "no slave has joined that could hold it: start one with bin/slave --master HOST --addr ADDR --data DIR")
	case errors.Is(err, catalog.ErrUnknownSlave):
		return in, w.fail(fault.ErrFailed, nil, "%v: starfish status lists the slaves", err)
	case errors.Is(err, catalog.ErrStatic):
		return in, w.fail(fault.ErrFailed, nil, "%v: what a C handler holds is changed on its own host", err)
	case err != nil:
		return in, w.fail(fault.ErrFailed, nil, "%v", err)
	case w.cfg.NoOverlap && len(holders) > 1:
		return in, w.fail(fault.ErrFailed, nil, "overlap is off, so it has one holder and not %s", strings.Join(holders, ", "))
	}
	in.Holders, in.Pinned, in.Name = slices.Clone(holders), pinned, mem.Name
	var down []string // or in doubt until the end
	var why string
	snap := w.cfg.Views.Snapshot()
	for _, h := range holders {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			down = append(down, h)
			why = s.Problem
		}
	}
	if len(down) > 0 {
		return in, w.fail(fault.ErrUnavailable, down, "its holder %s is not serving (%s): nothing was changed; start it again, or name other holders with --on",
			strings.Join(down, ", "), why)
	}
	return in, nil
}

const readOnly = "the C handler %s holds it, so it is read-only: nothing was changed; what a C handler holds is changed on its own host, or after starfish remove %s"

// handler is a C handler that holds the vector, "" where none does.
func (r *Replica) handler(mem catalog.Member) string {
	snap := r.cfg.Views.Snapshot()
	for _, h := range mem.Holders {
		if s, _ := snap.Slave(h); s.Protocol == 1 {
			return h
		}
	}
	return ""
}

// holders returns who shall have the write, once it is known whether they serve:
// on that it depends where a new slot is drawn.
func (w *write) holders(ctx context.Context) (holders []string, pinned bool, err error) {
	for {
		holders, pinned, err = w.cfg.Views.Snapshot().HoldersFor(w.id, w.pins, w.cfg.Replicas)
		if err != nil || !w.cfg.Health.AwaitVerdicts(ctx, holders) {
			return holders, pinned, err
		}
	}
}

// finish makes an open write the state of its id, which is locked.
func (r *Replica) finish(ctx context.Context, in catalog.Intent) error {
	err := r.cfg.Intents.Finish(ctx, in.ID, in.Revision)
	if err == nil && in.Op == catalog.Delete {
		r.cfg.Queries.Erased(in.Revision)
	}
	return err
}
