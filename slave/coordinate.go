package slave

import (
	"context"
	"fmt"
	"sync"
	"time"

	"starfish/fault"
	"starfish/peer"
	"starfish/rows"
	"starfish/structs"
	"starfish/vector"
)

// coordinateAtOnce runs all ranges with one call to each machine. The whole result
// in the roaring format goes out as the engine wrote it.
func (s *Slave) coordinateAtOnce(ctx context.Context, arg structs.Coordinate2Args, lacks *absents) (structs.QueryAnswer, error) {
	leave, err := s.enterCoordination()
	if err != nil {
		return structs.QueryAnswer{}, err
	}
	defer leave()
	found, err := s.parallel(ctx, arg.Ranges, arg.Format == structs.BITMAP_NONE, lacks)
	if err != nil {
		return structs.QueryAnswer{}, err
	}
	whole := arg.FirstRow == 0 && arg.MaxRows == 0
	switch {
	case arg.Format == structs.BITMAP_NONE:
		return structs.QueryAnswer{Count: found.Count, Rows: structs.RowBitmap{Format: structs.BITMAP_NONE}}, nil
	case whole && arg.Format == structs.BITMAP_ROARING && !overUDP(ctx):
		rb, err := rows.Stream(found.Rows)
		if err != nil {
			err = fail(fault.ErrTooLarge, err.Error())
		}
		return structs.QueryAnswer{Count: found.Count, Rows: rb}, err
	}
	b, err := vector.View(found.Rows)
	if err != nil {
		return structs.QueryAnswer{}, fmt.Errorf("slave: the engine's answer: %w", err)
	}
	return s.answer(ctx, b, arg, lacks)
}

// enterCoordination takes one of the slots for calls that coordinate.
func (s *Slave) enterCoordination() (leave func(), err error) {
	select {
	case s.coordinating <- struct{}{}:
		return func() { <-s.coordinating }, nil
	default:
		return nil, fail(fault.ErrFailed, fmt.Sprintf("%s coordinates %d queries already: try again, or another slave", s.cfg.Addr, maxCoordinated))
	}
}

// coordinate runs the ranges at once and ANDs their results, beginning with the
// first that is there. All of them run to their end, also where one is empty:
// an answer is complete but for what lacks names, or an error.
func (s *Slave) coordinate(ctx context.Context, ranges []structs.RangePlan, lacks *absents) (*vector.Bitmap, error) {
	leave, err := s.enterCoordination()
	if err != nil {
		return nil, err
	}
	defer leave()
	g := s.newGroup(ctx)
	defer g.cancel()
	var mu sync.Mutex
	var result *vector.Bitmap
	for _, r := range ranges {
		g.run(func(ctx context.Context) error {
			b := vector.New()
			if err := s.runRange(ctx, r.List, r.Strategy, b, lacks); err != nil {
				return err
			}
			return s.compute(ctx, func() error {
				mu.Lock()
				defer mu.Unlock()
				if result == nil {
					result = b
				} else {
					result.And(b)
				}
				return nil
			})
		})
	}
	if err := g.wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// group runs the parts of one call at once. Where one fails the others have the
// time in which whoever else hangs is found out, too, and half a hop timeout more.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	grace  time.Duration
	slots  chan struct{}
	wg     sync.WaitGroup

	mu    sync.Mutex
	errs  []error
	timer *time.Timer
}

func (s *Slave) newGroup(ctx context.Context) *group {
	g := &group{grace: peer.MaxSilence(s.cfg.HopTimeout) + s.cfg.HopTimeout/2, slots: make(chan struct{}, maxRanges)}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// run starts f, once fewer than maxRanges others run.
func (g *group) run(f func(context.Context) error) {
	g.slots <- struct{}{}
	g.wg.Go(func() {
		defer func() { <-g.slots }()
		if err := f(g.ctx); err != nil {
			g.failed(err)
		}
	})
}

func (g *group) failed(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.errs = append(g.errs, err)
	if g.timer == nil {
		g.timer = time.AfterFunc(g.grace, g.cancel)
	}
}

// wait waits for all parts and returns the error that stands for all of theirs.
func (g *group) wait() error {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	return fault.Join(g.errs)
}
