package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"starfish/fault/wire"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// This file is SLAVE_PROG as its callers see it: every call names a machine, and
// speaks of vectors and revisions instead of messages. Its error is that of Call,
// or a *fault.Error where the machine answered that it could not.

// Rows are rows as they travel: encoded once, sent to many. See package rows.
type Rows structs.RowBitmap

// Format is that of Rows.
type Format = structs.RowBitmapFormat

// The formats of rows.
const (
	Words   = structs.BITMAP_WORDS
	Roaring = structs.BITMAP_ROARING
	None    = structs.BITMAP_NONE // the count alone
)

// Secret is by what a slave knows its master; zeros are none.
type Secret [16]byte

// Write is one vector to be stored, or erased, under a revision.
type Write struct {
	ID       uint64
	Revision uint64
	Rows     Rows // of a store
	Secret   Secret
}

// Stored is what a slave has of a vector; Deleted and revision 0: it never had it.
type Stored struct {
	Revision uint64
	Deleted  bool
	Rows     Rows
}

// Store has the slave put the vector on disk. The revision is the one that it then
// has, which is higher where it had a newer one.
func (p *Pool) Store(ctx context.Context, machine string, w Write) (revision uint64, err error) {
	var res structs.RevisionResponse
	err = p.slave(ctx, machine, func(ctx context.Context, c *structs.SlaveProgSlaveV2Client) (err error) {
		res, err = c.SlaveStore(ctx, structs.StoreRequest{Id: w.ID, Revision: w.Revision, Rows: structs.RowBitmap(w.Rows), Secret: structs.JoinSecret(w.Secret)})
		return err
	})
	return res.Revision, answered(err, res.Status, res.Failure)
}

// Erase is Store of a tombstone.
func (p *Pool) Erase(ctx context.Context, machine string, w Write) (revision uint64, err error) {
	var res structs.RevisionResponse
	err = p.slave(ctx, machine, func(ctx context.Context, c *structs.SlaveProgSlaveV2Client) (err error) {
		res, err = c.SlaveDelete(ctx, structs.EraseRequest{Id: w.ID, Revision: w.Revision, Secret: structs.JoinSecret(w.Secret)})
		return err
	})
	return res.Revision, answered(err, res.Status, res.Failure)
}

// Fetch reads one vector with its revision.
func (p *Pool) Fetch(ctx context.Context, machine string, id uint64) (Stored, error) {
	var res structs.FetchResponse
	err := p.slave(ctx, machine, func(ctx context.Context, c *structs.SlaveProgSlaveV2Client) (err error) {
		res, err = c.SlaveFetch(ctx, id)
		return err
	})
	if err = answered(err, res.Status, res.Failure); err != nil {
		return Stored{}, err
	}
	return Stored{Revision: res.Vector.Revision, Deleted: res.Vector.Deleted, Rows: Rows(res.Vector.Rows)}, nil
}

// Item is what a slave has of one id; a tombstone has no more than a revision.
type Item struct {
	ID       uint64
	Revision uint64
	Deleted  bool
}

// Page is a part of a slave's inventory.
type Page struct {
	Instance uint64 // drawn anew each time the slave starts
	Items    []Item // ascending ids
	More     bool   // there are others behind them
}

// Inventory lists what the slave has from the id first on, at most limit items;
// 0: as many as it likes. The order of the page is checked: who compares it with
// the catalog steps through both.
func (p *Pool) Inventory(ctx context.Context, machine string, first uint64, limit uint32) (Page, error) {
	var res structs.InventoryResponse
	err := p.slave(ctx, machine, func(ctx context.Context, c *structs.SlaveProgSlaveV2Client) (err error) {
		res, err = c.SlaveInventory(ctx, structs.InventoryRequest{FirstId: first, MaxItems: limit})
		return err
	})
	if err = answered(err, res.Status, res.Failure); err != nil {
		return Page{}, fmt.Errorf("peer: inventory of %s: %w", machine, err)
	}
	page := Page{Instance: res.Page.Instance, More: res.Page.More, Items: make([]Item, len(res.Page.Items))}
	next, ordered := first, len(page.Items) > 0 || !page.More
	for i, it := range res.Page.Items {
		ordered = ordered && it.Id >= next && (i == 0 || it.Id > page.Items[i-1].ID)
		page.Items[i] = Item{ID: it.Id, Revision: it.Revision, Deleted: it.Deleted}
		next = it.Id
	}
	if !ordered {
		return Page{}, fmt.Errorf("peer: inventory of %s: a page from id %d is out of order", machine, first)
	}
	return page, nil
}

// Absent is an id that a machine was asked for and does not have.
type Absent struct {
	ID       uint64
	Revision uint64 // of the tombstone in its place; 0: there is none
}

// Ask takes one vector from a slave of ours. With absent the slave does not have
// it, and b is empty.
func (p *Pool) Ask(ctx context.Context, machine string, id uint64) (b *vector.Bitmap, absent []Absent, err error) {
	var res structs.RowsResponse
	err = p.slave(ctx, machine, func(ctx context.Context, c *structs.SlaveProgSlaveV2Client) (err error) {
		res, err = c.HandleQuery(ctx, structs.HandleQuery2Args{
			List:       &structs.MachineVecNode{MachineAddr: machine, Vector: structs.VecT(id)},
			Result:     structs.RowBitmap{Format: structs.BITMAP_WORDS},
			Format:     structs.BITMAP_ROARING,
			DeadlineMs: remaining(ctx),
			MaxAbsent:  1,
		})
		return err
	})
	if err = answered(err, res.Status, res.Failure); err != nil {
		return nil, nil, err
	}
	if b, err = rows.Decode(&res.Leg.Rows); err != nil {
		return nil, nil, &FailedError{Machine: machine, Err: fmt.Errorf("it answered with a bitmap that is none: %w", err)}
	}
	return b, absents(res.Leg.Absent), nil
}

// LacksError is a C handler that answered a call for a vector with something else
// than its word: that the vector is not there, as a rule. It lives.
type LacksError struct {
	Machine string
	ID      uint64
	Says    string
}

// Error says what the handler said.
func (e *LacksError) Error() string {
	return fmt.Sprintf("asked for vector %d, the C handler at %s answers %s", e.ID, e.Machine, e.Says)
}

// Word takes one vector, a word, from a C handler within timeout, as CallOnce does.
// A *LacksError is one that lives and does not have it.
func (p *Pool) Word(ctx context.Context, machine string, id uint64, timeout time.Duration) (uint64, error) {
	var res structs.QueryReturnValue
	err := p.CallOnce(ctx, machine, timeout, func(ctx context.Context, c rpc.Caller) (err error) {
		res, err = structs.NewSlaveProgSlaveV1Client(c).HandleQuery(ctx, structs.HandleQueryArgs{
			List: &structs.MachineVecNode{MachineAddr: machine, Vector: structs.VecT(id)},
		})
		return err
	})
	switch {
	case err == nil && res.FailedMachine == machine:
		return 0, &LacksError{machine, id, "that it failed itself, which is how it says that it does not hold it"}
	case err == nil && res.FailedMachine != "":
		return 0, &LacksError{machine, id, fmt.Sprintf("that %.255s failed", res.FailedMachine)}
	case errors.Is(err, rpc.ErrSystem), errors.Is(err, rpc.ErrGarbageArgs), errors.Is(err, rpc.ErrProcUnavail):
		var reply *rpc.ReplyError
		errors.As(err, &reply)
		return 0, &LacksError{machine, id, fmt.Sprintf("with an error (%v)", reply)}
	}
	return uint64(res.Vector), err
}

// Null asks whether the machine serves a version of SLAVE_PROG: 1, of a C handler,
// within timeout and one call at a time; 2, of a slave of ours, as Call does.
func (p *Pool) Null(ctx context.Context, machine string, version uint32, timeout time.Duration) error {
	call := func(ctx context.Context, c rpc.Caller) error {
		return c.Call(ctx, structs.SLAVE_PROG, version, 0, nil, nil)
	}
	if version == structs.SLAVE_V1 {
		return p.CallOnce(ctx, machine, timeout, call)
	}
	return p.Call(ctx, machine, call)
}

// slave is Call with the stub of a slave of ours.
func (p *Pool) slave(ctx context.Context, machine string, f func(context.Context, *structs.SlaveProgSlaveV2Client) error) error {
	return p.Call(ctx, machine, func(ctx context.Context, c rpc.Caller) error {
		return f(ctx, structs.NewSlaveProgSlaveV2Client(c))
	})
}

// answered is the error of a call: that it brought no answer, or the answer's own.
func answered(err error, st structs.QueryStatus, f structs.QueryFailure) error {
	if err != nil {
		return err
	}
	return wire.Decode(st, f)
}

func absents(of []structs.AbsentVector) []Absent {
	out := make([]Absent, len(of))
	for i, v := range of {
		out[i] = Absent{ID: v.Id, Revision: v.Revision}
	}
	return out
}

// remaining is what is left of the caller's time, for the wire; at least 1 ms.
func remaining(ctx context.Context) uint32 {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint32(min(max(time.Until(end).Milliseconds(), 1), math.MaxUint32))
}
