package delegate

import (
	"math/rand/v2"
	"sync"
)

// seeds draws a seed for each query that brings none.
type seeds struct {
	mu  sync.Mutex
	rnd *rand.Rand // nil: chance
}

func newSeeds(seed uint64) *seeds {
	if seed == 0 {
		return &seeds{}
	}
	return &seeds{rnd: rand.New(rand.NewPCG(seed, seed))}
}

// of returns asked, or a drawn seed where that is 0. It is never 0.
func (s *seeds) of(asked uint64) uint64 {
	if asked != 0 {
		return asked
	}
	if s.rnd == nil {
		return max(rand.Uint64(), 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.rnd.Uint64(), 1)
}
