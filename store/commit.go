package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"starfish/vector"
)

// Bounds of one commit.
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
func (s *Store) Put(id, revision uint64, rows *vector.Bitmap) (held uint64, err error) {
	return s.submit(&change{id: id, revision: revision, record: newRecord(id, revision, rows)})
}

// Delete leaves a tombstone in the vector's place, by the rules of Put.
func (s *Store) Delete(id, revision uint64) (held uint64, err error) {
	return s.submit(&change{id: id, revision: revision, record: newRecord(id, revision, nil)})
}

func (s *Store) submit(c *change) (uint64, error) {
	c.done = make(chan error, 1)
	if err := s.puts.Submit(context.Background(), c); err != nil {
		return 0, err
	}
	if err := <-c.done; err != nil {
		return 0, err
	}
	return c.held, c.err
}

func (c *change) size() int { return len(c.record) }

// commit makes the changes durable in one transaction and answers them.
func (s *Store) commit(batch []*change) {
	s.sound.changed(batch)
	err := s.file.Update(func(tx *bbolt.Tx) error {
		vectors := tx.Bucket(vectorsBucket)
		if vectors == nil {
			return fmt.Errorf("%w: %s: no bucket of vectors", ErrCorrupt, s.file.Path())
		}
		for _, c := range batch {
			if err := s.apply(vectors, c); err != nil {
				return err
			}
		}
		return nil
	})
	s.sound.changed(batch)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("store: writing: %w", err)
	}
	for _, c := range batch {
		c.done <- err
	}
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
