package slave

import (
	"context"
	"runtime"
)

// computingPerCPU is more than one, so that somebody computes while others wait
// for the disk.
const computingPerCPU = 4

func newComputing() chan struct{} {
	return make(chan struct{}, computingPerCPU*runtime.GOMAXPROCS(0))
}

// compute runs f, which calls no other machine and does not call compute, once
// fewer than computingPerCPU others run for each CPU. Of hundreds of calls in
// flight each would else wait for a turn of all others, and so would the probes
// by which a busy slave is told from a dead one.
func (s *Slave) compute(ctx context.Context, f func() error) error {
	select {
	case s.computing <- struct{}{}:
		defer func() { <-s.computing }()
		return f()
	case <-ctx.Done():
		return late(ctx)
	}
}
