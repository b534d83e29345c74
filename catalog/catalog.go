// Package catalog says who is a member of the cluster and which slave holds
// which vector. It is a log of changes, the table that they make, and a view of
// it that the router reads: never a second truth.
//
// Reading the source: change.go has the changes and their bytes, apply.go what
// each makes of the table, record.go and restore.go how the table is on disk, log.go who orders
// the changes, sighted.go what one process sees beside them, snapshot.go what
// readers get. Logs are Memory and catalog/local (bbolt, one master).
package catalog

import "context"

// State is what a slave can do for queries now. It is not durable: after a
// restart of the master every slave is joining until it was spoken to.
type State uint8

const (
	Joining State = iota // known; its inventory was not compared yet
	Serving              // takes traffic
	Down                 // does not answer
)

// Slave is one machine that holds vectors.
type Slave struct {
	Addr     string // what clnt_create takes, without a port
	Priority *int32 // nil: unset
	Protocol uint32 // version of SLAVE_PROG: 2, or 1 for a C handler, which is static and read-only
	Weight   uint32 // share of the slots that are drawn; 0: as 1
	Identity string // of its disk; "": not known
	Members  uint64 // ids that the catalog says it holds

	// What follows is sighted by one process, and not durable.
	State    State
	Problem  string // why it is not serving, or what its disk lacks though it does; "" else
	Missing  uint64 // ids that it should hold and does not have; they are not routed to it
	SetAside uint64 // ids that it has and the catalog does not know
}

// Op is what an intent does to its vector.
type Op uint8

const (
	Put Op = iota
	Delete
)

// Intent is a write that was begun and is not finished: durable before any
// slave hears of it. Until it is finished the id is served only by Confirmed.
type Intent struct {
	ID        uint64
	Revision  uint64
	Op        Op
	Holders   []string // who shall have it: after Finish these and no others
	Pinned    bool     // the put named its holders: placement never moves it
	Name      string   // LEVEL=MEMBER or ""
	Bytes     uint64   // serialized size of the new vector
	Confirmed []string // who is known to have this revision on disk; not durable

	// Seen says that an answer may have shown the id before this intent: it was
	// known, it replaced another intent, or it was read back at start. While
	// nobody is confirmed a query waits for such an id; one that was not seen is
	// simply not there yet. Set by the catalog.
	Seen bool
}

// Member is one known vector.
type Member struct {
	ID      uint64
	Name    string
	Bytes   uint64
	Holders []string // durable holders, in the global machine order; also those that are down or miss it
	Pinned  bool
}

// Catalog is a Log as the master works with it; see Over. All methods may be called
// concurrently. A change is on disk, and in the next Snapshot, when the method
// returns; an error means that it may or may not be.
type Catalog interface {
	// Snapshot is the current immutable view; it costs nothing.
	Snapshot() *Snapshot
	// Changed returns a channel that is closed at the next change of the snapshot.
	// Who waits for a change takes it before the snapshot.
	Changed() <-chan struct{}

	// AddSlave adds the slave or changes its priority and protocol.
	// For a static slave (protocol 1) ids says what it holds, as inclusive spans;
	// they become known ids, and nobody else may hold one: see Claim.
	AddSlave(ctx context.Context, s Slave, ids []Span) error
	// Claim is AddSlave of a static slave that shares ids with others, or takes
	// them over. revision is above that of every copy that they lose; 0: they lose
	// none. ErrTaken where an id is held or written by others and the claim does
	// not say that it may be.
	Claim(ctx context.Context, s Slave, c Claim) (revision uint64, err error)
	// Remove forgets a static slave, and with forget what it alone holds, else
	// that is ErrOnlyHolder; or a slave that never served, else that is ErrServed.
	Remove(ctx context.Context, addr string, forget bool) error
	// SetState notes what the slave can do now, and the ids of its that are
	// missing (nil: none). Not durable.
	SetState(addr string, st State, problem string)
	// SetInventory notes what comparing the slave's inventory found. Not durable.
	SetInventory(addr string, missing []uint64, setAside uint64)
	// Lacks notes that the slave misses these ids as well, and Found that it has
	// one after all: the cost is that of the ids, not of all that it misses. An id
	// that a put to it is finished for is found as well. Not durable.
	Lacks(addr string, ids ...uint64)
	Found(addr string, id uint64)

	// Begin writes the intent with a new revision, higher than any before and
	// than in.Revision, which a slave may have from another catalog, and returns
	// it. It replaces an unfinished intent for the same id.
	Begin(ctx context.Context, in Intent) (Intent, error)
	// Confirm notes that addr has the revision on disk. Not durable.
	Confirm(id, revision uint64, addr string)
	// Finish makes the intent the state of the id and forgets the intent.
	// ErrSuperseded where a newer intent stands in its place.
	Finish(ctx context.Context, id, revision uint64) error
	// Abort forgets the intent: the id is as it was before.
	Abort(ctx context.Context, id, revision uint64) error
	// Revisions returns for each of the ids, best ascending, the revision of its
	// last finished put; 0 where there is none, or it was not noted.
	Revisions(ids []uint64) ([]uint64, error)

	Close() error
}

// Span is an inclusive range of ids.
type Span struct{ First, Last uint64 }
