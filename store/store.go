// Package store keeps vectors on disk, in one bbolt file: revision, checksum and
// portable Roaring bytes of each (record.go has the layout).
//
// Reading the source: store.go opens the file and reads it, commit.go writes.
package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"starfish/disk"
	"starfish/vector"
)

const format = "starfish vectors 1"

var (
	metaBucket    = []byte("meta")
	vectorsBucket = []byte("vectors")
	formatKey     = []byte("format")
)

// Config configures a Store; the zero value is the default.
type Config struct {
	Logger      *slog.Logger
	LockTimeout time.Duration // how long Open waits for the file's lock; 0: 1 s
}

// Store keeps vectors in one bbolt file. Every record has a revision, and a
// lower revision never replaces a higher one. All methods may be called
// concurrently.
type Store struct {
	file *disk.File
	puts *disk.Group[*change]
	log  *slog.Logger

	sound soundness

	mu      sync.Mutex
	corrupt map[uint64]bool // ids whose record was found damaged
}

// Vector is one record as read.
type Vector struct {
	Revision uint64
	Deleted  bool           // a tombstone, or 0 and true where there never was one
	Rows     *vector.Bitmap // nil where deleted
}

// Item is one line of the inventory.
type Item struct {
	ID, Revision uint64
	Count        uint64 // rows
	Bytes        uint64 // serialized size of the rows
	Checksum     uint64 // of the serialized rows; equal sets have equal ones
	Deleted      bool
}

// Open opens the store at path, which it makes where there is none, with its
// directories.
func Open(path string, cfg Config) (*Store, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	file, err := disk.Open(path, disk.Options{Mode: 0o640, LockTimeout: cfg.LockTimeout, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	s := &Store{file: file, log: cfg.Logger, corrupt: map[uint64]bool{}}
	if err := s.checkFormat(); err != nil {
		file.Close()
		return nil, err
	}
	s.puts = disk.NewGroup(disk.GroupConfig[*change]{
		Limit: maxCommitChanges, Weight: (*change).size, Most: maxCommitBytes, Commit: s.commit,
	})
	return s, nil
}

func (s *Store) checkFormat() error {
	found := ""
	err := s.file.View(func(tx *bbolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil {
			found = string(meta.Get(formatKey))
		} else if name, _ := tx.Cursor().First(); name != nil {
			found = fmt.Sprintf("bucket %.64q", name)
		}
		return nil
	})
	switch {
	case err != nil || found == format:
		return err
	case found != "":
		return fmt.Errorf("%w: %s: %.80s, this program reads %q", ErrFormat, s.file.Path(), found, format)
	}
	return s.file.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(vectorsBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(formatKey, []byte(format))
	})
}

// view runs f in a read transaction.
func (s *Store) view(f func(vectors *bbolt.Bucket) error) error {
	return s.file.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(vectorsBucket)
		if b == nil {
			return fmt.Errorf("%w: %s: no bucket of vectors", ErrCorrupt, s.file.Path())
		}
		return f(b)
	})
}

// Get reads one vector. Where there is none the answer is revision 0, deleted.
func (s *Store) Get(id uint64) (Vector, error) {
	v := Vector{Deleted: true}
	err := s.view(func(vectors *bbolt.Bucket) error {
		rec := vectors.Get(key(id))
		if rec == nil {
			return nil
		}
		h, rows, err := readRecord(id, rec)
		if err != nil {
			s.noteCorrupt(id, err)
			return err
		}
		if rows != nil {
			rows.Detach()
		}
		v = Vector{Revision: h.revision, Deleted: h.deleted, Rows: rows}
		return nil
	})
	return v, err
}

// orBatch is how many vectors are mapped at a time.
const orBatch = 256

// Absent is an id that the store has no rows of.
type Absent struct {
	ID       uint64
	Revision uint64 // of its tombstone; 0: never put, or damaged
}

// OrInto adds the rows of the vectors ids, in any order and with repeats, to
// dst, and returns those that the store does not have, ascending: never put,
// deleted, or damaged (which is logged). All is of one moment.
func (s *Store) OrInto(ctx context.Context, ids []uint64, dst *vector.Bitmap) (absent []Absent, err error) {
	if !slices.IsSorted(ids) {
		ids = slices.Clone(ids)
		slices.Sort(ids)
	}
	err = s.view(func(vectors *bbolt.Bucket) error {
		defer dst.Detach()
		c := vectors.Cursor()
		views := make([]*vector.Bitmap, 0, min(orBatch, len(ids)))
		for i, id := range ids {
			if i > 0 && ids[i-1] == id {
				continue
			}
			if i%orBatch == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			h, rows, err := seek(c, id)
			if err != nil {
				s.noteCorrupt(id, err)
				h.revision = 0 // no tombstone
			}
			if rows == nil {
				absent = append(absent, Absent{ID: id, Revision: h.revision})
				continue
			}
			if views = append(views, rows); len(views) == orBatch {
				dst.OrAll(views)
				views = views[:0]
			}
		}
		dst.OrAll(views)
		return nil
	})
	return absent, err
}

// seek reads one record by cursor; without rows where there is none.
func seek(c *bbolt.Cursor, id uint64) (header, *vector.Bitmap, error) {
	k := key(id)
	found, rec := c.Seek(k)
	if !slices.Equal(found, k) {
		return header{}, nil, nil
	}
	return readRecord(id, rec)
}

func (s *Store) noteCorrupt(id uint64, err error) {
	s.mu.Lock()
	known := s.corrupt[id]
	s.corrupt[id] = true
	s.mu.Unlock()
	if !known {
		s.log.Error("store: a vector is damaged and counts as not held", "id", id, "err", err)
	}
}

// Inventory lists up to limit records from id first on, ascending, tombstones
// too, and says whether there are more. A record known to be damaged is left out.
func (s *Store) Inventory(first uint64, limit int) (items []Item, more bool, err error) {
	err = s.view(func(vectors *bbolt.Bucket) error {
		c := vectors.Cursor()
		for k, rec := c.Seek(key(first)); k != nil; k, rec = c.Next() {
			if len(k) != 8 {
				return fmt.Errorf("%w: %s: key of %d bytes", ErrCorrupt, s.file.Path(), len(k))
			}
			if len(items) >= limit {
				more = true
				return nil
			}
			id := binary.BigEndian.Uint64(k)
			h, err := readHeader(id, rec)
			if err != nil {
				s.noteCorrupt(id, err)
			}
			if s.IsDamaged(id) {
				continue
			}
			items = append(items, Item{
				ID: id, Revision: h.revision, Count: h.rows, Bytes: uint64(len(rec) - headerSize),
				Checksum: h.checksum, Deleted: h.deleted,
			})
		}
		return nil
	})
	return items, more, err
}

// IsDamaged says that the record was found damaged, and not replaced since.
func (s *Store) IsDamaged(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.corrupt[id]
}

// Damaged counts the records that were found damaged and not replaced since, and
// names the first.
func (s *Store) Damaged() (n int, first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.corrupt {
		if n == 0 || id < first {
			first = id
		}
		n++
	}
	return n, first
}

// Close finishes the changes that were begun and closes the file.
func (s *Store) Close() error {
	s.puts.Close()
	return s.file.Close()
}
