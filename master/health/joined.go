package health

import (
	"starfish/catalog"
	"starfish/peer"
)

// Joined is what a slave's JOIN says of its process.
type Joined struct {
	Instance uint64      // of the process; 0: unknown
	Secret   peer.Secret // by which it knows us; zeros: none
	Problem  string      // of its disk
}

// Joined notes a JOIN: a new process is not trusted to hold what the old one held.
func (h *Health) Joined(addr string, j Joined) {
	w := h.watch(addr)
	w.mu.Lock()
	if j.Secret != (peer.Secret{}) && j.Secret != w.secret {
		w.secret = j.Secret
		close(w.learned)
		w.learned = make(chan struct{})
		w.notes.add(h.cfg.Serving) // writes may have been refused for want of it
	}
	if j.Instance != 0 && w.compared > 0 && w.instance != j.Instance {
		w.asked++
		w.doubt()
		w.notes.add(func() { h.tellState(w, catalog.Joining, "") })
	}
	w.word = j.Problem
	w.notes.add(func() {
		if s, _ := h.cfg.Views.Snapshot().Slave(addr); s.State == catalog.Serving {
			h.tellState(w, catalog.Serving, j.Problem)
		} else {
			w.wake()
		}
	})
	w.mu.Unlock()
	w.notes.flush()
}

// Secret is by what the slave knows us; learned is closed when there is another.
func (h *Health) Secret(addr string) (secret peer.Secret, learned <-chan struct{}) {
	w := h.slave(addr)
	if w == nil {
		return secret, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secret, w.learned
}
