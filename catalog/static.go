package catalog

import (
	"fmt"
	"maps"
	"slices"
)

// Claim is what a static slave is to hold.
type Claim struct {
	IDs []Span // all of it: what it held before and is not among them is given up

	// Known are ids of others that it may claim, ascending: those of which its
	// content was found to be theirs, or which they are to lose. Any other id that
	// somebody holds, or that a write is open for, refuses the claim.
	Known []uint64
	Alone bool // the others lose what it claims
}

// Spans are the ids that the static slave was joined with, in the order of
// MergeSpans.
func (s *Snapshot) Spans(addr string) []Span {
	i, ok := s.index[addr]
	if !ok {
		return nil
	}
	return s.spans[i]
}

// Shared calls f for the ids of the spans that a slave other than addr holds, in
// ascending order, until it returns false.
func (s *Snapshot) Shared(addr string, spans []Span, f func(Member) bool) {
	i, known := s.index[addr]
	for _, span := range spans {
		more := true
		s.ids.ascend(span.First, span.Last, func(e entry) bool {
			for _, n := range s.sets[e.set].numbers {
				if !known || s.place[n] != i {
					more = f(s.member(e))
					break
				}
			}
			return more
		})
		if !more {
			return
		}
	}
}

// OnlyHeld are the ids that no other slave holds, of a static one.
func (s *Snapshot) OnlyHeld(addr string) []Span {
	return s.alone(addr, s.Spans(addr))
}

// alone are the ids of the spans that addr holds and no other slave.
func (s *Snapshot) alone(addr string, spans []Span) (out []Span) {
	i, known := s.index[addr]
	if !known {
		return nil
	}
	for _, span := range spans {
		s.ids.ascend(span.First, span.Last, func(e entry) bool {
			if numbers := s.sets[e.set].numbers; len(numbers) == 1 && s.place[numbers[0]] == i {
				out = appendID(out, e.id)
			}
			return true
		})
	}
	return out
}

// checkClaim says whether the static slave may claim the ids.
func (t *Table) checkClaim(s Slave, c Claim) error {
	var own []Span
	if e := t.byAddr[s.Addr]; e != nil {
		own = e.spans
	}
	if c.Alone { // what it shares is taken from others as well
		own = nil
	}
	for _, span := range SubtractSpans(MergeSpans(c.IDs), own) {
		var err error
		t.ids.ascend(span.First, span.Last, func(e entry) bool {
			if _, may := slices.BinarySearch(c.Known, e.id); may {
				return true
			}
			for _, n := range t.sets[e.set].numbers {
				if other := t.slaves[t.place[n]].Addr; other != s.Addr {
					err = fmt.Errorf("%w: vector %d is on %s", ErrTaken, e.id, other)
					return false
				}
			}
			return true
		})
		t.intents.Ascend(span.First, func(id uint64, in *Intent) bool {
			if err == nil && id <= span.Last {
				err = fmt.Errorf("%w: a write of vector %d is not finished", ErrTaken, id)
			}
			return false
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// evict takes the ids from all holders; static slaves keep the rest of theirs.
func (t *Table) evict(ids []uint64) {
	lost := map[string][]Span{}
	for _, id := range ids {
		v, _ := t.ids.get(id)
		for _, a := range t.addrs(t.static(v.set)) {
			lost[a] = appendID(lost[a], id)
		}
		t.put(entry{id: id})
	}
	for _, addr := range slices.Sorted(maps.Keys(lost)) {
		e := t.byAddr[addr]
		e.spans = SubtractSpans(e.spans, lost[addr])
		t.dirty.slaves[addr] = struct{}{}
	}
}

// checkRemove says whether the slave may be forgotten. One that has served is
// known by what it holds, or may still be given: a static one loses its ids with
// it, of another nothing may be left.
func (t *Table) checkRemove(c Remove) error {
	e := t.byAddr[c.Addr]
	if e == nil {
		return fmt.Errorf("%w: %s", ErrUnknownSlave, c.Addr)
	}
	if e.Protocol == 1 {
		if only := t.Snapshot().OnlyHeld(c.Addr); len(only) > 0 && !c.Forget {
			return fmt.Errorf("%w: %s alone holds %d vectors, the first is %d", ErrOnlyHolder, c.Addr, CountIDs(only), only[0].First)
		}
		return nil
	}
	if e.Members > 0 || c.Served || t.expected(e) {
		return fmt.Errorf("%w: %s", ErrServed, c.Addr)
	}
	return nil
}

// expected says that a slot or an open write names the slave.
func (t *Table) expected(e *slaveEntry) bool {
	names := false
	t.intents.Scan(func(_ uint64, in *Intent) bool {
		names = slices.Contains(in.Holders, e.Addr)
		return !names
	})
	return names || slices.ContainsFunc(t.slots[:], func(set SetID) bool { return slices.Contains(t.sets[set].numbers, e.number) })
}

// removeSlave forgets the slave, and the ids that it alone held.
func (t *Table) removeSlave(addr string) {
	e := t.byAddr[addr]
	eachID(e.spans, func(id uint64) { t.claim(id, e, false) })
	t.sets = slices.Clone(t.sets) // snapshots have the old ones
	for i, set := range t.sets {
		if slices.Contains(set.numbers, e.number) { // no id has it any more
			t.sets[i] = holderSet{}
		}
	}
	maps.DeleteFunc(t.interns, func(_ string, set SetID) bool { return len(t.sets[set].numbers) == 0 })
	delete(t.byAddr, addr)
	t.slaves = slices.DeleteFunc(slices.Clone(t.slaves), func(other *slaveEntry) bool { return other == e })
	t.reindex()
	t.dirty.slaves[addr] = struct{}{}
}
