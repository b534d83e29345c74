package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"starfish/machine"
)

// Slots is the number of hash partitions. The slaves of a slot are drawn at its
// first put and stay.
const Slots = 1024

// Slot is the partition of an id: xxhash64 of its big-endian bytes mod Slots.
func Slot(id uint64) int {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	return int(xxhash.Sum64(b[:]) % Slots)
}

// PlaceSlot draws the slaves of a slot: the top replicas by weighted rendezvous
// among those of protocol 2, all of them where there are fewer, in the global
// machine order.
func PlaceSlot(slot int, slaves []Slave, replicas int) []string {
	type scored struct {
		addr  string
		score float64
	}
	var all []scored
	for _, s := range slaves {
		if s.Protocol == 2 {
			all = append(all, scored{s.Addr, score(slot, s.Addr, float64(max(s.Weight, 1)))})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return machine.CompareSpelled(a.addr, b.addr)
	})
	all = all[:min(len(all), max(replicas, 1))]
	addrs := make([]string, len(all))
	for i, s := range all {
		addrs[i] = s.addr
	}
	slices.SortFunc(addrs, machine.CompareSpelled)
	return addrs
}

// Place draws the slaves of an id's slot; see PlaceSlot.
func Place(id uint64, slaves []Slave, replicas int) []string {
	return PlaceSlot(Slot(id), slaves, replicas)
}

// score is the slave's claim to the slot. Of slaves with weights v and w the
// first has the higher score for a share v/(v+w) of the slots, whoever else
// there is.
func score(slot int, addr string, weight float64) float64 {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 64), uint16(slot))
	h := xxhash.Sum64(append(b, addr...))
	u := (float64(h>>11) + 0.5) / (1 << 53) // in (0,1)
	return -weight / math.Log(u)
}

// HoldersFor says who shall hold the id after a put, in the global machine
// order: the slaves that the put pins it to; else those of the write that is
// open; else those it is on; else those of its slot's partition record; else the
// top replicas of the slot, but for slaves that were never seen while there are
// enough others. pinned goes into the intent.
// The error is ErrUnknownSlave, ErrStatic or ErrNoSlaves.
func (s *Snapshot) HoldersFor(id uint64, pins []string, replicas int) (holders []string, pinned bool, err error) {
	m, known := s.Member(id)
	for _, h := range m.Holders {
		if s.slaves[s.index[h]].Protocol == 1 {
			return nil, false, fmt.Errorf("%w: vector %d is on %s", ErrStatic, id, h)
		}
	}
	if len(pins) > 0 {
		holders = slices.Clone(pins)
		slices.SortFunc(holders, machine.CompareSpelled)
		holders = slices.Compact(holders)
		return holders, true, s.writable(holders)
	}
	if in, ok := s.intents.Get(id); ok {
		return in.Holders, in.Pinned, nil
	}
	if known {
		return m.Holders, m.Pinned, nil
	}
	slot := Slot(id)
	if set := s.slots[slot]; set != 0 {
		return s.sets[set].addrs, false, nil
	}
	if holders = PlaceSlot(slot, s.drawable(replicas), replicas); len(holders) == 0 {
		return nil, false, ErrNoSlaves
	}
	return holders, false, nil
}

// drawable are the slaves that a slot may be drawn on. One that is down and holds
// nothing may never have been there, but for a join with a wrong address: it is
// left out where there are enough others.
func (s *Snapshot) drawable(replicas int) []Slave {
	ghost := func(sl Slave) bool { return sl.State == Down && sl.Members == 0 }
	if !slices.ContainsFunc(s.slaves, ghost) {
		return s.slaves
	}
	seen := slices.DeleteFunc(slices.Clone(s.slaves), ghost)
	able := 0
	for _, sl := range seen {
		if sl.Protocol == 2 {
			able++
		}
	}
	if able < max(replicas, 1) {
		return s.slaves
	}
	return seen
}

// writable says that all of them are known and can be put to.
func (s *Snapshot) writable(addrs []string) error {
	for _, a := range addrs {
		switch i, ok := s.index[a]; {
		case !ok:
			return fmt.Errorf("%w: %s", ErrUnknownSlave, a)
		case s.slaves[i].Protocol == 1:
			return fmt.Errorf("%w: %s", ErrStatic, a)
		}
	}
	return nil
}
