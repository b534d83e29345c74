package catalog

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"
)

// entry is one known id: 40 bytes.
type entry struct {
	id       uint64
	revision uint64 // of the write that was finished last; 0: not noted
	checksum uint64 // of the vector's bytes; 0: not noted
	set      SetID
	size     uint32 // bytes of the vector; saturates
	count    uint32 // of its elements; saturates; 0: not noted
}

// chunkLen bounds what a change copies: at most 5 KiB.
const chunkLen = 128

// idMap is an ordered map from id to entry that is cheap to copy: ascending
// chunks in a copy-on-write tree, keyed by a lower bound of their ids; the first
// has key 0, so each id has a chunk it belongs to.
//
// Chunks are shared between copies and never changed in place, with one
// exception: an id above all of its chunk is appended behind the length that
// older copies see. That is safe because only one line of copies is written to.
type idMap struct {
	chunks *btree.Map[uint64, []entry]
	n      uint64
}

func newIDMap() idMap {
	m := idMap{chunks: new(btree.Map[uint64, []entry])}
	m.chunks.Set(0, nil)
	return m
}

// copy returns a copy to read from; m is what is written to.
func (m *idMap) copy() idMap { return idMap{chunks: m.chunks.Copy(), n: m.n} }

// find returns the chunk that id belongs to, and its place in there.
func (m *idMap) find(id uint64) (key uint64, c []entry, i int, found bool) {
	m.chunks.Descend(id, func(k uint64, v []entry) bool {
		key, c = k, v
		return false
	})
	i, found = slices.BinarySearchFunc(c, id, func(e entry, id uint64) int { return cmp.Compare(e.id, id) })
	return key, c, i, found
}

func (m *idMap) get(id uint64) (entry, bool) {
	_, c, i, found := m.find(id)
	if !found {
		return entry{}, false
	}
	return c[i], true
}

// set adds or replaces the entry.
func (m *idMap) set(e entry) {
	key, c, i, found := m.find(e.id)
	if found {
		c = slices.Clone(c)
		c[i] = e
		m.chunks.Set(key, c)
		return
	}
	m.n++
	switch {
	case i == len(c) && len(c) < chunkLen:
		m.chunks.Set(key, append(c, e))
	case i == len(c):
		m.chunks.Set(e.id, []entry{e}) // ids that come in order leave full chunks behind
	case len(c) < chunkLen:
		m.chunks.Set(key, insert(c, i, e))
	case i <= chunkLen/2:
		m.chunks.Set(key, insert(c[:chunkLen/2], i, e))
		m.chunks.Set(c[chunkLen/2].id, slices.Clone(c[chunkLen/2:]))
	default:
		m.chunks.Set(key, slices.Clone(c[:chunkLen/2]))
		m.chunks.Set(c[chunkLen/2].id, insert(c[chunkLen/2:], i-chunkLen/2, e))
	}
}

// insert returns a new slice with e at place i.
func insert(c []entry, i int, e entry) []entry {
	out := make([]entry, 0, len(c)+1)
	out = append(out, c[:i]...)
	out = append(out, e)
	return append(out, c[i:]...)
}

// remove takes the id out.
func (m *idMap) remove(id uint64) {
	key, c, i, found := m.find(id)
	if !found {
		return
	}
	m.n--
	if len(c) == 1 && key != 0 {
		m.chunks.Delete(key)
		return
	}
	out := make([]entry, 0, len(c)-1)
	out = append(out, c[:i]...)
	m.chunks.Set(key, append(out, c[i+1:]...))
}

// ascend calls f for the entries from lo to hi, both inclusive, until it returns false.
func (m *idMap) ascend(lo, hi uint64, f func(entry) bool) {
	if lo > hi {
		return
	}
	key, _, i, _ := m.find(lo)
	m.chunks.Ascend(key, func(_ uint64, c []entry) bool {
		for _, e := range c[i:] {
			if e.id > hi || !f(e) {
				return false
			}
		}
		i = 0
		return true
	})
}
