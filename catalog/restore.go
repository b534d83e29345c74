package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Restore puts a record of an empty table's back, space by space: see Spaces.
// The error says what is wrong with the record.
func (t *Table) Restore(r Record) error {
	switch r.Space {
	case Meta:
		return t.restoreMeta(r)
	case Slaves:
		return t.restoreSlave(string(r.Key), r.Value)
	case SlotSlaves:
		return t.restoreSlot(r)
	case Members:
		return t.restoreMember(r)
	case Intents:
		return t.restoreIntent(r)
	}
	return errors.New("no space")
}

// Restored ends the restoring.
func (t *Table) Restored() error {
	if len(t.restored) < len(t.counters()) {
		return errors.New("a counter is not there")
	}
	for _, e := range t.slaves {
		if uint64(e.number) > t.number {
			return fmt.Errorf("slave %s has number %d, above the highest that was given, %d", e.Addr, e.number, t.number)
		}
	}
	t.dirty, t.restored = newDirty(), nil
	return nil
}

func (t *Table) restoreMeta(r Record) (err error) {
	counter := t.counters()[string(r.Key)]
	if counter == nil {
		return errors.New("no counter of this release")
	}
	if t.restored == nil {
		t.restored = map[string]bool{}
	}
	t.restored[string(r.Key)] = true
	*counter, err = decode64(r.Value)
	return err
}

func (t *Table) restoreSlave(addr string, v []byte) error {
	var r slaveRecord
	d := json.NewDecoder(bytes.NewReader(v))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	s := Slave{Addr: addr, Protocol: r.Protocol, Priority: r.Priority, Weight: r.Weight, Identity: string(r.Identity)}
	var ids []Span
	for _, span := range r.IDs {
		ids = append(ids, Span{span[0], span[1]})
	}
	if err := checkSlave(s, ids); err != nil {
		return err
	}
	if r.Number == 0 || r.Number > maxNumber || t.byNumber(r.Number) != nil || t.byAddr[addr] != nil {
		return fmt.Errorf("number %d", r.Number)
	}
	t.putSlave(r.Number, s, MergeSpans(ids))
	return nil
}

// byNumber returns the slave of that number.
func (t *Table) byNumber(n uint32) *slaveEntry {
	if int(n) >= len(t.place) {
		return nil
	}
	if e := t.slaves[t.place[n]]; e.number == n { // numbers of nobody have place 0
		return e
	}
	return nil
}

// known says that the numbers are those of slaves.
func (t *Table) known(numbers []uint32, err error) error {
	for _, n := range numbers {
		if t.byNumber(n) == nil {
			err = errors.Join(err, fmt.Errorf("no slave has number %d", n))
		}
	}
	return err
}

func (t *Table) restoreSlot(rec Record) error {
	r := reader{b: rec.Value}
	holders := r.numbers()
	if len(rec.Key) != 2 || binary.BigEndian.Uint16(rec.Key) >= Slots {
		return errors.New("no slot")
	}
	if err := t.known(holders, r.end()); err != nil {
		return err
	}
	t.setSlot(int(binary.BigEndian.Uint16(rec.Key)), holders)
	return nil
}

func (t *Table) restoreMember(rec Record) error {
	id, err := decode64(rec.Key)
	r := reader{b: rec.Value}
	v := r.vector()
	if err := t.known(v.holders, errors.Join(err, r.err)); err != nil {
		return err
	}
	if v.seen {
		return errSpelling
	}
	if slices.ContainsFunc(v.lagging, func(n uint32) bool { return !slices.Contains(v.holders, n) }) {
		return errors.New("who is not in sync is no holder")
	}
	if v.id = id; len(v.holders) == 0 {
		v.size = staticBytes
	}
	t.putMember(v.entry, v.holders, v.lagging, v.pinned, v.name)
	return nil
}

func (t *Table) restoreIntent(rec Record) error {
	id, err := decode64(rec.Key)
	r := reader{b: rec.Value}
	revision, op := r.uvarint(), Op(r.byte())
	v := r.vector()
	if err := t.known(v.holders, errors.Join(err, r.err)); err != nil {
		return err
	}
	in := Intent{ID: id, Revision: revision, Op: op, Holders: t.addrs(v.holders), Pinned: v.pinned, Name: v.name, Bytes: uint64(v.size), Seen: v.seen}
	if err := (Begin{Op: op, Holders: in.Holders, Name: in.Name}).check(); err != nil {
		return err
	}
	t.setIntent(in)
	return nil
}

func (r *reader) vector() (v vector) {
	flags := r.byte()
	if flags&^flagsKnown != 0 {
		r.fail(errSpelling)
	}
	v.pinned, v.seen = flags&flagPinned != 0, flags&flagSeen != 0
	v.size = saturated(r.uvarint())
	if flags&flagRevision != 0 {
		v.revision = r.uvarint()
	}
	if flags&flagSums != 0 {
		v.checksum, v.count = r.fixed64(), saturated(r.uvarint())
	}
	v.holders = r.numbers()
	if flags&flagLagging != 0 {
		v.lagging = r.numbers()
	}
	v.name = string(r.b)
	return v
}

// decode64 reads a uint64 of 8 bytes.
func decode64(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("number of %d bytes, 8 expected", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
