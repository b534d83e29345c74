package slave

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"
)

// storeFault is what is wrong with writing to the store. A full disk fails most
// writes and takes one now and then, and the master tries again every few seconds:
// the fault stays until all went well for faultQuiet, and is logged once.
type storeFault struct {
	mu   sync.Mutex
	text string    // without the vector; "": it works
	last time.Time // that a call failed
}

const faultQuiet = time.Minute

// worked notes a write that is on disk.
func (f *storeFault) worked(log *slog.Logger, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.text != "" && now.Sub(f.last) >= faultQuiet {
		log.Info("the store works again")
		f.text = ""
	}
}

// failed notes an error of the store.
func (f *storeFault) failed(log *slog.Logger, err error, now time.Time) {
	text := err.Error()
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		text = errno.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = now
	if f.text != text {
		log.Error("the store failed", "err", err)
		f.text = text
	}
}

// problem is what the master shows of the slave's disk, "" where all is well.
func (s *Slave) problem() string {
	const longest = 255 // join_request.problem
	var parts []string
	s.fault.mu.Lock()
	if s.fault.text != "" {
		parts = append(parts, "its disk: "+s.fault.text)
	}
	s.fault.mu.Unlock()
	switch n, first := s.store.Damaged(); {
	case n == 1:
		parts = append(parts, fmt.Sprintf("vector %d is damaged: put it anew", first))
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d vectors are damaged, the first is %d: put them anew", n, first))
	}
	text := strings.Join(parts, "; ")
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}
