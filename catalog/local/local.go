// Package local is the catalog's log for a cluster with one master: one bbolt
// file. It keeps the table's records by key, not the changes: a million ids are
// read back in one pass over their records, and nothing has to be folded. The
// changes of all who wait share one commit and one sync.
//
// Reading the source: open.go reads the file, this file commits changes; what a
// record holds is catalog's business.
package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"starfish/catalog"
	"starfish/disk"
)

const maxBatch = 1024 // appends in one commit

// Log implements catalog.Log.
type Log struct {
	catalog.Feed
	file    *disk.File
	appends *disk.Group[*entry]

	// For commit alone. The table is ahead of the file while a commit runs, and
	// stays so after one that failed: then it is read again.
	table *catalog.Table
	stale bool
}

var _ catalog.Log = (*Log)(nil)

// entry is one Append.
type entry struct {
	changes  []catalog.Change
	verdicts []catalog.Verdict
	done     chan error
}

func run(file *disk.File, table *catalog.Table) *Log {
	l := &Log{file: file, table: table}
	l.Publish(table.Snapshot(), nil)
	l.appends = disk.NewGroup(disk.GroupConfig[*entry]{Limit: maxBatch, Commit: l.commit})
	return l
}

// Close ends the log. Changes that were handed over are committed first.
func (l *Log) Close() error {
	l.appends.Close()
	return l.file.Close()
}

// Append has the changes committed, all in one transaction.
func (l *Log) Append(ctx context.Context, changes ...catalog.Change) ([]catalog.Verdict, error) {
	changes, err := catalog.Recode(changes)
	if err != nil {
		return nil, err
	}
	e := &entry{changes: changes, done: make(chan error, 1)}
	switch err := l.appends.Submit(ctx, e); {
	case errors.Is(err, disk.ErrClosed):
		return nil, catalog.ErrClosed
	case err != nil:
		return nil, fmt.Errorf("catalog: not written: %w", err)
	}
	select {
	case err := <-e.done:
		if err != nil {
			return nil, err
		}
		return e.verdicts, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("catalog: may or may not be written: %w", ctx.Err())
	}
}

// commit applies the changes, makes what they changed durable in one transaction,
// shows it in one view, and answers.
func (l *Log) commit(batch []*entry) {
	err := l.refresh()
	if err == nil {
		err = l.write(batch)
		l.stale = err != nil
	}
	if err != nil {
		err = fmt.Errorf("catalog: commit: %w", err)
	}
	for _, e := range batch {
		e.done <- err
	}
}

func (l *Log) write(batch []*entry) error {
	changed := false
	for _, e := range batch {
		for _, c := range e.changes {
			e.verdicts = append(e.verdicts, l.table.Apply(c))
		}
		changed = changed || slices.ContainsFunc(e.verdicts, func(v catalog.Verdict) bool { return v.Changed })
	}
	if !changed {
		return nil
	}
	err := l.file.Update(func(tx *bbolt.Tx) error {
		w, err := newWriter(tx)
		if err != nil {
			return err
		}
		if err := l.table.Dirty(w.store); err != nil {
			return err
		}
		return w.end()
	})
	if err != nil {
		return err
	}
	touched := l.table.Flushed()
	l.Publish(l.table.Snapshot(), touched)
	return nil
}

// refresh reads the file again where a commit failed, so that the table says what
// is on disk.
func (l *Log) refresh() error {
	if !l.stale {
		return nil
	}
	table, err := load(l.file)
	if err != nil {
		return err
	}
	l.table, l.stale = table, false
	l.Publish(table.Snapshot(), nil)
	return nil
}
