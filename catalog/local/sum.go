package local

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// The file has a sum over all of its records, so that one that was changed, lost or
// added by anything but a commit is found when the file is read: a bit of a key
// makes another vector of it, and a page that is lost is vectors that nobody misses.
// The sum is that of a hash of each record, in any order, so a commit changes it by
// what it writes alone.
var keySum = []byte("sum")

// ofFile says that a key of the bucket meta is not a record of the catalog.
func ofFile(space catalog.Space, key []byte) bool {
	return space == catalog.Meta && (bytes.Equal(key, keyKind) || bytes.Equal(key, keyFormat) || bytes.Equal(key, keySum))
}

// digest is what one record adds to the sum.
func digest(space catalog.Space, key, value []byte) uint64 {
	b := make([]byte, 0, 64)
	b = append(b, byte(space))
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	return xxhash.Sum64(append(b, value...))
}

// writer writes records in one transaction, and their sum at its end.
type writer struct {
	tx  *bbolt.Tx
	sum uint64
}

func newWriter(tx *bbolt.Tx) (*writer, error) {
	sum, err := readSum(tx)
	return &writer{tx, sum}, err
}

func (w *writer) store(r catalog.Record) error {
	b := bucket(w.tx, r.Space)
	if old := b.Get(r.Key); old != nil {
		w.sum -= digest(r.Space, r.Key, old)
	}
	if r.Value == nil {
		return b.Delete(r.Key)
	}
	w.sum += digest(r.Space, r.Key, r.Value)
	return b.Put(r.Key, r.Value)
}

func (w *writer) end() error { return bucket(w.tx, catalog.Meta).Put(keySum, key64(w.sum)) }

func readSum(tx *bbolt.Tx) (uint64, error) {
	b := bucket(tx, catalog.Meta).Get(keySum)
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: damaged: the sum over its records has %d bytes, 8 expected", catalog.ErrForeign, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// sumOf is the sum over all records that are there.
func sumOf(tx *bbolt.Tx) (sum uint64, err error) {
	for _, space := range catalog.Spaces() {
		err := bucket(tx, space).ForEach(func(k, v []byte) error {
			if !ofFile(space, k) {
				sum += digest(space, k, v)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}
