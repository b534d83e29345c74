package health

import (
	"context"
	"fmt"

	"starfish/catalog"
)

// Blame notes that a call to the slave failed: it serves no more until a visit
// finds it alive. The catalog says so when Blame returns.
func (h *Health) Blame(addr string, why string) {
	w := h.slave(addr)
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.removed() {
		w.mu.Unlock()
		return
	}
	w.doubt()
	w.notes.add(func() { h.tellState(w, catalog.Down, why) })
	w.mu.Unlock()
	w.notes.flush()
	w.wake()
}

// Doubt returns the channel that is closed when it is known whether the slave
// serves, nil where that is known already.
func (h *Health) Doubt(addr string) <-chan struct{} {
	w := h.slave(addr)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.decided() {
		return nil
	}
	return w.verdict
}

// Verdicts returns for each of the slaves the channel that is or will be closed when
// it is known whether it serves; another one since then: it was in doubt meanwhile.
func (h *Health) Verdicts(addrs []string) []<-chan struct{} {
	out := make([]<-chan struct{}, len(addrs))
	for i, addr := range addrs {
		if w := h.slave(addr); w != nil {
			w.mu.Lock()
			out[i] = w.verdict
			w.mu.Unlock()
		}
	}
	return out
}

// LookAround has every slave visited, and waits until each was at least once.
func (h *Health) LookAround(ctx context.Context) {
	for _, s := range h.cfg.Views.Snapshot().Slaves() {
		w := h.slave(s.Addr)
		if w == nil {
			continue
		}
		w.wake()
		select {
		case <-w.seen:
		case <-ctx.Done():
			return
		}
	}
}

// AwaitVerdict waits until it is known whether addr serves.
func (h *Health) AwaitVerdict(ctx context.Context, addr string) error {
	ch := h.Doubt(addr)
	if ch == nil {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("health: waiting for a sign of %s: %w", addr, ctx.Err())
	}
}

// AwaitVerdicts waits for the verdict on all of them; false: there was none to wait
// for, or ctx ended first.
func (h *Health) AwaitVerdicts(ctx context.Context, addrs []string) (waited bool) {
	for _, addr := range addrs {
		waited = waited || h.Doubt(addr) != nil
		if h.AwaitVerdict(ctx, addr) != nil {
			return false
		}
	}
	return waited
}
