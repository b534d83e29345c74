package router

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"starfish/catalog"
)

// chooser picks holders. Slaves are their places in Snapshot.Slaves.
type chooser struct {
	snap      *catalog.Snapshot
	slaves    []catalog.Slave
	live      []bool   // may be called: serving and not excluded
	gaps      bool     // a live slave misses ids
	claim     []uint64 // lower is chosen first: the priority or the number of members
	rank      []uint64 // lower is chosen first among equal claims
	ruled     Reason   // what a claim is
	sets      map[catalog.SetID]decision
	lastSet   catalog.SetID // of last; 0: none
	last      decision
	buf, buf2 []int
}

// decision is who serves a vector; place -1: nobody can.
type decision struct {
	place  int
	reason Reason
}

func newChooser(snap *catalog.Snapshot, opts Options) *chooser {
	slaves := snap.Slaves()
	c := &chooser{
		snap: snap, slaves: slaves, ruled: ReasonFewestMembers,
		live: make([]bool, len(slaves)), claim: make([]uint64, len(slaves)), rank: make([]uint64, len(slaves)),
	}
	if slices.ContainsFunc(slaves, func(s catalog.Slave) bool { return s.Priority != nil }) {
		c.ruled = ReasonPriority
	}
	for i := range slaves {
		s := &slaves[i]
		c.live[i] = s.State == catalog.Serving && !opts.Exclude[s.Addr]
		c.gaps = c.gaps || c.live[i] && s.Missing > 0
		c.rank[i] = draw(opts.Seed, s.Addr)
		switch {
		case c.ruled == ReasonFewestMembers:
			c.claim[i] = s.Members
		case s.Priority == nil:
			c.claim[i] = math.MaxInt32 - math.MinInt32
		default:
			c.claim[i] = uint64(int64(*s.Priority) - math.MinInt32)
		}
	}
	return c
}

// draw is a number for the slave that looks random; the slaves in the order of
// their numbers are a random permutation, the same for the same seed whoever else
// there is.
func draw(seed uint64, addr string) uint64 {
	x := xxhash.Sum64String(addr) + seed*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// first returns the place that is chosen of some, and whether another one has an
// equal claim; -1 of none.
func (c *chooser) first(places []int) (best int, tied bool) {
	best = -1
	for _, p := range places {
		switch {
		case best < 0 || c.claim[p] < c.claim[best]:
			best, tied = p, false
		case c.claim[p] == c.claim[best]:
			tied = true
			if c.rank[p] < c.rank[best] {
				best = p
			}
		}
	}
	return best, tied
}

// decide picks one of the places for which ok is true. The reason is that of the
// first choice among all of them, or ReasonFailover where that one is out.
func (c *chooser) decide(places []int, ok func(place int) bool) decision {
	ideal, tied := c.first(places)
	c.buf2 = c.buf2[:0]
	for _, p := range places {
		if c.live[p] && ok(p) {
			c.buf2 = append(c.buf2, p)
		}
	}
	pick, _ := c.first(c.buf2)
	switch {
	case pick < 0:
		return decision{place: -1}
	case pick != ideal:
		return decision{pick, ReasonFailover}
	case len(places) == 1:
		return decision{pick, ReasonOnlyHolder}
	case tied:
		return decision{pick, ReasonRandom}
	}
	return decision{pick, c.ruled}
}

// member picks a holder of a known vector without an open write.
func (c *chooser) member(id uint64, set catalog.SetID) decision {
	if set != c.lastSet {
		d, ok := c.sets[set]
		if !ok {
			d = c.decide(c.holders(set), func(int) bool { return true })
			if c.sets == nil {
				c.sets = map[catalog.SetID]decision{}
			}
			c.sets[set] = d
		}
		c.lastSet, c.last = set, d
	}
	if c.gaps && c.last.place >= 0 && c.snap.MissingAt(c.last.place, id) {
		return c.decide(c.holders(set), func(p int) bool { return !c.snap.MissingAt(p, id) })
	}
	return c.last
}

// holders returns the places of a set until the next call.
func (c *chooser) holders(set catalog.SetID) []int {
	c.buf = c.snap.HolderPlaces(set, c.buf[:0])
	return c.buf
}

// confirmed picks a holder of a vector with an open write: of those that are known
// to have its revision.
func (c *chooser) confirmed(in *catalog.Intent) decision {
	return c.decide(c.places(in.Holders), func(p int) bool { return slices.Contains(in.Confirmed, c.slaves[p].Addr) })
}

// places returns the places of addresses until the next call.
func (c *chooser) places(addrs []string) []int {
	c.buf = c.buf[:0]
	for _, a := range addrs {
		if p, ok := c.snap.Place(a); ok {
			c.buf = append(c.buf, p)
		}
	}
	return c.buf
}

// coordinator picks the slave that runs the plan, or returns "".
// bytes are what each slave reads for it.
func (c *chooser) coordinator(opts Options, bytes []uint64) string {
	var able []int
	for p, s := range c.slaves {
		if c.live[p] && s.Protocol == 2 {
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		return ""
	}
	if opts.Policy == RoundRobin {
		return c.slaves[able[opts.Turn%uint64(len(able))]].Addr
	}
	if opts.Policy == Bandwidth {
		able = nearMost(able, bytes)
	}
	best := able[0]
	var bestRank uint64
	for i, p := range able {
		// Not the rank of ties, or it would always be their winner.
		if rank := draw(^opts.Seed, c.slaves[p].Addr); i == 0 || rank < bestRank {
			best, bestRank = p, rank
		}
	}
	return c.slaves[best].Addr
}

// nearMost keeps the places with at least 7/8 of the most bytes: a little less to
// send is not worth that one slave coordinates all queries.
func nearMost(places []int, bytes []uint64) []int {
	var most uint64
	for _, p := range places {
		most = max(most, bytes[p])
	}
	return slices.DeleteFunc(places, func(p int) bool { return bytes[p] < most-most/8 })
}
