package portmap

import (
	"net/netip"
	"sync"
	"time"
)

// limiter bounds the calls of each source to a rate: a bucket of tokens for
// each. With MaxSources remembered, the one that came first is forgotten.
type limiter struct {
	rate  float64 // tokens a second
	burst float64 // tokens at most

	mu      sync.Mutex
	sources map[netip.Addr]*bucket
	ring    []netip.Addr // the sources, in the order they came
	next    int          // the place in ring of who came first
}

type bucket struct {
	tokens float64
	at     time.Time // when tokens was right
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, sources: make(map[netip.Addr]*bucket)}
}

// allow takes a token of addr's; false where there is none.
func (l *limiter) allow(addr netip.Addr, now time.Time) bool {
	addr = sourceOf(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.sources[addr]
	if b == nil {
		b = l.remember(addr, now)
	}
	return b.take(1, l.rate, l.burst, now)
}

// take takes n tokens of b, which gets rate of them a second and holds burst.
func (b *bucket) take(n, rate, burst float64, now time.Time) bool {
	b.tokens = min(burst, b.tokens+max(0, now.Sub(b.at).Seconds())*rate)
	b.at = now
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

func (l *limiter) remember(addr netip.Addr, now time.Time) *bucket {
	if len(l.ring) < MaxSources {
		l.ring = append(l.ring, addr)
	} else {
		delete(l.sources, l.ring[l.next])
		l.ring[l.next] = addr
		l.next = (l.next + 1) % MaxSources
	}
	b := &bucket{tokens: l.burst, at: now}
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
type longAnswers struct {
	mu sync.Mutex
	bucket
}

// allow takes the bytes of an answer; a short one is always allowed.
func (l *longAnswers) allow(n int, now time.Time) bool {
	if n < LongAnswer {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.tokens = LongBytes
	}
	return l.take(float64(n), LongRate, LongBytes, now)
}
