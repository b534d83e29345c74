package store

import (
	"bytes"
	"encoding/binary"
	"sync"

	"go.etcd.io/bbolt"

	"starfish/vector"
)

// Record is a vector as it is stored.
type Record struct {
	Revision uint64 // 0: never put, or damaged
	Deleted  bool   // a tombstone
	Count    uint64 // rows
	Rows     []byte // the set in the portable Roaring format; nil where there is none
}

// Reader reads vectors of one moment. It is for one goroutine, and what it
// returns is good only until the function that got it from Read returns.
type Reader struct {
	store *Store
	c     *bbolt.Cursor
	seq   uint64 // of the last change before the moment

	key, rec []byte   // where the cursor stands; no key: nowhere, or behind the last
	sound    []uint64 // ids whose checksum was found right
}

// Read runs f with a Reader. Nothing that is written meanwhile is seen by f, and
// nobody has to wait for it.
func (s *Store) Read(f func(*Reader) error) error {
	r := &Reader{store: s, seq: s.sound.last()}
	err := s.view(func(vectors *bbolt.Bucket) error {
		r.c = vectors.Cursor()
		return f(r)
	})
	s.sound.add(r.sound, r.seq)
	return err
}

// Find reads the vector id. A damaged one, which is logged, is as if it had never
// been put.
//
// Ascending ids cost least: the next one is looked for where the last one was.
func (r *Reader) Find(id uint64) Record {
	var want [8]byte
	binary.BigEndian.PutUint64(want[:], id)
	switch at := bytes.Compare(r.key, want[:]); {
	case r.key == nil || at > 0:
		r.key, r.rec = r.c.Seek(want[:])
	case at < 0:
		if r.key, r.rec = r.c.Next(); r.key != nil && bytes.Compare(r.key, want[:]) < 0 {
			r.key, r.rec = r.c.Seek(want[:])
		}
	}
	if !bytes.Equal(r.key, want[:]) {
		return Record{}
	}
	return r.record(id)
}

func (r *Reader) record(id uint64) Record {
	h, err := readHeader(id, r.rec)
	if err == nil && !h.deleted && !r.store.sound.has(id) {
		if err = checkRows(id, h, r.rec); err == nil {
			r.sound = append(r.sound, id)
		}
	}
	switch {
	case err != nil:
		r.store.noteCorrupt(id, err)
		return Record{}
	case h.deleted:
		return Record{Revision: h.revision, Deleted: true}
	}
	return Record{Revision: h.revision, Count: h.rows, Rows: r.rec[headerSize:]}
}

// soundness knows the records whose rows were checked since they were written, or
// since the store was opened: the checksum of 100 KB takes longer than most of
// what a query does with them, and pages that were read once stay in memory. A
// scrub looks at all of them again.
type soundness struct {
	mu      sync.RWMutex
	ids     vector.IDSet
	seq     uint64            // counts commits
	written map[uint64]uint64 // id to the commit that wrote it, where it was not checked since
}

func (s *soundness) last() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seq
}

func (s *soundness) has(id uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ids.Contains(id)
}

// changed notes a commit. It is called before and after: who reads between the two
// may see either state.
func (s *soundness) changed(batch []*change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[uint64]uint64{}
	}
	s.seq++
	for _, c := range batch {
		s.ids.Remove(c.id)
		s.written[c.id] = s.seq
	}
}

// add notes records that were found sound by who began to read after commit seq,
// but for those that were written later.
func (s *soundness) add(ids []uint64, seq uint64) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.written[id] <= seq {
			s.ids.Add(id)
			delete(s.written, id)
		}
	}
}
