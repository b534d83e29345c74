package store

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"starfish/vector"
)

// A record is the value of one vector in the store, its key the big-endian id:
//
//	0   revision   u64  big-endian, as all of the header
//	8   rows       u64  count
//	16  checksum   u64  xxhash64 of the Roaring bytes
//	24  flags      u64  bit 0: deleted, a tombstone that has only a revision
//	32  own sum    u64  xxhash64 of the id and the 32 bytes above
//	40  the set in the portable Roaring format
const (
	headerSize  = 40
	flagDeleted = 1
)

type header struct {
	revision, rows, checksum uint64
	deleted                  bool
}

func key(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// headerSum also covers the id, so that a record never stands for another one.
func headerSum(id uint64, head []byte) uint64 {
	return xxhash.Sum64(append(key(id), head[:headerSize-8]...))
}

// newRecord encodes a vector, or a tombstone where b is nil.
func newRecord(id, revision uint64, b *vector.Bitmap) []byte {
	rec := make([]byte, headerSize)
	binary.BigEndian.PutUint64(rec, revision)
	if b == nil {
		binary.BigEndian.PutUint64(rec[24:], flagDeleted)
	} else {
		b = b.Clone()
		b.Optimize() // equal sets get equal checksums
		rec = b.AppendRoaring(rec)
		binary.BigEndian.PutUint64(rec[8:], b.Count())
		binary.BigEndian.PutUint64(rec[16:], xxhash.Sum64(rec[headerSize:]))
	}
	binary.BigEndian.PutUint64(rec[32:], headerSum(id, rec))
	return rec
}

// readHeader checks and reads a record's header; its error wraps ErrCorrupt and
// names the id.
func readHeader(id uint64, rec []byte) (header, error) {
	if len(rec) < headerSize {
		return header{}, fmt.Errorf("%w: vector %d: record of %d bytes", ErrCorrupt, id, len(rec))
	}
	if headerSum(id, rec) != binary.BigEndian.Uint64(rec[32:]) {
		return header{}, fmt.Errorf("%w: vector %d: checksum of its header", ErrCorrupt, id)
	}
	return header{
		revision: binary.BigEndian.Uint64(rec),
		rows:     binary.BigEndian.Uint64(rec[8:]),
		checksum: binary.BigEndian.Uint64(rec[16:]),
		deleted:  binary.BigEndian.Uint64(rec[24:])&flagDeleted != 0,
	}, nil
}

// checkRows compares the rows of a record with their checksum.
func checkRows(id uint64, h header, rec []byte) error {
	if xxhash.Sum64(rec[headerSize:]) != h.checksum {
		return fmt.Errorf("%w: vector %d: checksum of its rows", ErrCorrupt, id)
	}
	return nil
}

// readRecord checks a whole record. The bitmap shares rec's bytes; it is nil for
// a tombstone.
func readRecord(id uint64, rec []byte) (header, *vector.Bitmap, error) {
	h, err := readHeader(id, rec)
	if err != nil || h.deleted {
		return h, nil, err
	}
	if err := checkRows(id, h, rec); err != nil {
		return h, nil, err
	}
	b, err := vector.View(rec[headerSize:])
	if err != nil {
		return h, nil, fmt.Errorf("%w: vector %d: %w", ErrCorrupt, id, err)
	}
	return h, b, nil
}
