package disk

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the error of a change after Close.
var ErrClosed = errors.New("disk: closed")

// Group commits the changes of many callers together: those that come while a
// commit is being synced share the next one, so that many changes in flight cost
// few syncs. Changes are committed in the order in which they were taken.
type Group[C any] struct {
	commit  func([]C)
	limit   int
	weigh   func(C) int
	most    int
	changes chan C
	quit    chan struct{} // closed by Close: no new changes
	done    chan struct{} // closed when the last commit has ended
	closing sync.Once
}

// GroupConfig bounds one commit.
type GroupConfig[C any] struct {
	Limit  int             // changes
	Weight func(C) int     // of a change, in bytes; nil: none
	Most   int             // bytes that a commit may have before it takes no further change
	Commit func(batch []C) // makes them durable and answers who waits for each; called by one goroutine
}

// NewGroup starts the goroutine that commits, until Close.
func NewGroup[C any](cfg GroupConfig[C]) *Group[C] {
	g := &Group[C]{
		commit: cfg.Commit, limit: cfg.Limit, weigh: cfg.Weight, most: cfg.Most,
		changes: make(chan C), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if g.weigh == nil {
		g.weigh, g.most = func(C) int { return 0 }, 1
	}
	go g.run()
	return g
}

// Submit hands a change over. When it returns nil the change will be committed,
// and Commit answers for it; ErrClosed, or the end of ctx, means that it never is.
func (g *Group[C]) Submit(ctx context.Context, c C) error {
	select {
	case <-g.quit:
		return ErrClosed
	default:
	}
	select {
	case g.changes <- c:
		return nil
	case <-g.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close waits until what was handed over is committed.
func (g *Group[C]) Close() {
	g.closing.Do(func() { close(g.quit) })
	<-g.done
}

func (g *Group[C]) run() {
	defer close(g.done)
	var batch []C
	for {
		select {
		case c := <-g.changes:
			batch = g.gather(append(batch[:0], c))
		case <-g.quit:
			return
		}
		g.commit(batch)
		clear(batch) // keeps nothing alive
	}
}

// gather adds the changes that wait.
func (g *Group[C]) gather(batch []C) []C {
	size := g.weigh(batch[0])
	for len(batch) < g.limit && size < g.most {
		select {
		case c := <-g.changes:
			batch = append(batch, c)
			size += g.weigh(c)
		default:
			return batch
		}
	}
	return batch
}
