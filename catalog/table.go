package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/btree"
)

// MaxStaticIDs bounds the ids of a static slave.
const MaxStaticIDs = 1 << 20

// maxAddr is MAX_MACHINE_ADDR of structs.x.
const maxAddr = 255

// staticBytes is the size of a static slave's vector: one word.
const staticBytes = 8

// Table is the state behind snapshots, in memory: what an implementation of
// Catalog changes, after it made the change durable. It is not safe for
// concurrent use; the snapshots that it gives are.
type Table struct {
	epoch   uint64
	slaves  []*slaveEntry // in the global machine order
	byAddr  map[string]*slaveEntry
	index   map[string]int // for snapshots; replaced, never changed
	place   []int          // likewise
	ids     idMap
	sets    []holderSet
	interns map[string]SetID
	names   *btree.Map[uint64, string]
	intents *btree.Map[uint64, *Intent]
	slots   *[Slots]SetID // replaced, never changed
}

type slaveEntry struct {
	Slave
	number  uint32
	spans   []Span             // of a static slave; replaced, never changed
	missing *btree.Set[uint64] // private
	shown   *btree.Set[uint64] // its copy for snapshots; nil: none
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
	}
}

// Snapshot returns the table as it is now.
func (t *Table) Snapshot() *Snapshot {
	s := &Snapshot{
		epoch:   t.epoch,
		slaves:  make([]Slave, len(t.slaves)),
		missing: make([]*btree.Set[uint64], len(t.slaves)),
		spans:   make([][]Span, len(t.slaves)),
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
		s.missing[i] = e.shown
		s.spans[i] = e.spans
	}
	return s
}

// SetEpoch sets what Snapshot.Epoch returns.
func (t *Table) SetEpoch(epoch uint64) { t.epoch = epoch }

// Check says whether PutSlave would take the slave with what it claims, and
// whether that would change anything.
func (t *Table) Check(s Slave, c Claim) (changes bool, err error) {
	if err := checkSlave(s, c.IDs); err != nil {
		return false, err
	}
	if err := t.checkClaim(s, c); err != nil {
		return false, err
	}
	e := t.byAddr[s.Addr]
	if e == nil {
		return true, nil
	}
	if e.Protocol != s.Protocol && e.Members > 0 {
		return false, fmt.Errorf("%w: %s holds %d vectors with protocol %d", ErrProtocol, s.Addr, e.Members, e.Protocol)
	}
	same := e.Protocol == s.Protocol && slices.Equal(e.spans, MergeSpans(c.IDs)) && !(c.Alone && len(c.Known) > 0) &&
		(e.Priority == nil) == (s.Priority == nil) && (s.Priority == nil || *e.Priority == *s.Priority)
	return !same, nil
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

// PutSlave adds the slave or changes its priority, its protocol and, of a static
// slave, its ids. number is the slave's own and stays the same. Check must have
// taken it.
func (t *Table) PutSlave(number uint32, s Slave, ids []Span) {
	e := t.byAddr[s.Addr]
	if e == nil {
		e = &slaveEntry{number: number, missing: new(btree.Set[uint64])}
		e.Addr = s.Addr
		t.byAddr[s.Addr] = e
		t.slaves = append(t.slaves, e)
		slices.SortFunc(t.slaves, func(a, b *slaveEntry) int { return CompareAddr(a.Addr, b.Addr) })
		t.reindex()
	}
	e.Protocol = s.Protocol
	e.Priority = nil
	if s.Priority != nil {
		p := *s.Priority
		e.Priority = &p
	}
	ids = MergeSpans(ids)
	eachID(SubtractSpans(e.spans, ids), func(id uint64) { t.claim(id, e, false) })
	eachID(SubtractSpans(ids, e.spans), func(id uint64) { t.claim(id, e, true) })
	e.spans = ids
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
	old, known := t.ids.get(id)
	set := &t.sets[old.set]
	numbers := slices.DeleteFunc(slices.Clone(set.numbers), func(n uint32) bool { return n == e.number })
	if holds {
		numbers = append(numbers, e.number)
	}
	size := old.size
	if !known {
		size = staticBytes
	}
	t.move(id, numbers, set.pinned, size)
}

// SlaveNumber returns the number that PutSlave gave the slave, and its protocol.
func (t *Table) SlaveNumber(addr string) (number, protocol uint32, ok bool) {
	e := t.byAddr[addr]
	if e == nil {
		return 0, 0, false
	}
	return e.number, e.Protocol, true
}

// Addrs returns the addresses of slaves by their numbers.
func (t *Table) Addrs(numbers []uint32) []string {
	addrs := make([]string, len(numbers))
	for i, n := range numbers {
		addrs[i] = t.slaves[t.place[n]].Addr
	}
	return addrs
}

// StaticHolder returns a static slave that has the id.
func (t *Table) StaticHolder(id uint64) (addr string, ok bool) {
	e, _ := t.ids.get(id)
	static := t.static(e.set)
	if len(static) == 0 {
		return "", false
	}
	return t.Addrs(static[:1])[0], true
}

// PutMember makes the vector known with these holders and no others; static
// slaves that claim the id stay. Holders are numbers of slaves; none of them
// misses the id any more.
func (t *Table) PutMember(id uint64, holders []uint32, pinned bool, name string, bytes uint64) {
	old, _ := t.ids.get(id)
	t.move(id, append(slices.Clone(holders), t.static(old.set)...), pinned, uint32(min(bytes, math.MaxUint32)))
	if name != "" {
		t.names.Set(id, name)
	} else {
		t.names.Delete(id)
	}
	for _, n := range holders {
		t.found(t.slaves[t.place[n]], id)
	}
}

// DropMember forgets the vector; an id that a static slave claims stays known.
func (t *Table) DropMember(id uint64) {
	old, known := t.ids.get(id)
	if !known {
		return
	}
	for _, n := range t.sets[old.set].numbers {
		t.found(t.slaves[t.place[n]], id)
	}
	t.names.Delete(id)
	t.move(id, t.static(old.set), false, staticBytes)
}

// static returns the static slaves in the set.
func (t *Table) static(set SetID) (numbers []uint32) {
	for _, n := range t.sets[set].numbers {
		if t.slaves[t.place[n]].Protocol == 1 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// move gives the id these holders and counts them; without any it is forgotten.
func (t *Table) move(id uint64, numbers []uint32, pinned bool, size uint32) {
	old, _ := t.ids.get(id)
	for _, n := range t.sets[old.set].numbers {
		t.slaves[t.place[n]].Members--
	}
	if len(numbers) == 0 {
		t.ids.remove(id)
		return
	}
	set := t.intern(numbers, pinned)
	for _, n := range t.sets[set].numbers {
		t.slaves[t.place[n]].Members++
	}
	t.ids.set(entry{id: id, set: set, size: size})
}

// intern returns the set of these slaves; equal sets are one. numbers is put in order.
func (t *Table) intern(numbers []uint32, pinned bool) SetID {
	if len(numbers) == 0 {
		return 0
	}
	slices.SortFunc(numbers, func(a, b uint32) int { return t.place[a] - t.place[b] })
	numbers = slices.Compact(numbers)
	key := make([]byte, 0, 64)
	for _, n := range numbers {
		key = binary.BigEndian.AppendUint32(key, n)
	}
	if pinned {
		key = append(key, 1)
	}
	if set, ok := t.interns[string(key)]; ok {
		return set
	}
	h := holderSet{numbers: slices.Clone(numbers), pinned: pinned}
	for _, n := range numbers {
		h.addrs = append(h.addrs, t.slaves[t.place[n]].Addr)
	}
	set := SetID(len(t.sets))
	t.sets = append(t.sets, h) // behind what snapshots see
	t.interns[string(key)] = set
	return set
}

// SetSlot sets the partition record of a slot.
func (t *Table) SetSlot(slot int, holders []uint32) {
	slots := *t.slots
	slots[slot] = t.intern(slices.Clone(holders), false)
	t.slots = &slots
}
