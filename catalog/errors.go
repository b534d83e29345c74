package catalog

import "errors"

var (
	// ErrSuperseded: the intent is not the current one of its id; it was replaced, finished or aborted.
	ErrSuperseded = errors.New("catalog: the write was superseded")
	// ErrUnknownSlave: no slave of that address has joined.
	ErrUnknownSlave = errors.New("catalog: unknown slave")
	// ErrStatic: the slave is a C handler (protocol 1), which is static and read-only.
	ErrStatic = errors.New("catalog: static, read-only slave")
	// ErrProtocol: the slave holds vectors under another version of SLAVE_PROG.
	ErrProtocol = errors.New("catalog: slave is known with another protocol")
	// ErrNoSlaves: no slave that can be written to has joined.
	ErrNoSlaves = errors.New("catalog: no slave has joined that could hold a vector")
	// ErrTaken: an id that is claimed for a static slave is held by others, or is being written.
	ErrTaken = errors.New("catalog: the id is taken")
	// ErrOnlyHolder: to remove the slave would forget vectors, and that was not asked for.
	ErrOnlyHolder = errors.New("catalog: the only holder of vectors")
	// ErrServed: the slave has served, so what it holds has to be moved before it is removed.
	ErrServed = errors.New("catalog: the slave has served")
	// ErrInvalid: what was asked makes no sense, whatever the state of the cluster.
	ErrInvalid = errors.New("catalog: invalid")
	// ErrClosed: the catalog was closed.
	ErrClosed = errors.New("catalog: closed")
	// ErrLocked: another process has the catalog's file open.
	ErrLocked = errors.New("catalog: in use by another process")
	// ErrForeign: the file is not a catalog, or it is damaged.
	ErrForeign = errors.New("catalog: not a catalog file")
	// ErrNewer: the file was written by a newer release.
	ErrNewer = errors.New("catalog: written by a newer release")
)
