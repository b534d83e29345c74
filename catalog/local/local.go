// Package local is the catalog of a cluster with one master: one bbolt file, each
// change synced to disk before it is answered. All of it is kept in memory as
// well; queries read only that.
//
// Reading the source: record.go has the file's layout, open.go reads it, this
// file commits changes, change.go has the changes.
package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"starfish/catalog"
	"starfish/disk"
)

const (
	maxBatch  = 1024    // changes in one commit
	maxNumber = 1 << 20 // slaves that ever joined
	maxName   = 512     // bytes of LEVEL=MEMBER, structs.x
)

// Catalog implements catalog.Catalog.
type Catalog struct {
	file  *disk.File
	ops   *disk.Group[*op]
	stale bool // a commit failed: the file may be ahead of the table. Only for commit.

	mu       sync.Mutex
	table    *catalog.Table
	changed  chan struct{} // nil: nobody asked
	snapshot atomic.Pointer[catalog.Snapshot]
}

var _ catalog.Catalog = (*Catalog)(nil)

// op is one durable change. All ops go through one goroutine, which commits those
// that wait together in one transaction, so that the table changes in the file's
// order.
type op struct {
	alone bool                   // not in one transaction with others: check looks at the table
	check func(*bbolt.Tx) error  // refuses the change, before anything is written
	store func(*bbolt.Tx) error  // writes it
	apply func(t *catalog.Table) // makes it visible, once committed
	err   error
	done  chan error
}

func run(file *disk.File, table *catalog.Table) *Catalog {
	c := &Catalog{file: file, table: table}
	c.snapshot.Store(table.Snapshot())
	c.ops = disk.NewGroup(disk.GroupConfig[*op]{Limit: maxBatch, Commit: c.commitAll})
	return c
}

// Close ends the catalog. Changes that were begun are committed first.
func (c *Catalog) Close() error {
	c.ops.Close()
	return c.file.Close()
}

// Snapshot is the current view.
func (c *Catalog) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Changed returns a channel that is closed at the next change of the snapshot.
func (c *Catalog) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// change changes the table in memory, and shows it where f says that it did.
func (c *Catalog) change(f func(*catalog.Table) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f(c.table) {
		return
	}
	c.snapshot.Store(c.table.Snapshot())
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// write has the change committed.
func (c *Catalog) write(ctx context.Context, o *op) error {
	o.done = make(chan error, 1)
	switch err := c.ops.Submit(ctx, o); {
	case errors.Is(err, disk.ErrClosed):
		return catalog.ErrClosed
	case err != nil:
		return fmt.Errorf("catalog: not written: %w", err)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("catalog: may or may not be written: %w", ctx.Err())
	}
}

func (c *Catalog) commitAll(ops []*op) {
	var together []*op
	for _, o := range ops {
		if o.alone {
			c.commit(together)
			together = nil
			c.commit([]*op{o})
			continue
		}
		together = append(together, o)
	}
	c.commit(together)
}

// commit makes the ops durable in one transaction, shows them in one snapshot and
// answers them.
func (c *Catalog) commit(ops []*op) {
	if len(ops) == 0 {
		return
	}
	err := c.refresh()
	if err == nil {
		err = c.update(ops)
		c.stale = err != nil
	}
	if err != nil {
		err = fmt.Errorf("catalog: commit: %w", err)
		for _, o := range ops {
			o.done <- err
		}
		return
	}
	c.change(func(t *catalog.Table) bool {
		applied := false
		for _, o := range ops {
			if o.err == nil {
				o.apply(t)
				applied = true
			}
		}
		return applied
	})
	for _, o := range ops {
		o.done <- o.err
	}
}

// update writes the ops in one transaction.
func (c *Catalog) update(ops []*op) error {
	return c.file.Update(func(tx *bbolt.Tx) error {
		for _, o := range ops {
			if o.err = o.check(tx); o.err != nil {
				continue
			}
			if err := o.store(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// refresh reads the file again where a commit failed, so that the table says what
// is on disk.
func (c *Catalog) refresh() error {
	if !c.stale {
		return nil
	}
	table, err := load(c.file)
	if err != nil {
		return err
	}
	c.change(func(old *catalog.Table) bool {
		table.Inherit(old)
		c.table = table
		return true
	})
	c.stale = false
	return nil
}
