package fold

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

const (
	// chunkWork is about how many bytes are read between two looks at the
	// context, and for what one goroutine takes at a time.
	chunkWork = 64 << 10
	// soloWork is up to how many bytes one goroutine reads alone: one or two
	// hundred microseconds, which others would not shorten much.
	soloWork = 8 * chunkWork
	// keyWork is what a key costs, however little is in it.
	keyWork = 256
	// legWork is soloWork for a leg, most of which is copied: two goroutines would
	// have a copy of their own each, which is moved once more.
	legWork = 4 << 20
)

// run does a task with all that align found, on several goroutines where it is
// large: then each chunk of keys has an output of its own.
func (g *Gather) run(ctx context.Context, t task) error {
	total := g.cut()
	workers := 1
	alone := soloWork
	if t == taskLeg {
		alone = legWork
	}
	if total > alone && t != taskWord { // a word's keys are wanted in order
		workers = min(runtime.GOMAXPROCS(0), len(g.cuts))
	}
	for i := range workers {
		g.worker(i).begin(t)
	}
	for _, w := range g.workers[workers:] {
		w.begin(t)
	}
	outs := 1
	if workers > 1 {
		outs = len(g.cuts)
	}
	g.outs = resize(g.outs, outs)
	for i := range g.outs {
		g.outs[i].reset(t == taskLeg)
	}
	if workers > 1 {
		g.share(ctx, g.workers[:workers])
		return ctx.Err()
	}
	w := g.workers[0]
	w.out = &g.outs[0]
	if t == taskLeg { // straight to where the frame is wanted
		w.out.body, g.spare, g.frame = g.frame, w.out.body, nil
	}
	for i := 0; i < len(g.cuts) && ctx.Err() == nil; i++ {
		w.chunk(i)
	}
	return ctx.Err()
}

// share has the workers take one chunk after the other, until none is left.
func (g *Gather) share(ctx context.Context, workers []*worker) {
	var next atomic.Int64
	var wg sync.WaitGroup
	var panicked atomic.Pointer[any]
	for _, w := range workers {
		wg.Go(func() {
			// The bytes may be a mapped file's: a page that cannot be read is the
			// caller's to deal with, on its own goroutine.
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(&p)
				}
			}()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(g.cuts) {
					return
				}
				w.out = &g.outs[i]
				w.chunk(i)
			}
		})
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

// worker is worker i, which is made where there is none yet.
func (g *Gather) worker(i int) *worker {
	for len(g.workers) <= i {
		g.workers = append(g.workers, &worker{g: g})
	}
	return g.workers[i]
}

// cut divides the keys into chunks, and returns about how many bytes are read.
func (g *Gather) cut() (total int) {
	g.cuts = g.cuts[:0]
	work := 0
	for i := range g.keys {
		work += g.keys[i].work + keyWork
		if work >= chunkWork || i == len(g.keys)-1 {
			g.cuts = append(g.cuts, i+1)
			total += work
			work = 0
		}
	}
	return total
}

// chunk folds a chunk of keys.
func (w *worker) chunk(i int) {
	from := 0
	if i > 0 {
		from = w.g.cuts[i-1]
	}
	n := len(w.g.parts)
	for k := from; k < w.g.cuts[i] && !w.above; k++ {
		w.key(w.g.keys[k].key, w.g.spans[k*n:(k+1)*n])
	}
}
