package slave

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"starfish/fault"
	"starfish/fault/wire"
	"starfish/rows"
	"starfish/rpc"
	"starfish/store"
	"starfish/structs"
)

// mayChange says whether the caller may change vectors: the master, which brings
// the secret of the join, and those of s.may.
func (s *Slave) mayChange(ctx context.Context, secret structs.JoinSecret) bool {
	return s.cluster.isMaster(secret) || s.may.Allow(ctx)
}

// denied logs a refused change and returns what to tell the caller. It may have
// been the master without the secret, so the slave joins at once.
func (s *Slave) denied(ctx context.Context, what string, id uint64) structs.RevisionResponse {
	s.log.Warn("change refused", "what", what, "id", id, "from", caller(ctx))
	s.cluster.joinSoon()
	st, f := wire.Encode(fail(fault.ErrDenied, "changes are taken from the master that the slave has joined, from loopback and from --allow CIDR, not from "+caller(ctx)))
	return structs.RevisionResponse{Status: st, Failure: f}
}

// SlaveStore stores one vector, and answers when it is on disk.
func (h v2) SlaveStore(ctx context.Context, arg structs.StoreRequest) (structs.RevisionResponse, error) {
	if !h.s.mayChange(ctx, arg.Secret) {
		return h.s.denied(ctx, "store", arg.Id), nil
	}
	b, err := rows.Decode(&arg.Rows)
	if err != nil {
		return structs.RevisionResponse{}, fmt.Errorf("%w: rows of vector %d: %w", rpc.ErrGarbageArgs, arg.Id, err)
	}
	held, err := h.s.store.Put(arg.Id, arg.Revision, b)
	return h.revision(arg.Id, held, err)
}

// SlaveDelete leaves a tombstone in a vector's place, and answers when it is on
// disk.
func (h v2) SlaveDelete(ctx context.Context, arg structs.EraseRequest) (structs.RevisionResponse, error) {
	if !h.s.mayChange(ctx, arg.Secret) {
		return h.s.denied(ctx, "delete", arg.Id), nil
	}
	held, err := h.s.store.Delete(arg.Id, arg.Revision)
	return h.revision(arg.Id, held, err)
}

func (h v2) revision(id, held uint64, err error) (structs.RevisionResponse, error) {
	if err != nil {
		return structs.RevisionResponse{Status: structs.QUERY_FAILED, Failure: h.storeFailed(id, err)}, nil
	}
	h.s.fault.worked(h.s.log, time.Now())
	return structs.RevisionResponse{Revision: held}, nil
}

// storeFailed logs what the store says of a vector and returns what to tell the caller.
func (h v2) storeFailed(id uint64, err error) structs.QueryFailure {
	if errors.Is(err, store.ErrClash) || h.s.store.IsDamaged(id) { // of this vector alone
		h.s.log.Debug("the store refused a vector", "id", id, "err", err)
	} else {
		h.s.fault.failed(h.s.log.With("id", id), err, time.Now())
	}
	message := fmt.Sprintf("vector %d: the store of %s failed: %s", id, h.s.cfg.Addr, storeReason(err))
	if errors.Is(err, store.ErrClash) {
		message = err.Error()
	}
	_, f := wire.Encode(fail(fault.ErrFailed, message, h.s.cfg.Addr).About(1, id))
	return f
}

// storeReason is as much of an error of the store as callers are told.
func storeReason(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno.Error()
	}
	return "its log says why"
}

// SlaveFetch reads one vector with its revision.
func (h v2) SlaveFetch(ctx context.Context, id uint64) (structs.FetchResponse, error) {
	v, err := h.s.store.Get(id)
	if err != nil {
		return structs.FetchResponse{Status: structs.QUERY_FAILED, Failure: h.storeFailed(id, err)}, nil
	}
	res := structs.FetchResponse{Vector: structs.StoredVector{Revision: v.Revision, Deleted: v.Deleted}}
	res.Vector.Rows.Format = structs.BITMAP_NONE
	if v.Deleted {
		return res, nil
	}
	res.Vector.Rows, err = h.s.answerRows(ctx, v.Rows, 0, structs.BITMAP_ROARING, 0)
	if st, f, ok := answered(ctx, err); ok {
		return structs.FetchResponse{Status: st, Failure: f}, nil
	}
	return res, err
}

// SlaveInventory lists a page of what the store has, tombstones too.
func (h v2) SlaveInventory(ctx context.Context, arg structs.InventoryRequest) (structs.InventoryResponse, error) {
	limit := int(min(arg.MaxItems, structs.MAX_ITEMS))
	if limit == 0 {
		limit = defaultItems
	}
	if overUDP(ctx) {
		limit = min(limit, maxUDPItems)
	}
	items, more, err := h.s.store.Inventory(arg.FirstId, limit)
	if err != nil {
		h.s.fault.failed(h.s.log, err, time.Now())
		message := fmt.Sprintf("the store of %s cannot be listed: %s", h.s.cfg.Addr, storeReason(err))
		st, f := wire.Encode(fail(fault.ErrFailed, message, h.s.cfg.Addr))
		return structs.InventoryResponse{Status: st, Failure: f}, nil
	}
	page := structs.InventoryPage{Instance: h.s.instance, More: more, Items: make([]structs.InventoryItem, len(items))}
	for i, it := range items {
		page.Items[i] = structs.InventoryItem{
			Id: it.ID, Revision: it.Revision, Count: it.Count, Bytes: it.Bytes, Checksum: it.Checksum, Deleted: it.Deleted,
		}
	}
	return structs.InventoryResponse{Page: page}, nil
}
