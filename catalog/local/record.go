package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"starfish/catalog"
)

// The file: bbolt buckets, numbers in keys big-endian.
//
//	meta     kind -> "starfish catalog"; format, revision, epoch -> uint64
//	slaves   address -> JSON of slaveRecord
//	slots    uint16 -> holders
//	members  id -> vectorRecord
//	intents  id -> uvarint revision, byte op, vectorRecord
//
// A vectorRecord is a byte of flags (1: pinned, 2: with a revision), uvarint bytes,
// uvarint revision where there is one, holders, and the name up to the end. Holders
// are a uvarint count and a uvarint number each; none, where a static slave took the
// vector over. What static slaves hold is in their own records alone. Format 1 has no revisions.
var (
	bucketMeta    = []byte("meta")
	bucketSlaves  = []byte("slaves")
	bucketSlots   = []byte("slots")
	bucketMembers = []byte("members")
	bucketIntents = []byte("intents")

	keyKind     = []byte("kind")
	keyFormat   = []byte("format")
	keyRevision = []byte("revision")
	keyEpoch    = []byte("epoch")
)

const (
	kind   = "starfish catalog"
	format = 2 // the format that this release writes, and the highest that it reads
)

type slaveRecord struct {
	Number   uint32      `json:"number"`
	Protocol uint32      `json:"protocol"`
	Priority *int32      `json:"priority"`
	IDs      [][2]uint64 `json:"ids,omitempty"`
}

func encodeSlave(number uint32, s catalog.Slave, ids []catalog.Span) ([]byte, error) {
	r := slaveRecord{Number: number, Protocol: s.Protocol, Priority: s.Priority}
	for _, span := range ids {
		r.IDs = append(r.IDs, [2]uint64{span.First, span.Last})
	}
	return json.Marshal(r)
}

func decodeSlave(addr string, v []byte) (number uint32, s catalog.Slave, ids []catalog.Span, err error) {
	var r slaveRecord
	if err := json.Unmarshal(v, &r); err != nil {
		return 0, s, nil, err
	}
	for _, span := range r.IDs {
		ids = append(ids, catalog.Span{First: span[0], Last: span[1]})
	}
	return r.Number, catalog.Slave{Addr: addr, Protocol: r.Protocol, Priority: r.Priority}, ids, nil
}

// vectorRecord is what is durable about a vector.
type vectorRecord struct {
	pinned   bool
	bytes    uint64
	revision uint64 // of the write that was finished last; 0: not noted
	holders  []uint32
	name     string
}

const (
	flagPinned   = 1
	flagRevision = 2
)

func (r vectorRecord) append(b []byte) []byte {
	flags := byte(0)
	if r.pinned {
		flags |= flagPinned
	}
	if r.revision > 0 {
		flags |= flagRevision
	}
	b = binary.AppendUvarint(append(b, flags), r.bytes)
	if r.revision > 0 {
		b = binary.AppendUvarint(b, r.revision)
	}
	return append(appendHolders(b, r.holders), r.name...)
}

type intentRecord struct {
	revision uint64
	op       catalog.Op
	vectorRecord
}

func (r intentRecord) append(b []byte) []byte {
	b = append(binary.AppendUvarint(b, r.revision), byte(r.op))
	return r.vectorRecord.append(b)
}

func appendHolders(b []byte, holders []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(holders)))
	for _, n := range holders {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// reader takes a record apart; after a fault everything it gives is zero.
type reader struct {
	b   []byte
	err error
}

var errRecord = errors.New("record cut short")

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.err = errRecord
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) holders() []uint32 {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errRecord
		return nil
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(r.uvarint())
	}
	return out
}

func (r *reader) vector() vectorRecord {
	flags := r.byte()
	v := vectorRecord{pinned: flags&flagPinned != 0, bytes: r.uvarint()}
	if flags&flagRevision != 0 {
		v.revision = r.uvarint()
	}
	v.holders = r.holders()
	v.name = string(r.b)
	return v
}

func (r *reader) intent() intentRecord {
	return intentRecord{revision: r.uvarint(), op: catalog.Op(r.byte()), vectorRecord: r.vector()}
}

func key64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func keySlot(slot int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(slot)) }

// decode64 reads a uint64 of 8 bytes.
func decode64(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("number of %d bytes, 8 expected", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
