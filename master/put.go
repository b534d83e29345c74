package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"starfish/catalog"
	"starfish/rows"
	"starfish/structs"
)

// write is one put or delete on its way.
type write struct {
	m      *Master
	op     catalog.Op
	id     uint64
	body   structs.RowBitmap // of a put, in the roaring format
	pins   []string
	intent catalog.Intent // once begun
}

// put stores a vector on all its holders.
func (m *Master) put(ctx context.Context, req structs.PutRequest) structs.PutResponse {
	if req.Name != "" {
		return refuse(structs.QUERY_FAILED, "names are not supported yet: put the vector by its id alone", req.Id)
	}
	if req.Rows.Format == structs.BITMAP_NONE {
		return refuse(structs.QUERY_FAILED, fmt.Sprintf("put of %d has no rows: send them as words or roaring; an empty vector is an empty bitmap", req.Id), req.Id)
	}
	b, err := rows.Decode(&req.Rows)
	if err != nil {
		return refuse(structs.QUERY_FAILED, fmt.Sprintf("put of %d: the rows are not a valid bitmap: %v", req.Id, err), req.Id)
	}
	w := &write{m: m, op: catalog.Put, id: req.Id}
	if w.body, err = rows.Encode(b, structs.BITMAP_ROARING); err != nil {
		return refuse(structs.QUERY_TOO_LARGE, fmt.Sprintf("put of %d: %v", req.Id, err), req.Id)
	}
	for _, h := range req.Holders {
		w.pins = append(w.pins, string(h))
	}
	return w.run(ctx)
}

// erase makes the id an unknown one.
func (m *Master) erase(ctx context.Context, id uint64) structs.PutResponse {
	return (&write{m: m, op: catalog.Delete, id: id}).run(ctx)
}

// run carries the write through, also when its caller goes away meanwhile: what
// was begun is better finished now than by the finisher.
func (w *write) run(ctx context.Context) structs.PutResponse {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultDeadline)
	defer cancel()
	unlock, err := w.m.ids.lock(ctx, w.id)
	if err != nil {
		return w.fail(structs.QUERY_DEADLINE, nil, "another write of it is still running: nothing was changed, try again")
	}
	defer unlock()
	if in, open := w.m.cat.Snapshot().Pending(w.id); open {
		w.m.mon.awaitVerdicts(ctx, in.Holders)
		if err := w.m.fin.resolve(ctx, in); err != nil {
			return w.fail(structs.QUERY_UNAVAILABLE, machinesOf(err), "an earlier write of it is not finished (%v): nothing was changed, try again when the slave is back", err)
		}
	}
	in, failed := w.place(ctx)
	if failed != nil {
		return *failed
	}
	before, _ := w.m.cat.Snapshot().Member(w.id)
	var errs map[string]error
	for range maxRaised {
		if w.intent, err = w.m.begin(ctx, in); errors.Is(err, catalog.ErrStatic) { // it has joined meanwhile
			return w.fail(structs.QUERY_FAILED, nil, "%v: nothing was changed, try again", err)
		} else if err != nil {
			w.m.log.Error("begin of a write", "id", w.id, "err", err)
			w.m.fin.wake()
			return w.fail(structs.QUERY_FAILED, nil, "the catalog could not note it (%v): it may or may not happen", err)
		}
		errs = w.m.sendAll(ctx, w.intent, w.body)
		if in.Revision = newest(errs); in.Revision == 0 {
			break
		}
	}
	if len(errs) > 0 {
		w.m.fin.wake()
		return w.unfinished(errs)
	}
	if err := w.m.finish(ctx, w.intent); err != nil {
		w.m.log.Error("finish of a write", "id", w.id, "err", err)
		w.m.fin.wake()
		return w.fail(structs.QUERY_FAILED, nil, "the catalog could not note its end (%v): it may or may not have happened", err)
	}
	w.m.vacate(before.Holders, w.intent)
	return structs.PutResponse{Status: structs.QUERY_OK, Revision: w.intent.Revision}
}

// place decides who shall have the write, and waits for those of whom it is not
// known yet whether they serve. On failure nothing was changed.
func (w *write) place(ctx context.Context) (catalog.Intent, *structs.PutResponse) {
	in := catalog.Intent{ID: w.id, Op: w.op, Bytes: uint64(len(w.body.Roaring))}
	fail := func(st structs.QueryStatus, machines []string, format string, args ...any) (catalog.Intent, *structs.PutResponse) {
		f := w.fail(st, machines, format, args...)
		return in, &f
	}
	mem, known := w.m.cat.Snapshot().Member(w.id)
	if w.op == catalog.Delete && !known {
		return fail(structs.QUERY_NO_SUCH_VECTOR, nil, "there is no such vector")
	}
	holders, pinned, err := w.holders(ctx)
	if handler := w.m.static(mem); handler != "" {
		return fail(structs.QUERY_FAILED, nil, readOnly, handler, handler)
	}
	switch {
	case errors.Is(err, catalog.ErrNoSlaves):
		return fail(structs.QUERY_UNAVAILABLE, nil, "no slave has joined that could hold it: start one with bin/slave --master HOST --addr ADDR --data DIR")
	case errors.Is(err, catalog.ErrUnknownSlave):
		return fail(structs.QUERY_FAILED, nil, "%v: starfish status lists the slaves", err)
	case errors.Is(err, catalog.ErrStatic):
		return fail(structs.QUERY_FAILED, nil, "%v: what a C handler holds is changed on its own host", err)
	case err != nil:
		return fail(structs.QUERY_FAILED, nil, "%v", err)
	case w.m.cfg.NoOverlap && len(holders) > 1:
		return fail(structs.QUERY_FAILED, nil, "overlap is off, so it has one holder and not %s", strings.Join(holders, ", "))
	}
	in.Holders, in.Pinned, in.Name = slices.Clone(holders), pinned, mem.Name
	var down []string // or in doubt until the end
	var why string
	snap := w.m.cat.Snapshot()
	for _, h := range holders {
		if s, _ := snap.Slave(h); s.State != catalog.Serving {
			down = append(down, h)
			why = s.Problem
		}
	}
	if len(down) > 0 {
		return fail(structs.QUERY_UNAVAILABLE, down, "its holder %s is not serving (%s): nothing was changed; start it again, or name other holders with --on",
			strings.Join(down, ", "), why)
	}
	return in, nil
}

const readOnly = "the C handler %s holds it, so it is read-only: nothing was changed; what a C handler holds is changed on its own host, or after starfish remove %s"

// static is a C handler that holds the vector, "" where none does.
func (m *Master) static(mem catalog.Member) string {
	snap := m.cat.Snapshot()
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
		holders, pinned, err = w.m.cat.Snapshot().HoldersFor(w.id, w.pins, w.m.cfg.Replicas)
		if err != nil || !w.m.mon.awaitVerdicts(ctx, holders) {
			return holders, pinned, err
		}
	}
}
