package vector

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Changes that come while a commit is being synced share the next one.
const (
	maxCommitChanges = 512
	maxCommitBytes   = 64 << 20
)

// change is one Put or Delete on its way to disk.
type change struct {
	id, revision uint64
	record       []byte
	done         chan error

	held uint64 // the revision that the store has afterwards
	err  error
}

// Put stores rows as vector id and returns, when that is on disk, the revision
// that the store has now. A stored higher revision stays as it is and is
// returned; the same revision with the same rows is no change. rows is not kept.
func (s *Store) Put(id, revision uint64, rows *Bitmap) (held uint64, err error) {
	return s.submit(&change{id: id, revision: revision, record: newRecord(id, revision, rows)})
}

// Delete leaves a tombstone in the vector's place, by the rules of Put.
func (s *Store) Delete(id, revision uint64) (held uint64, err error) {
	return s.submit(&change{id: id, revision: revision, record: newRecord(id, revision, nil)})
}

func (s *Store) submit(c *change) (uint64, error) {
	c.done = make(chan error, 1)
	select {
	case s.changes <- c:
	case <-s.quit:
		return 0, ErrClosed
	}
	if err := <-c.done; err != nil {
		return 0, err
	}
	return c.held, c.err
}

// commitLoop writes changes, as many a transaction as wait.
func (s *Store) commitLoop() {
	defer close(s.done)
	var batch []*change
	for {
		select {
		case c := <-s.changes:
			batch = s.gather(append(batch[:0], c))
		case <-s.quit:
			return
		}
		err := s.commit(batch)
		for i, c := range batch {
			c.done <- err
			batch[i] = nil
		}
	}
}

func (s *Store) gather(batch []*change) []*change {
	size := len(batch[0].record)
	for len(batch) < maxCommitChanges && size < maxCommitBytes {
		select {
		case c := <-s.changes:
			batch = append(batch, c)
			size += len(c.record)
		default:
			return batch
		}
	}
	return batch
}

func (s *Store) commit(batch []*change) (err error) {
	defer s.guard(&err)()
	err = s.db.Update(func(tx *bbolt.Tx) error {
		vectors := tx.Bucket(vectorsBucket)
		if vectors == nil {
			return fmt.Errorf("%w: %s: no bucket of vectors", ErrCorrupt, s.path)
		}
		for _, c := range batch {
			if err := s.apply(vectors, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("vector: writing to the store: %w", err)
	}
	return err
}

// apply does one change. A fault of this change alone goes to c.err.
func (s *Store) apply(vectors *bbolt.Bucket, c *change) error {
	if old := vectors.Get(key(c.id)); old != nil {
		h, _, err := readRecord(c.id, old)
		damaged := err != nil
		if damaged && h == (header{}) {
			c.err = err // its revision cannot be known
			return nil
		}
		c.held = h.revision
		switch {
		case c.revision < h.revision:
			return nil
		case c.revision > h.revision, damaged:
		case headerSum(c.id, old) != headerSum(c.id, c.record):
			c.err = fmt.Errorf("%w: vector %d, revision %d", ErrClash, c.id, c.revision)
			return nil
		default:
			return nil
		}
	}
	if err := vectors.Put(key(c.id), c.record); err != nil {
		return err
	}
	c.held = c.revision
	s.mu.Lock()
	delete(s.corrupt, c.id)
	s.mu.Unlock()
	return nil
}
