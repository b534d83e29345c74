package portmap

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter bounds the calls of each source to a rate: a bucket of tokens for
// each. With MaxSources remembered, the one that came first is forgotten.
type limiter struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	sources map[netip.Addr]*rate.Limiter
	ring    []netip.Addr // the sources, in the order they came
	next    int          // the place in ring of who came first
}

func newLimiter(perSecond, burst float64) *limiter {
	return &limiter{rate: rate.Limit(perSecond), burst: int(min(burst, math.MaxInt32)), sources: make(map[netip.Addr]*rate.Limiter)}
}

// allow takes a token of addr's; false where there is none.
func (l *limiter) allow(addr netip.Addr, now time.Time) bool {
	addr = sourceOf(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.sources[addr]
	if b == nil {
		b = l.remember(addr)
	}
	return b.AllowN(now, 1)
}

func (l *limiter) remember(addr netip.Addr) *rate.Limiter {
	if len(l.ring) < MaxSources {
		l.ring = append(l.ring, addr)
	} else {
		delete(l.sources, l.ring[l.next])
		l.ring[l.next] = addr
		l.next = (l.next + 1) % MaxSources
	}
	b := rate.NewLimiter(l.rate, l.burst)
	l.sources[addr] = b
	return b
}

// sourceOf is what counts as one source: an IPv4 address, or the /64 that an
// IPv6 host may choose its addresses from.
func sourceOf(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

// longAnswers bounds the bytes of long answers.
type longAnswers struct{ bytes *rate.Limiter }

func newLongAnswers() longAnswers { return longAnswers{rate.NewLimiter(LongRate, LongBytes)} }

// allow takes the bytes of an answer; a short one is always allowed.
func (l longAnswers) allow(n int, now time.Time) bool {
	return n < LongAnswer || l.bytes.AllowN(now, n)
}
