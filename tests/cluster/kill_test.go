package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// load is four clients that ask without pause and check every answer: two keep
// their connection, two dial anew for each query.
type load struct {
	asked  atomic.Int64
	worst  atomic.Int64 // slowest answer in nanoseconds
	cancel context.CancelFunc
	g      *errgroup.Group
}

func startLoad(t *testing.T, w *world, rnd *rand.Rand) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	l.g, ctx = errgroup.WithContext(ctx)
	for i := range 4 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		l.g.Go(func() error { return l.client(ctx, w, rnd, i < 2) })
	}
	t.Cleanup(func() { cancel(); l.g.Wait() })
	return l
}

func (l *load) client(ctx context.Context, w *world, rnd *rand.Rand, keep bool) error {
	var kept *cluster.Client
	defer func() {
		if kept != nil {
			kept.Close()
		}
	}()
	for ctx.Err() == nil {
		if kept == nil {
			c, err := cluster.Dial(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			kept = c
		}
		text, want := w.query(rnd)
		begin := time.Now()
		a, err := kept.Query(ctx, text, structs.BITMAP_ROARING)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = equal(a, want)
		}
		if err != nil {
			return fmt.Errorf("after %d queries, %s (%v): %w", l.asked.Load(), text, time.Since(begin), err)
		}
		l.worst.Store(max(l.worst.Load(), int64(time.Since(begin))))
		l.asked.Add(1)
		if !keep {
			kept.Close()
			kept = nil
		}
	}
	return nil
}

// more waits for n further answers, or for the load's failure.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	target := l.asked.Load() + n
	failed := make(chan error, 1)
	go func() { failed <- l.g.Wait() }()
	for end := time.Now().Add(cluster.Wait); l.asked.Load() < target; {
		select {
		case err := <-failed:
			require.NoError(t, err)
			return
		case <-time.After(10 * time.Millisecond):
			require.True(t, time.Now().Before(end), "the load stands still at %d answers", l.asked.Load())
		}
	}
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	require.NoError(t, l.g.Wait())
}

func TestKillEachSlave(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	rnd := seed(t)
	c := cluster.New(t, cluster.Options{})
	w := newWorld(rnd, 100, 3, 200_000)
	w.load(t, cluster.MustDial(t))

	l := startLoad(t, w, rnd)
	for _, s := range c.Slaves {
		l.more(t, 200)
		s.Kill(t)
		l.more(t, 500)
		s.Restart(t)
		c.AwaitServing(t)
	}
	l.more(t, 200)
	l.stop(t)
	t.Logf("%d answers, all right; the slowest took %v", l.asked.Load(), time.Duration(l.worst.Load()))
	require.GreaterOrEqual(t, l.asked.Load(), int64(2000))
}

func TestStopEachSlave(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	rnd := seed(t)
	c := cluster.New(t, cluster.Options{})
	w := newWorld(rnd, 100, 3, 200_000)
	w.load(t, cluster.MustDial(t))

	l := startLoad(t, w, rnd)
	for _, s := range c.Slaves {
		l.more(t, 200)
		s.Stop(t)
		l.more(t, 500)
		s.Continue(t)
		c.AwaitServing(t)
	}
	l.more(t, 200)
	l.stop(t)
	t.Logf("%d answers, all right; the slowest took %v", l.asked.Load(), time.Duration(l.worst.Load()))
	require.GreaterOrEqual(t, l.asked.Load(), int64(2000))
}
