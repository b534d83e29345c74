package catalog

import (
	"fmt"
	"math"
	"slices"
)

// Apply decides about the change, by the changes before it alone, and makes it
// unless it is refused: then nothing of it is made.
func (t *Table) Apply(c Change) Verdict { return c.apply(t) }

// maxLeap bounds by how much one write may raise the revision: far above what a
// catalog that was lost and begun anew is behind its slaves, and so small that a
// slave that tells nonsense does not use up the numbers of everybody.
const maxLeap = 1 << 40

// follow gives the next revision, above floor.
func (t *Table) follow(floor uint64) (uint64, error) {
	if floor > t.revision && floor-t.revision > maxLeap {
		return 0, fmt.Errorf("%w: revision %d is too far above the catalog's, %d: this cluster never gave it", ErrInvalid, floor, t.revision)
	}
	floor = max(floor, t.revision)
	if floor == math.MaxUint64 {
		return 0, fmt.Errorf("%w: revision %d has no number after it", ErrInvalid, floor)
	}
	return floor + 1, nil
}

func (c Join) apply(t *Table) (v Verdict) {
	s := Slave{Addr: c.Addr, Protocol: c.Protocol, Priority: c.Priority, Weight: c.Weight, Identity: c.Identity}
	if err := checkSlave(s, c.Claim.IDs); err != nil {
		return refused(err)
	}
	c.Claim.IDs = MergeSpans(c.Claim.IDs)
	changes, err := t.checkJoin(s, c.Claim)
	if err != nil || !changes {
		return refused(err)
	}
	number := uint32(t.number) + 1
	if e := t.byAddr[s.Addr]; e != nil {
		number = e.number
	} else if t.number >= maxNumber {
		return refused(fmt.Errorf("%w: more than %d slaves joined", ErrInvalid, maxNumber))
	}
	var taken []uint64
	if c.Claim.Alone {
		taken = slices.DeleteFunc(slices.Clone(c.Claim.Known), func(id uint64) bool { return !inSpans(c.Claim.IDs, id) })
	}
	if len(taken) > 0 {
		if v.Revision, err = t.follow(0); err != nil {
			return refused(err)
		}
		t.revision = v.Revision
		t.evict(taken)
	}
	t.putSlave(number, s, c.Claim.IDs)
	// An id that others lose keeps a record, with a revision above that of their
	// copies: so these are known to be old, also when a slave comes back that has one.
	for _, id := range taken {
		e, _ := t.ids.get(id)
		e.revision = v.Revision
		t.put(e)
	}
	t.number = max(t.number, uint64(number))
	t.epoch++
	t.dirty.meta, v.Changed = true, true
	return v
}

// checkJoin says whether the slave may join with what it claims, and whether that
// changes anything.
func (t *Table) checkJoin(s Slave, c Claim) (changes bool, err error) {
	if err := t.checkClaim(s, c); err != nil {
		return false, err
	}
	e := t.byAddr[s.Addr]
	switch {
	case e == nil:
		return true, nil
	case e.Protocol != s.Protocol && e.Members > 0:
		return false, fmt.Errorf("%w: %s holds %d vectors with protocol %d", ErrProtocol, s.Addr, e.Members, e.Protocol)
	case e.Protocol != s.Protocol && t.expected(e):
		return false, fmt.Errorf("%w: %s is to be given vectors with protocol %d", ErrProtocol, s.Addr, e.Protocol)
	}
	same := e.Protocol == s.Protocol && e.Weight == s.Weight && e.Identity == s.Identity &&
		slices.Equal(e.spans, c.IDs) && !(c.Alone && len(c.Known) > 0) &&
		(e.Priority == nil) == (s.Priority == nil) && (s.Priority == nil || *e.Priority == *s.Priority)
	return !same, nil
}

func (c Remove) apply(t *Table) Verdict {
	if err := t.checkRemove(c); err != nil {
		return refused(err)
	}
	t.removeSlave(c.Addr)
	t.epoch++
	t.dirty.meta = true
	return Verdict{Changed: true}
}

func (c Assign) apply(t *Table) Verdict {
	numbers, err := t.numbersOf(c.Holders)
	switch {
	case err != nil:
		return refused(err)
	case c.Slot >= Slots || len(numbers) == 0:
		return refused(fmt.Errorf("%w: slot %d with %d slaves", ErrInvalid, c.Slot, len(numbers)))
	}
	return Verdict{Changed: t.setSlot(int(c.Slot), numbers)}
}

func (t *Table) setSlot(slot int, numbers []uint32) (changed bool) {
	set := t.intern(slices.Clone(numbers), nil, false)
	if t.slots[slot] == set {
		return false
	}
	slots := *t.slots
	slots[slot] = set
	t.slots = &slots
	t.dirty.slots[slot] = struct{}{}
	return true
}

// check says whether the write makes sense, whatever the state of the cluster.
func (c Begin) check() error {
	switch {
	case len(c.Holders) == 0:
		return fmt.Errorf("%w: a write to vector %d without holders", ErrInvalid, c.ID)
	case c.Op != Put && c.Op != Delete:
		return fmt.Errorf("%w: operation %d", ErrInvalid, c.Op)
	case len(c.Name) > maxName:
		return fmt.Errorf("%w: name of %d bytes, %d are allowed", ErrInvalid, len(c.Name), maxName)
	}
	return nil
}

func (c Begin) apply(t *Table) Verdict {
	if err := c.check(); err != nil {
		return refused(err)
	}
	numbers, err := t.numbersOf(c.Holders)
	if err != nil {
		return refused(err)
	}
	old, known := t.ids.get(c.ID)
	if static := t.static(old.set); len(static) > 0 {
		return refused(fmt.Errorf("%w: vector %d is on %s", ErrStatic, c.ID, t.addrs(static[:1])[0]))
	}
	revision, err := t.follow(c.Floor)
	if err != nil {
		return refused(err)
	}
	t.revision = revision
	t.dirty.meta = true
	if slot := Slot(c.ID); c.Op == Put && !c.Pinned && t.slots[slot] == 0 {
		t.setSlot(slot, numbers)
	}
	_, replaces := t.intents.Get(c.ID)
	t.setIntent(Intent{
		ID: c.ID, Revision: revision, Op: c.Op, Holders: slices.Clone(c.Holders), Pinned: c.Pinned,
		Name: c.Name, Bytes: uint64(saturated(c.Bytes)), Seen: known || replaces, // as an entry keeps them
	})
	return Verdict{Revision: revision, Changed: true}
}

func (t *Table) setIntent(in Intent) {
	t.intents.Set(in.ID, &in)
	t.dirty.intents[in.ID] = struct{}{}
}

// current returns the open write of the id, if it has that revision.
func (t *Table) current(id, revision uint64) (*Intent, error) {
	in, ok := t.intents.Get(id)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: vector %d, revision %d: no write is open", ErrSuperseded, id, revision)
	case in.Revision != revision:
		return nil, fmt.Errorf("%w: vector %d, revision %d: revision %d is open", ErrSuperseded, id, revision, in.Revision)
	}
	return in, nil
}

func (t *Table) dropIntent(id uint64) {
	t.intents.Delete(id)
	t.dirty.intents[id] = struct{}{}
}

func (c Finish) apply(t *Table) Verdict {
	in, err := t.current(c.ID, c.Revision)
	if err != nil {
		return refused(err)
	}
	numbers, err := t.numbersOf(in.Holders)
	if err != nil {
		return refused(err)
	}
	inSync, err := t.numbersOf(c.InSync)
	if err == nil && slices.ContainsFunc(inSync, func(n uint32) bool { return !slices.Contains(numbers, n) }) {
		err = fmt.Errorf("%w: who has vector %d is no holder of it", ErrInvalid, c.ID)
	}
	if err != nil {
		return refused(err)
	}
	var lagging []uint32
	if len(inSync) > 0 {
		lagging = slices.DeleteFunc(slices.Clone(numbers), func(n uint32) bool { return slices.Contains(inSync, n) })
	}
	t.dropIntent(c.ID)
	if in.Op == Delete {
		t.put(entry{id: c.ID})
	} else {
		t.putMember(entry{id: c.ID, revision: c.Revision, checksum: c.Checksum, size: saturated(in.Bytes), count: saturated(c.Count)},
			numbers, lagging, in.Pinned, in.Name)
	}
	return Verdict{Revision: c.Revision, Changed: true}
}

// putMember makes the vector known with these holders, and with the static slaves
// that claim the id.
func (t *Table) putMember(e entry, numbers, lagging []uint32, pinned bool, name string) {
	old, _ := t.ids.get(e.id)
	e.set = t.intern(slices.Concat(numbers, t.static(old.set)), lagging, pinned)
	if name != "" {
		t.names.Set(e.id, name)
	} else {
		t.names.Delete(e.id)
	}
	t.replace(old, e)
}

func (c Abort) apply(t *Table) Verdict {
	if _, err := t.current(c.ID, c.Revision); err != nil {
		return refused(err)
	}
	t.dropIntent(c.ID)
	return Verdict{Revision: c.Revision, Changed: true}
}

func saturated(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }
