package health

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/machine"
)

// same is the error of a slave that is the same process as another one, joined
// under two addresses: two copies of a vector would be on one disk. The one that
// holds more stays.
func (h *Health) same(w *watched, instance uint64) error {
	snap := h.cfg.Views.Snapshot()
	self, _ := snap.Slave(w.addr)
	for _, addr := range h.named(w, instance) {
		s, _ := snap.Slave(addr)
		if s.Members > self.Members || s.Members == self.Members && machine.CompareSpelled(addr, w.addr) < 0 {
			return fmt.Errorf("health: %s and %s are one slave: start it with --addr %s, where its vectors are", w.addr, addr, addr)
		}
		if s.State == catalog.Serving {
			h.Recompare(addr)
		}
	}
	return nil
}

// named are the other addresses under which the process is known. Those that serve
// are asked who they are now: a process that was started anew with another address
// joins with that one alone.
func (h *Health) named(w *watched, instance uint64) (addrs []string) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.slaves))
	h.mu.Unlock()
	snap := h.cfg.Views.Snapshot()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(16)
	for _, other := range all {
		if other == w {
			continue
		}
		other.mu.Lock()
		at := other.instance
		other.mu.Unlock()
		g.Go(func() error {
			if s, _ := snap.Slave(other.addr); at != instance && s.State == catalog.Serving && s.Protocol != 1 {
				page, err := h.page(h.ctx, other.addr, 0, 1)
				if err != nil {
					return nil // its own visit sees to that
				}
				at = page.Instance
			}
			if at == instance {
				mu.Lock()
				defer mu.Unlock()
				addrs = append(addrs, other.addr)
			}
			return nil
		})
	}
	g.Wait()
	slices.SortFunc(addrs, machine.CompareSpelled)
	return addrs
}
