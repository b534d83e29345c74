package catalog

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"starfish/machine"
)

// MaxStaticIDs bounds the ids of a static slave.
const MaxStaticIDs = 1 << 20

const (
	maxAddr   = 255     // MAX_MACHINE_ADDR of structs.x
	maxNumber = 1 << 20 // slaves that ever joined
)

// staticBytes is the size of a static slave's vector: one word.
const staticBytes = 8

// Table is what the changes of a log make, in memory. It is a function of them
// alone: no clock, no order of a map, nothing that one process saw. What is durable
// of it is given out as records, and read from them again. It is not safe for
// concurrent use; the snapshots that it gives are.
type Table struct {
	epoch    uint64
	revision uint64        // that was given last
	number   uint64        // of a slave, that was given last
	slaves   []*slaveEntry // in the global machine order
	byAddr   map[string]*slaveEntry
	index    map[string]int // for snapshots; replaced, never changed
	place    []int          // likewise
	ids      idMap
	sets     []holderSet
	interns  map[string]SetID
	names    *btree.Map[uint64, string]
	intents  *btree.Map[uint64, *Intent] // Confirmed is not used
	slots    *[Slots]SetID               // replaced, never changed
	dirty    dirty
	restored map[string]bool // counters that were read back; nil but while records are: then nothing is dirty
}

// slaveEntry uses the durable fields of Slave alone.
type slaveEntry struct {
	Slave
	number uint32
	spans  []Span // of a static slave; replaced, never changed
}

// NewTable returns a table without slaves and ids.
func NewTable() *Table {
	return &Table{
		byAddr:  map[string]*slaveEntry{},
		ids:     newIDMap(),
		sets:    []holderSet{{}},
		interns: map[string]SetID{},
		names:   new(btree.Map[uint64, string]),
		intents: new(btree.Map[uint64, *Intent]),
		slots:   new([Slots]SetID),
		dirty:   newDirty(),
	}
}

// Snapshot returns the table as it is now. No slave of it was sighted.
func (t *Table) Snapshot() *Snapshot {
	s := &Snapshot{
		epoch:   t.epoch,
		last:    t.revision,
		slaves:  make([]Slave, len(t.slaves)),
		missing: make([]*btree.Map[uint64, uint64], len(t.slaves)),
		spans:   make([][]Span, len(t.slaves)),
		numbers: make([]uint32, len(t.slaves)),
		index:   t.index,
		place:   t.place,
		ids:     t.ids.copy(),
		sets:    t.sets,
		names:   t.names.Copy(),
		intents: t.intents.Copy(),
		slots:   t.slots,
	}
	for i, e := range t.slaves {
		s.slaves[i] = e.Slave
		s.spans[i] = e.spans
		s.numbers[i] = e.number
	}
	return s
}

func checkSlave(s Slave, ids []Span) error {
	if s.Addr == "" || len(s.Addr) > maxAddr {
		return fmt.Errorf("%w: address of %d bytes; 1 to %d are allowed", ErrInvalid, len(s.Addr), maxAddr)
	}
	for _, c := range []byte(s.Addr) {
		if c <= ' ' || c == 0x7f {
			return fmt.Errorf("%w: address %q has a blank or a control character", ErrInvalid, s.Addr)
		}
	}
	switch {
	case s.Protocol != 1 && s.Protocol != 2:
		return fmt.Errorf("%w: protocol %d of %s; there are 1 and 2", ErrInvalid, s.Protocol, s.Addr)
	case s.Protocol == 2 && len(ids) > 0:
		return fmt.Errorf("%w: only a slave of protocol 1 joins with ids, %s has protocol 2", ErrInvalid, s.Addr)
	}
	left := uint64(MaxStaticIDs)
	for _, span := range MergeSpans(ids) {
		if span.Last-span.First >= left {
			return fmt.Errorf("%w: %s joins with more than %d ids", ErrInvalid, s.Addr, MaxStaticIDs)
		}
		left -= span.Last - span.First + 1
	}
	for _, span := range ids {
		if span.First > span.Last {
			return fmt.Errorf("%w: ids %d-%d of %s: the first is above the last", ErrInvalid, span.First, span.Last, s.Addr)
		}
	}
	return nil
}

// putSlave adds the slave or changes all that is durable of it but its number.
func (t *Table) putSlave(number uint32, s Slave, ids []Span) {
	e := t.byAddr[s.Addr]
	if e == nil {
		e = &slaveEntry{number: number}
		e.Addr = s.Addr
		t.byAddr[s.Addr] = e
		t.slaves = append(slices.Clone(t.slaves), e)
		slices.SortFunc(t.slaves, func(a, b *slaveEntry) int { return machine.CompareSpelled(a.Addr, b.Addr) })
		t.reindex()
	}
	e.Protocol, e.Weight, e.Identity, e.Priority = s.Protocol, s.Weight, s.Identity, nil
	if s.Priority != nil {
		p := *s.Priority
		e.Priority = &p
	}
	eachID(SubtractSpans(e.spans, ids), func(id uint64) { t.claim(id, e, false) })
	eachID(SubtractSpans(ids, e.spans), func(id uint64) { t.claim(id, e, true) })
	e.spans = ids
	t.dirty.slaves[s.Addr] = struct{}{}
}

func (t *Table) reindex() {
	t.index = make(map[string]int, len(t.slaves))
	var last uint32
	for i, e := range t.slaves {
		t.index[e.Addr] = i
		last = max(last, e.number)
	}
	t.place = make([]int, last+1)
	for i, e := range t.slaves {
		t.place[e.number] = i
	}
}

func eachID(spans []Span, f func(uint64)) {
	for _, s := range spans {
		for id := s.First; ; id++ {
			f(id)
			if id == s.Last {
				break
			}
		}
	}
}

// claim makes the static slave a holder of the id, or takes it out; an id whose
// last holder goes is forgotten.
func (t *Table) claim(id uint64, e *slaveEntry, holds bool) {
	v, known := t.ids.get(id)
	set := &t.sets[v.set]
	mine := func(n uint32) bool { return n == e.number }
	numbers := slices.DeleteFunc(slices.Clone(set.numbers), mine)
	if holds {
		numbers = append(numbers, e.number)
	}
	if !known {
		v = entry{id: id, size: staticBytes}
	}
	v.set = t.intern(numbers, slices.DeleteFunc(slices.Clone(set.lagging), mine), set.pinned)
	t.put(v)
}

// put makes v the entry of its id, and counts its holders; without any the id is
// forgotten.
func (t *Table) put(v entry) {
	old, _ := t.ids.get(v.id)
	t.replace(old, v)
}

// replace is put where the entry of before is known; zero: none.
func (t *Table) replace(old, v entry) {
	for _, n := range t.sets[old.set].numbers {
		t.slaves[t.place[n]].Members--
	}
	for _, n := range t.sets[v.set].numbers {
		t.slaves[t.place[n]].Members++
	}
	if v.set == 0 {
		t.ids.remove(v.id)
		t.names.Delete(v.id)
	} else {
		t.ids.set(v)
	}
	if t.restored == nil && (t.recorded(old) || t.recorded(v)) {
		t.dirty.members[v.id] = struct{}{}
	}
}

// numbersOf returns the numbers of the slaves, which must be known and of protocol 2.
func (t *Table) numbersOf(addrs []string) (numbers []uint32, err error) {
	for _, a := range addrs {
		e := t.byAddr[a]
		switch {
		case e == nil:
			return nil, fmt.Errorf("%w: %s", ErrUnknownSlave, a)
		case e.Protocol != 2:
			return nil, fmt.Errorf("%w: %s", ErrStatic, a)
		}
		numbers = append(numbers, e.number)
	}
	return numbers, nil
}

// addrs returns the addresses of slaves by their numbers.
func (t *Table) addrs(numbers []uint32) []string {
	addrs := make([]string, len(numbers))
	for i, n := range numbers {
		addrs[i] = t.slaves[t.place[n]].Addr
	}
	return addrs
}

// static returns the static slaves in the set, ours the others.
func (t *Table) static(set SetID) (numbers []uint32) { return t.ofProtocol(set, 1) }
func (t *Table) ours(set SetID) (numbers []uint32)   { return t.ofProtocol(set, 2) }

func (t *Table) ofProtocol(set SetID, protocol uint32) (numbers []uint32) {
	for _, n := range t.sets[set].numbers {
		if t.slaves[t.place[n]].Protocol == protocol {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// intern returns the set of these slaves; equal sets are one. numbers is put in order.
func (t *Table) intern(numbers, lagging []uint32, pinned bool) SetID {
	if len(numbers) == 0 {
		return 0
	}
	numbers, lagging = t.inOrder(numbers), t.inOrder(lagging)
	key := binary.BigEndian.AppendUint32(make([]byte, 0, 64), uint32(len(numbers)))
	for _, n := range slices.Concat(numbers, lagging) {
		key = binary.BigEndian.AppendUint32(key, n)
	}
	key = appendBool(key, pinned)
	if set, ok := t.interns[string(key)]; ok {
		return set
	}
	set := SetID(len(t.sets))
	t.sets = append(t.sets, holderSet{numbers: slices.Clone(numbers), addrs: t.addrs(numbers), lagging: slices.Clone(lagging), pinned: pinned}) // behind what snapshots see
	t.interns[string(key)] = set
	return set
}

// inOrder sorts the slaves' numbers in the global machine order, each once.
func (t *Table) inOrder(numbers []uint32) []uint32 {
	slices.SortFunc(numbers, func(a, b uint32) int { return t.place[a] - t.place[b] })
	return slices.Compact(numbers)
}
