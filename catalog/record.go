package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Record is a part of the table as it is on disk, under a key that no other has
// in its space: who keeps all records has the table. A vector's part that only
// static slaves give it is in their records alone.
//
//	meta     "revision", "epoch", "number" -> uint64, big-endian
//	slaves   address -> JSON of slaveRecord
//	slots    uint16, big-endian -> holders
//	members  id, uint64 big-endian -> vector
//	intents  id, uint64 big-endian -> uvarint revision, byte op, vector
//
// A vector is a byte of flags, uvarint bytes, uvarint revision (flag 2), checksum of
// 8 bytes and uvarint count of elements (flag 4), holders, holders that are not in
// sync (flag 8), and the name up to the end. Holders are a uvarint count and a
// uvarint number each; none, where a static slave took the vector over. Flag 1:
// pinned; flag 16, of an intent: seen.
//
// Formats 1 and 2 of catalog.db are the same without "number" and flags 4 to 16;
// format 1 is without flag 2.
type Record struct {
	Space Space
	Key   []byte
	Value []byte // nil: there is none any more
}

// Space is a kind of record.
type Space uint8

// The spaces, in the order in which Restore needs them.
const (
	Meta Space = iota
	Slaves
	SlotSlaves
	Members
	Intents
	spaces // how many
)

// Spaces are all of them, in the order in which Restore needs them.
func Spaces() []Space { return []Space{Meta, Slaves, SlotSlaves, Members, Intents} }

func (s Space) String() string {
	return [spaces]string{"meta", "slaves", "slots", "members", "intents"}[s]
}

const (
	flagPinned = 1 << iota
	flagRevision
	flagSums
	flagLagging
	flagSeen
	flagsKnown = 1<<iota - 1
)

// dirty is what has changed since the records were given out.
type dirty struct {
	meta    bool
	slaves  map[string]struct{}
	slots   map[int]struct{}
	members map[uint64]struct{}
	intents map[uint64]struct{}
}

func newDirty() dirty {
	return dirty{slaves: map[string]struct{}{}, slots: map[int]struct{}{}, members: map[uint64]struct{}{}, intents: map[uint64]struct{}{}}
}

// Dirty calls f with each record that has changed since Flushed was called, in the
// order of the spaces and keys, until it returns an error.
func (t *Table) Dirty(f func(Record) error) error {
	if t.dirty.meta {
		if err := t.metaRecords(f); err != nil {
			return err
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(t.dirty.slaves)) {
		if err := t.slaveRecord(addr, f); err != nil {
			return err
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(t.dirty.slots)) {
		if err := t.slotRecord(slot, f); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.dirty.members)) {
		if err := f(t.memberRecord(id)); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.dirty.intents)) {
		if err := f(t.intentRecord(id)); err != nil {
			return err
		}
	}
	return nil
}

// Flushed notes that the records are durable, and returns the ids of those that
// had changed.
func (t *Table) Flushed() (touched []uint64) {
	touched = make([]uint64, 0, len(t.dirty.members)+len(t.dirty.intents)) // not nil, which is all
	touched = slices.AppendSeq(touched, maps.Keys(t.dirty.members))
	touched = slices.AppendSeq(touched, maps.Keys(t.dirty.intents))
	t.dirty = newDirty()
	return touched
}

// Records calls f with every record, in the order of the spaces and keys, until it
// returns an error.
func (t *Table) Records(f func(Record) error) error {
	err := t.metaRecords(f)
	for _, addr := range slices.Sorted(maps.Keys(t.byAddr)) {
		if err == nil {
			err = t.slaveRecord(addr, f)
		}
	}
	for slot, set := range t.slots {
		if err == nil && set != 0 {
			err = t.slotRecord(slot, f)
		}
	}
	t.ids.ascend(0, ^uint64(0), func(e entry) bool {
		if err == nil && t.recorded(e) {
			err = f(t.memberRecord(e.id))
		}
		return err == nil
	})
	t.intents.Scan(func(id uint64, _ *Intent) bool {
		if err == nil {
			err = f(t.intentRecord(id))
		}
		return err == nil
	})
	return err
}

func key64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// counters are the numbers that grow, by their keys.
func (t *Table) counters() map[string]*uint64 {
	return map[string]*uint64{"epoch": &t.epoch, "number": &t.number, "revision": &t.revision}
}

func (t *Table) metaRecords(f func(Record) error) error {
	counters := t.counters()
	for _, k := range slices.Sorted(maps.Keys(counters)) {
		if err := f(Record{Meta, []byte(k), key64(*counters[k])}); err != nil {
			return err
		}
	}
	return nil
}

// slaveRecord is what is durable about a slave, beside its address.
type slaveRecord struct {
	Number   uint32      `json:"number"`
	Protocol uint32      `json:"protocol"`
	Priority *int32      `json:"priority"`
	Weight   uint32      `json:"weight,omitempty"`
	Identity []byte      `json:"identity,omitempty"`
	IDs      [][2]uint64 `json:"ids,omitempty"`
}

func (t *Table) slaveRecord(addr string, f func(Record) error) error {
	e := t.byAddr[addr]
	if e == nil {
		return f(Record{Slaves, []byte(addr), nil})
	}
	r := slaveRecord{Number: e.number, Protocol: e.Protocol, Priority: e.Priority, Weight: e.Weight, Identity: []byte(e.Identity)}
	for _, span := range e.spans {
		r.IDs = append(r.IDs, [2]uint64{span.First, span.Last})
	}
	v, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("catalog: slave %s: %w", addr, err)
	}
	return f(Record{Slaves, []byte(addr), v})
}

func (t *Table) slotRecord(slot int, f func(Record) error) error {
	v := appendNumbers(nil, t.sets[t.slots[slot]].numbers)
	return f(Record{SlotSlaves, binary.BigEndian.AppendUint16(nil, uint16(slot)), v})
}

// recorded says that the vector has a record: static slaves do not give all of it.
func (t *Table) recorded(e entry) bool {
	return e.set != 0 && (e.revision > 0 || slices.ContainsFunc(t.sets[e.set].numbers, func(n uint32) bool {
		return t.slaves[t.place[n]].Protocol != 1
	}))
}

func (t *Table) memberRecord(id uint64) Record {
	e, _ := t.ids.get(id)
	r := Record{Members, key64(id), nil}
	if t.recorded(e) {
		set := &t.sets[e.set]
		name, _ := t.names.Get(id)
		r.Value = vector{e, set.pinned, t.ours(e.set), set.lagging, name, false}.append(nil)
	}
	return r
}

func (t *Table) intentRecord(id uint64) Record {
	r := Record{Intents, key64(id), nil}
	in, ok := t.intents.Get(id)
	if !ok {
		return r
	}
	v := vector{entry{size: saturated(in.Bytes)}, in.Pinned, nil, nil, in.Name, in.Seen}
	for _, a := range in.Holders {
		v.holders = append(v.holders, t.byAddr[a].number)
	}
	r.Value = v.append(append(binary.AppendUvarint(nil, in.Revision), byte(in.Op)))
	return r
}

// vector is what is durable about one; of the entry not id and set.
type vector struct {
	entry
	pinned  bool
	holders []uint32
	lagging []uint32
	name    string
	seen    bool
}

func (v vector) flags() (flags byte) {
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagPinned, v.pinned)
	set(flagRevision, v.revision > 0)
	set(flagSums, v.checksum > 0 || v.count > 0)
	set(flagLagging, len(v.lagging) > 0)
	set(flagSeen, v.seen)
	return flags
}

func (v vector) append(b []byte) []byte {
	flags := v.flags()
	b = binary.AppendUvarint(append(b, flags), uint64(v.size))
	if flags&flagRevision != 0 {
		b = binary.AppendUvarint(b, v.revision)
	}
	if flags&flagSums != 0 {
		b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, v.checksum), uint64(v.count))
	}
	b = appendNumbers(b, v.holders)
	if flags&flagLagging != 0 {
		b = appendNumbers(b, v.lagging)
	}
	return append(b, v.name...)
}
