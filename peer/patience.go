package peer

import (
	"context"
	"sync"
	"time"
)

const (
	patienceSteps = 4 // that a timeout is counted in
	patienceExtra = 4 // more steps at most, where they come late
)

// MaxSilence is how long a machine may be silent at most before it is blamed,
// where this process is too busy to look in time.
func MaxSilence(hopTimeout time.Duration) time.Duration {
	return hopTimeout * (patienceSteps + patienceExtra) / patienceSteps
}

// patient is context.WithTimeoutCause for the silence of another machine. It is
// counted in steps, and a step that comes late does not end it: then this
// process itself was stopped or had no CPU, and the answer may lie unread.
func patient(ctx context.Context, timeout time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{step: timeout / patienceSteps, last: time.Now(), end: func() { cancel(cause) }}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.step, func() { p.tick(time.Now()) })
	p.mu.Unlock()
	return ctx, func() {
		p.stop()
		cancel(nil)
	}
}

// patience is the state of one patient.
type patience struct {
	step time.Duration
	end  func()

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // of the last step
	steps int
	over  bool
}

// tick counts one step.
func (p *patience) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	late := now.Sub(p.last) > 2*p.step
	p.last = now
	p.steps++
	if p.steps < patienceSteps || late && p.steps < patienceSteps+patienceExtra {
		p.timer.Reset(p.step)
		return
	}
	p.over = true
	p.end()
}

func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}
