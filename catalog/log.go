package catalog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Log is the order of all changes of one cluster, and the table that they make:
// the one truth about it. Nobody may assume that the changes it sees are its own.
type Log interface {
	// Append has the changes applied, in this order with none of others between
	// them, and returns what became of each. They are durable, and Load shows
	// them, when it returns. An error means that they may or may not be.
	Append(ctx context.Context, changes ...Change) ([]Verdict, error)
	// Load is what the log says now; it costs nothing. No slave of it was sighted.
	Load() *Snapshot
	// Watch has f called with what the log says now, and at each change of it
	// before Append returns, in order. touched are the ids that the change may
	// have touched; nil: any. f must not call the log.
	Watch(f func(now *Snapshot, touched []uint64))
	Close() error
}

// Verdict is what Apply decided about a change.
type Verdict struct {
	Revision uint64 // that the change was given; 0: none
	Changed  bool   // something is other than before
	Err      error  // why it was refused, and changed nothing: one of errors.go
}

// refused is the verdict of a change that changes nothing.
func refused(err error) Verdict { return Verdict{Err: err} }

// Recode returns the changes as they come out of the codec, which share no memory
// with those that went in. A log applies these: so it refuses at its door what it
// could not write down, and what it applies is what others will read.
func Recode(changes []Change) ([]Change, error) {
	out := make([]Change, len(changes))
	var b []byte
	var err error
	for i, c := range changes {
		b = Encode(b[:0], c)
		if out[i], err = Decode(b); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
	}
	return out, nil
}

// Feed is the half of a Log that is read: who publishes is one goroutine at a time.
type Feed struct {
	view     atomic.Pointer[Snapshot]
	mu       sync.Mutex // held while watchers are called, so that each sees all views in order
	watchers []func(*Snapshot, []uint64)
}

// Publish shows the view, and tells the watchers.
func (f *Feed) Publish(now *Snapshot, touched []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Store(now)
	for _, w := range f.watchers {
		w(now, touched)
	}
}

// Load is what was published last.
func (f *Feed) Load() *Snapshot { return f.view.Load() }

// Watch has w called now, and at each Publish.
func (f *Feed) Watch(w func(now *Snapshot, touched []uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, w)
	w(f.view.Load(), nil)
}

// Memory is a Log without a disk, which ends with its process: for tests.
type Memory struct {
	Feed
	appending sync.Mutex
	table     *Table
}

// NewMemory returns an empty log.
func NewMemory() *Memory {
	m := &Memory{table: NewTable()}
	m.Publish(m.table.Snapshot(), nil)
	return m
}

// Append applies the changes.
func (m *Memory) Append(_ context.Context, changes ...Change) ([]Verdict, error) {
	changes, err := Recode(changes)
	if err != nil {
		return nil, err
	}
	m.appending.Lock()
	defer m.appending.Unlock()
	verdicts := make([]Verdict, len(changes))
	for i, c := range changes {
		verdicts[i] = m.table.Apply(c)
	}
	if slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Changed }) {
		m.Publish(m.table.Snapshot(), m.table.Flushed())
	}
	return verdicts, nil
}

// Close does nothing.
func (m *Memory) Close() error { return nil }
