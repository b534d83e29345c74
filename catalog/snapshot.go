package catalog

import (
	"slices"

	"github.com/tidwall/btree"
)

// Snapshot is one immutable view of the cluster. Slices that its methods return
// are shared: do not modify them.
type Snapshot struct {
	epoch   uint64
	last    uint64 // revision that was given last
	slaves  []Slave
	missing []*btree.Map[uint64, uint64] // a slave each, ids to the revision that is missing; nil: none
	numbers []uint32                     // a slave each
	spans   [][]Span                     // a slave each; nil but for static ones
	index   map[string]int               // address to place in slaves
	place   []int                        // number of a slave to its place in slaves
	ids     idMap
	sets    []holderSet
	names   *btree.Map[uint64, string]
	intents *btree.Map[uint64, *Intent]
	slots   *[Slots]SetID
}

// SetID names a set of holders within one catalog; 0 is the empty set.
type SetID uint32

// holderSet is a set of holders that ids share.
type holderSet struct {
	numbers []uint32 // of the slaves, in the global machine order
	addrs   []string // likewise
	lagging []uint32 // those of them that are not in sync, likewise
	pinned  bool
}

// Epoch is the version of the list of slaves with their priorities. It grows
// with each change of them and never goes back.
func (s *Snapshot) Epoch() uint64 { return s.epoch }

// Slaves are all known slaves in the global machine order.
func (s *Snapshot) Slaves() []Slave { return s.slaves }

// Slave returns the slave with that address.
func (s *Snapshot) Slave(addr string) (Slave, bool) {
	i, ok := s.index[addr]
	if !ok {
		return Slave{}, false
	}
	return s.slaves[i], true
}

// Known is the number of known ids.
func (s *Snapshot) Known() uint64 { return s.ids.n }

// Member returns the vector of that id. An id whose first put is not finished is
// no member yet: see Pending.
func (s *Snapshot) Member(id uint64) (Member, bool) {
	e, ok := s.ids.get(id)
	if !ok {
		return Member{}, false
	}
	return s.member(e), true
}

func (s *Snapshot) member(e entry) Member {
	set := &s.sets[e.set]
	m := Member{ID: e.id, Bytes: uint64(e.size), Holders: set.addrs, Pinned: set.pinned}
	if s.names.Len() > 0 {
		m.Name, _ = s.names.Get(e.id)
	}
	return m
}

// Written is what the last finished put of an id left.
type Written struct {
	Revision uint64 // 0: not noted, by a release before it was, or of what static slaves alone hold
	Checksum uint64 // 0: not noted
	Count    uint64 // of elements; 0: not noted
	InSync   []string
}

// Written returns what the last finished put of the id left; zero: not known.
func (s *Snapshot) Written(id uint64) (w Written) {
	e, _ := s.ids.get(id)
	set := &s.sets[e.set]
	w = Written{Revision: e.revision, Checksum: e.checksum, Count: uint64(e.count), InSync: set.addrs}
	if len(set.lagging) > 0 {
		w.InSync = nil
		for i, n := range set.numbers {
			if !slices.Contains(set.lagging, n) {
				w.InSync = append(w.InSync, set.addrs[i])
			}
		}
	}
	return w
}

// Ascend calls f for the known ids from lo to hi, both inclusive, in ascending
// order, until it returns false.
func (s *Snapshot) Ascend(lo, hi uint64, f func(Member) bool) {
	s.ids.ascend(lo, hi, func(e entry) bool { return f(s.member(e)) })
}

// AscendSets is Ascend without the cost of a Member: each id with the set of its
// holders and its bytes.
func (s *Snapshot) AscendSets(lo, hi uint64, f func(id uint64, set SetID, bytes uint64) bool) {
	s.ids.ascend(lo, hi, func(e entry) bool { return f(e.id, e.set, uint64(e.size)) })
}

// HolderPlaces appends the places in Slaves of the set's holders to dst, ascending.
func (s *Snapshot) HolderPlaces(set SetID, dst []int) []int {
	for _, n := range s.sets[set].numbers {
		dst = append(dst, s.place[n])
	}
	return dst
}

// Place returns where in Slaves the slave with that address stands.
func (s *Snapshot) Place(addr string) (int, bool) {
	i, ok := s.index[addr]
	return i, ok
}

// IsMissing says that the slave should hold the id and does not have it.
func (s *Snapshot) IsMissing(addr string, id uint64) bool {
	i, ok := s.index[addr]
	return ok && s.MissingAt(i, id)
}

// MissingAt is IsMissing for the slave at that place in Slaves.
func (s *Snapshot) MissingAt(place int, id uint64) bool {
	m := s.missing[place]
	if m == nil {
		return false
	}
	_, lacks := m.Get(id)
	return lacks
}

// Pending returns the unfinished write to the id.
func (s *Snapshot) Pending(id uint64) (Intent, bool) {
	in, ok := s.intents.Get(id)
	if !ok {
		return Intent{}, false
	}
	return *in, true
}

// Intents are all unfinished writes, by ascending id.
func (s *Snapshot) Intents() []Intent {
	out := make([]Intent, 0, s.intents.Len())
	s.intents.Scan(func(_ uint64, in *Intent) bool {
		out = append(out, *in)
		return true
	})
	return out
}

// AscendIntents calls f for the unfinished writes to ids from lo to hi, both
// inclusive, in ascending order, until it returns false.
func (s *Snapshot) AscendIntents(lo, hi uint64, f func(*Intent) bool) {
	s.intents.Ascend(lo, func(id uint64, in *Intent) bool { return id <= hi && f(in) })
}

// UnderReplicated counts the known ids with fewer live copies than replicas; of
// pinned vectors and those of static slaves with fewer than were asked for. What a
// holder misses, or one that does not serve has, is no live copy.
func (s *Snapshot) UnderReplicated(replicas int) uint64 {
	want, live := make([]int, len(s.sets)), make([]int, len(s.sets))
	for i, set := range s.sets {
		for _, n := range set.numbers {
			if s.slaves[s.place[n]].State == Serving {
				live[i]++
			}
		}
		want[i] = replicas
		if set.pinned || slices.ContainsFunc(set.numbers, func(n uint32) bool { return s.slaves[s.place[n]].Protocol == 1 }) {
			want[i] = len(set.numbers)
		}
	}
	gaps := s.gaps()
	var n uint64
	s.ids.ascend(0, ^uint64(0), func(e entry) bool {
		have := live[e.set]
		for _, number := range s.sets[e.set].numbers {
			if i := s.place[number]; gaps && s.slaves[i].State == Serving && s.MissingAt(i, e.id) {
				have--
			}
		}
		if have < want[e.set] {
			n++
		}
		return true
	})
	return n
}

// gaps says that a slave misses something.
func (s *Snapshot) gaps() bool {
	return slices.ContainsFunc(s.missing, func(m *btree.Map[uint64, uint64]) bool { return m != nil })
}

// Unavailable counts the known ids of which no holder is serving. Ids that a
// serving holder misses count where all of the others are away.
func (s *Snapshot) Unavailable() uint64 {
	live := make([]bool, len(s.sets))
	for i := range s.sets {
		live[i] = slices.ContainsFunc(s.sets[i].numbers, func(n uint32) bool {
			return s.slaves[s.place[n]].State == Serving
		})
	}
	gaps := s.gaps()
	var n uint64
	s.ids.ascend(0, ^uint64(0), func(e entry) bool {
		if !live[e.set] || gaps && !s.hasHolder(e) {
			n++
		}
		return true
	})
	return n
}

func (s *Snapshot) hasHolder(e entry) bool {
	return slices.ContainsFunc(s.sets[e.set].numbers, func(n uint32) bool {
		i := s.place[n]
		return s.slaves[i].State == Serving && !s.MissingAt(i, e.id)
	})
}
