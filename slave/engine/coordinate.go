package engine

import (
	"context"
	"errors"

	"starfish/idset"
	"starfish/store"
	"starfish/vector/fold"
)

// Window is what one leg has answered, checked. The windows of a leg are of one
// moment where their fingerprints are equal.
type Window struct {
	Frame       fold.Frame
	Next        int // the key where the next window begins; fold.Keys where that was all
	Absent      []store.Absent
	Fingerprint uint64
}

// Remote is a leg of another machine: it answers what has keys from first on, in
// about limit bytes. Its errors are the caller's own.
type Remote func(ctx context.Context, first, limit int) (Window, error)

// Query is one query as its coordinator runs it.
type Query struct {
	Ranges  int
	Own     []idset.Encoded // what this machine reads, a set a range; nil: nothing
	Remotes []Remote
	Count   bool // the count alone is wanted

	// Together runs the functions at once and returns the error that stands for all
	// of theirs.
	Together func(ctx context.Context, fs []func(context.Context) error) error
}

// Answer is what a query found.
type Answer struct {
	Count  uint64
	Rows   []byte           // in the portable Roaring format; nil where the count alone was wanted
	Absent []store.Absent   // of Own
	Remote [][]store.Absent // of each of Remotes
}

const (
	// maxRuns bounds how often a query is run because vectors were written between
	// two windows of a leg: each time it takes as long again.
	maxRuns = 3
	// windowBytes is about how large a window is, and allBytes in the last run, so
	// that most legs have a single one: what a record holds, with room.
	windowBytes = 4 * fold.LegBytes
	allBytes    = 14 * fold.LegBytes
)

// Coordinate runs all legs of a query at once, ORs inside each range and ANDs
// across them. What does not fit one window comes in several rounds, in each of
// which every leg gives the keys up to the same one.
//
// Our own part is a leg like the others', read in a transaction of its own: one
// that stayed open while others are asked would hold up whoever writes, and in
// circles of machines that ask each other all of them.
func (e *Engine) Coordinate(ctx context.Context, q Query) (Answer, error) {
	if len(q.Remotes) == 0 {
		return e.alone(ctx, q)
	}
	for run := 1; ; run++ {
		c := &coordination{Query: q, engine: e, limit: e.windowBytes, legs: q.Remotes}
		if run == maxRuns {
			c.limit = e.allBytes
		}
		if q.Own != nil {
			c.legs = append(c.legs[:len(c.legs):len(c.legs)], e.own(q.Own))
		}
		c.windows = make([]Window, len(c.legs))
		a, err := c.run(ctx)
		if !errors.Is(err, ErrChanged) || run == maxRuns || ctx.Err() != nil {
			return a, err
		}
	}
}

// own is the leg of this machine.
func (e *Engine) own(ids []idset.Encoded) Remote {
	return func(ctx context.Context, first, limit int) (Window, error) {
		l, err := e.Leg(ctx, ids, first, limit)
		if err != nil {
			return Window{}, err
		}
		f, err := fold.ParseFrame(l.Frame, len(ids), first, l.Next)
		return Window{Frame: f, Next: l.Next, Absent: l.Absent, Fingerprint: l.Fingerprint}, err
	}
}

// alone answers a query of which all is on this machine, straight from the store.
func (e *Engine) alone(ctx context.Context, q Query) (a Answer, err error) {
	g := e.gather(q.Ranges)
	defer e.release(g)
	err = e.compute(ctx, func() error {
		return e.store.Read(func(r *store.Reader) error {
			if a.Absent, _, err = add(ctx, g, r, q.Own); err != nil {
				return err
			}
			if q.Count {
				a.Count, err = g.Count(ctx, 0, fold.Keys)
				return err
			}
			var s fold.Stream
			if err := g.AppendTo(ctx, &s, 0, fold.Keys); err != nil {
				return err
			}
			a.Count, a.Rows = s.Rows(), s.Append(nil)
			return nil
		})
	})
	return a, err
}

// coordination is one run of a query.
type coordination struct {
	Query
	engine  *Engine
	limit   int
	legs    []Remote // our own is the last
	windows []Window // the last one of each
	answer  Answer
	stream  fold.Stream
}

func (c *coordination) run(ctx context.Context) (Answer, error) {
	for first := 0; first < fold.Keys; {
		if err := c.fetch(ctx, first); err != nil {
			return Answer{}, err
		}
		err := c.engine.compute(ctx, func() (err error) {
			first, err = c.fold(ctx, first)
			return err
		})
		if err != nil {
			return Answer{}, err
		}
	}
	if !c.Count {
		c.answer.Count, c.answer.Rows = c.stream.Rows(), c.stream.Append(nil)
	}
	for i, w := range c.windows {
		if i < len(c.Remotes) {
			c.answer.Remote = append(c.answer.Remote, w.Absent)
		} else {
			c.answer.Absent = w.Absent
		}
	}
	return c.answer, nil
}

// fetch gets the next window of each leg whose last one is used up.
func (c *coordination) fetch(ctx context.Context, first int) error {
	var fs []func(context.Context) error
	for i, leg := range c.legs {
		if first > 0 && c.windows[i].Next > first {
			continue
		}
		fs = append(fs, func(ctx context.Context) error {
			w, err := leg(ctx, first, c.limit)
			if err == nil && first > 0 && w.Fingerprint != c.windows[i].Fingerprint {
				err = ErrChanged
			}
			c.windows[i] = w
			return err
		})
	}
	return c.Together(ctx, fs)
}

// fold folds the keys from first up to where some leg's window ends.
func (c *coordination) fold(ctx context.Context, first int) (next int, err error) {
	g := c.engine.gather(c.Ranges)
	defer c.engine.release(g)
	next = fold.Keys
	for i := range c.windows {
		g.AddFrame(c.windows[i].Frame)
		next = min(next, c.windows[i].Next)
	}
	if c.Count {
		n, err := g.Count(ctx, first, next)
		c.answer.Count += n
		return next, err
	}
	return next, g.AppendTo(ctx, &c.stream, first, next)
}
