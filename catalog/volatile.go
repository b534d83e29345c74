package catalog

import (
	"slices"

	"github.com/tidwall/btree"
)

// SetState notes what the slave can do now; false: nothing changed.
func (t *Table) SetState(addr string, st State, problem string) bool {
	e := t.byAddr[addr]
	if e == nil || e.State == st && e.Problem == problem {
		return false
	}
	e.State, e.Problem = st, problem
	return true
}

// SetInventory notes which of its ids the slave misses, and how many it has that
// are not known. Ids that it does not hold by now are left out. False: nothing
// changed.
func (t *Table) SetInventory(addr string, missing []uint64, setAside uint64) bool {
	e := t.byAddr[addr]
	if e == nil || len(missing) == 0 && e.Missing == 0 && e.SetAside == setAside {
		return false
	}
	e.SetAside = setAside
	e.missing = new(btree.Set[uint64])
	for _, id := range missing {
		old, _ := t.ids.get(id)
		if slices.Contains(t.sets[old.set].numbers, e.number) {
			e.missing.Insert(id)
		}
	}
	e.show()
	return true
}

// found notes that the slave does not miss the id any more.
func (t *Table) found(e *slaveEntry, id uint64) {
	if e.missing.Contains(id) {
		e.missing.Delete(id)
		e.show()
	}
}

// show makes what the slave misses visible in the next snapshot.
func (e *slaveEntry) show() {
	e.Missing = uint64(e.missing.Len())
	e.shown = nil
	if e.Missing > 0 {
		e.shown = e.missing.Copy()
	}
}

// PutIntent opens the write, in the place of one to the same id. restored: it
// was read back from disk.
func (t *Table) PutIntent(in Intent, restored bool) {
	_, known := t.ids.get(in.ID)
	_, replaces := t.intents.Get(in.ID)
	in.Seen = known || replaces || restored
	in.Holders = slices.Clone(in.Holders)
	in.Confirmed = nil
	t.intents.Set(in.ID, &in)
}

// DropIntent forgets the write; not where another one stands in its place.
func (t *Table) DropIntent(id, revision uint64) {
	if in, ok := t.intents.Get(id); ok && in.Revision == revision {
		t.intents.Delete(id)
	}
}

// Confirm notes that addr has the write's revision; false: it is not open, or
// addr was confirmed or is no holder.
func (t *Table) Confirm(id, revision uint64, addr string) bool {
	in, ok := t.intents.Get(id)
	if !ok || in.Revision != revision || slices.Contains(in.Confirmed, addr) || !slices.Contains(in.Holders, addr) {
		return false
	}
	next := *in
	next.Confirmed = append(slices.Clone(in.Confirmed), addr)
	t.intents.Set(id, &next)
	return true
}

// Inherit takes over what is not durable from old: states, what inventories
// found, who confirmed a write.
func (t *Table) Inherit(old *Table) {
	for _, e := range old.slaves {
		t.SetState(e.Addr, e.State, e.Problem)
		t.SetInventory(e.Addr, e.missing.Keys(), e.SetAside)
	}
	old.intents.Scan(func(id uint64, was *Intent) bool {
		if in, ok := t.intents.Get(id); ok && in.Revision == was.Revision {
			next := *in
			next.Confirmed, next.Seen = was.Confirmed, was.Seen
			t.intents.Set(id, &next)
		}
		return true
	})
}
