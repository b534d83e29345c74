package portmap

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What callers can make us log: lines a second, and at once.
const (
	logRate  = 1
	logBurst = 50
)

// quiet is a log handler that bounds what callers can have written: lines that
// exceed the rate are left out, and counted in the next one that is written.
// What is below slog.LevelInfo is for whoever asked for it, and not bounded.
type quiet struct {
	slog.Handler
	count *quietCount // shared by the handlers made of this one
}

type quietCount struct {
	mu    sync.Mutex
	lines *rate.Limiter
	left  int // lines left out since the last one
}

func newQuiet(h slog.Handler) quiet {
	return quiet{h, &quietCount{lines: rate.NewLimiter(logRate, logBurst)}}
}

// Handle writes r or leaves it out.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		left, ok := q.count.take(r.Time)
		if !ok {
			return nil
		}
		if left > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", left))
		}
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs keeps the bound.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.count}
}

// WithGroup keeps the bound.
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.count}
}

// take takes a token; left is how many lines were left out before.
func (c *quietCount) take(now time.Time) (left int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lines.AllowN(now, 1) {
		c.left++
		return 0, false
	}
	left, c.left = c.left, 0
	return left, true
}
