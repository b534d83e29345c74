package catalog

import (
	"encoding/binary"
	"fmt"
)

// Change is one entry of the log: what somebody asks of the catalog. Table.Apply
// decides what becomes of it, by the changes before it alone, so that everybody
// who applies the log has the same table. What only one process knows, such as
// who answers now, comes in a change's fields or not at all.
//
// A new kind is one struct with these methods, and one case in Decode. The kind's
// number and its fields are on disk and between masters: neither changes its
// meaning; a new field is a new kind, or a new version of the codec.
type Change interface {
	kind() byte
	append(b []byte) []byte
	apply(t *Table) Verdict
}

// Join adds a slave, or changes all that is said of it here. What is as it was
// changes nothing. The verdict's revision is above that of every copy that others
// lose; 0: they lose none.
type Join struct {
	Addr     string
	Protocol uint32 // 2, or 1 for a C handler, which is static and read-only
	Priority *int32 // nil: unset
	Weight   uint32 // share of the slots that are drawn; 0: as 1
	Identity string // of its disk; "": not known
	Claim    Claim  // of a static slave
}

// Remove forgets a slave; see Catalog.Remove.
type Remove struct {
	Addr   string
	Forget bool // also the vectors that it alone holds
	Served bool // who asks has seen it serve
}

// Assign sets which slaves a slot has.
type Assign struct {
	Slot    uint16
	Holders []string
}

// Begin opens a write, in the place of one to the same id. The verdict's revision
// is its own. The first put of a slot that is not pinned places the slot.
type Begin struct {
	ID      uint64
	Floor   uint64 // the revision is above it, and above every one before
	Op      Op
	Pinned  bool
	Holders []string
	Name    string
	Bytes   uint64
}

// Finish makes the open write the state of its id.
type Finish struct {
	ID, Revision uint64
	InSync       []string // holders that have it; none: all of them
	Checksum     uint64   // of the vector's bytes; 0: not known
	Count        uint64   // of its elements; 0: not known
}

// Abort forgets the open write: the id is as it was before.
type Abort struct{ ID, Revision uint64 }

// The kinds' numbers.
const (
	kindJoin = 1 + iota
	kindRemove
	kindAssign
	kindBegin
	kindFinish
	kindAbort
)

// codec is the version of what Encode writes: its first byte.
const codec = 1

// Encode appends the change's bytes: the codec's version, the kind, the fields.
func Encode(b []byte, c Change) []byte { return c.append(append(b, codec, c.kind())) }

// Decode reads what Encode wrote, and nothing else. The change shares no memory
// with b. The error is ErrNewer, or ErrForeign.
func Decode(b []byte) (Change, error) {
	r := &reader{b: b}
	switch v := r.byte(); {
	case r.err == nil && v > codec:
		return nil, fmt.Errorf("%w: a change of codec %d, this release reads %d", ErrNewer, v, codec)
	case v < codec:
		return nil, fmt.Errorf("%w: no change", ErrForeign)
	}
	kind := r.byte()
	c := r.change(kind)
	if c == nil && r.err == nil {
		return nil, fmt.Errorf("%w: a change of kind %d, which this release does not know", ErrNewer, kind)
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("%w: a change of kind %d: %w", ErrForeign, kind, err)
	}
	return c, nil
}

func (r *reader) change(kind byte) Change {
	switch kind {
	case kindJoin:
		return Join{
			r.text(maxAddr), r.uint32(), r.priority(), r.uint32(), r.text(maxName),
			Claim{r.spans(), r.ascending(), r.bool()},
		}
	case kindRemove:
		return Remove{r.text(maxAddr), r.bool(), r.bool()}
	case kindAssign:
		return Assign{r.slot(), r.addrs()}
	case kindBegin:
		return Begin{r.uvarint(), r.uvarint(), Op(r.byte()), r.bool(), r.addrs(), r.text(maxName), r.uvarint()}
	case kindFinish:
		return Finish{r.uvarint(), r.uvarint(), r.addrs(), r.fixed64(), r.uvarint()}
	case kindAbort:
		return Abort{r.uvarint(), r.uvarint()}
	}
	return nil
}

func (Join) kind() byte   { return kindJoin }
func (Remove) kind() byte { return kindRemove }
func (Assign) kind() byte { return kindAssign }
func (Begin) kind() byte  { return kindBegin }
func (Finish) kind() byte { return kindFinish }
func (Abort) kind() byte  { return kindAbort }

func (c Join) append(b []byte) []byte {
	b = binary.AppendUvarint(appendText(b, c.Addr), uint64(c.Protocol))
	if b = appendBool(b, c.Priority != nil); c.Priority != nil {
		b = binary.BigEndian.AppendUint32(b, uint32(*c.Priority))
	}
	b = appendText(binary.AppendUvarint(b, uint64(c.Weight)), c.Identity)
	b = binary.AppendUvarint(appendSpans(b, c.Claim.IDs), uint64(len(c.Claim.Known)))
	last := uint64(0)
	for _, id := range c.Claim.Known {
		b = binary.AppendUvarint(b, id-last)
		last = id
	}
	return appendBool(b, c.Claim.Alone)
}

func (c Remove) append(b []byte) []byte {
	return appendBool(appendBool(appendText(b, c.Addr), c.Forget), c.Served)
}

func (c Assign) append(b []byte) []byte {
	return appendAddrs(binary.AppendUvarint(b, uint64(c.Slot)), c.Holders)
}

func (c Begin) append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, c.ID), c.Floor)
	b = appendAddrs(appendBool(append(b, byte(c.Op)), c.Pinned), c.Holders)
	return binary.AppendUvarint(appendText(b, c.Name), c.Bytes)
}

func (c Finish) append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, c.ID), c.Revision)
	b = binary.BigEndian.AppendUint64(appendAddrs(b, c.InSync), c.Checksum)
	return binary.AppendUvarint(b, c.Count)
}

func (c Abort) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, c.ID), c.Revision)
}

func (r *reader) priority() *int32 {
	if !r.bool() {
		return nil
	}
	if len(r.b) < 4 {
		r.fail(errShort)
		return nil
	}
	p := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return &p
}

func (r *reader) slot() uint16 {
	v := r.uvarint()
	if v >= Slots {
		r.fail(errSpelling)
	}
	return uint16(v)
}

// ascending reads ids as the differences between them.
func (r *reader) ascending() []uint64 {
	last, first := uint64(0), true
	return list(r, 1, func() uint64 {
		step := r.uvarint()
		if next := last + step; r.err == nil && (next < last || step == 0 && !first) {
			r.fail(errSpelling)
			return 0
		}
		last, first = last+step, false
		return last
	})
}
