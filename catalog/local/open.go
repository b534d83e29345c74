package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"starfish/catalog"
	"starfish/disk"
)

// Config is how a catalog is opened; the zero value is the default.
type Config struct {
	LockTimeout time.Duration // how long to wait for another process to let go of the file; 0: 1 s
}

// Open is OpenLog as the master works with it.
func Open(path string, cfg Config) (catalog.Catalog, error) {
	l, err := OpenLog(path, cfg)
	if err != nil {
		return nil, err
	}
	return catalog.Over(l), nil
}

// OpenLog opens the log in that file, or makes it, with its directory. Errors:
// catalog.ErrLocked, ErrForeign, ErrNewer, and those of the file system.
func OpenLog(path string, cfg Config) (*Log, error) {
	file, err := disk.Open(path, disk.Options{LockTimeout: cfg.LockTimeout})
	if err != nil {
		return nil, named(err)
	}
	table, err := start(file)
	if err != nil {
		file.Close()
		return nil, named(err)
	}
	return run(file, table), nil
}

// named gives an error of the file the catalog's name for it.
func named(err error) error {
	switch {
	case errors.Is(err, disk.ErrLocked):
		return fmt.Errorf("%w: %w", catalog.ErrLocked, err)
	case errors.Is(err, disk.ErrDamaged):
		return fmt.Errorf("%w: %w; put a copy in its place", catalog.ErrForeign, err)
	}
	return err
}

// The bucket meta says what the file is, beside the catalog's own records there.
// A bucket each space of records.
var (
	keyKind   = []byte("kind")
	keyFormat = []byte("format")
	keyNumber = []byte("number") // since format 3; before, the sequence of the bucket of slaves
)

const (
	kind   = "starfish catalog"
	format = 3 // the format that this release writes, and the highest that it reads
)

func bucket(tx *bbolt.Tx, s catalog.Space) *bbolt.Bucket { return tx.Bucket([]byte(s.String())) }

// start makes a new file a catalog, or checks that it is one, and reads it.
func start(file *disk.File) (*catalog.Table, error) {
	fresh, old := false, false
	err := file.View(func(tx *bbolt.Tx) error {
		first, _ := tx.Cursor().First()
		fresh = first == nil
		if fresh {
			return nil
		}
		v, err := check(tx)
		old = v < format
		return err
	})
	switch {
	case err != nil:
	case fresh:
		err = file.Update(create)
	case old:
		err = file.Update(upgrade)
	}
	var table *catalog.Table
	if err == nil {
		table, err = load(file)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, file.Path())
	}
	return table, nil
}

func create(tx *bbolt.Tx) error {
	for _, s := range catalog.Spaces() {
		if _, err := tx.CreateBucket([]byte(s.String())); err != nil {
			return err
		}
	}
	w := &writer{tx: tx}
	err := catalog.NewTable().Records(w.store)
	meta := bucket(tx, catalog.Meta)
	return errors.Join(err, w.end(), meta.Put(keyKind, []byte(kind)), meta.Put(keyFormat, key64(format)))
}

// upgrade makes a file of format 1 or 2 one that this release may write: the older
// ones, which cannot read that, refuse it from now on. Their records stay as they
// are until they change.
func upgrade(tx *bbolt.Tx) error {
	meta := bucket(tx, catalog.Meta)
	err := errors.Join(
		meta.Put(keyNumber, key64(bucket(tx, catalog.Slaves).Sequence())),
		meta.Put(keyFormat, key64(format)),
	)
	if err != nil {
		return err
	}
	sum, err := sumOf(tx) // of what is there: the older formats have none to compare with
	return errors.Join(err, meta.Put(keySum, key64(sum)))
}

// check says whether the file is a catalog that this release reads, and returns
// its format.
func check(tx *bbolt.Tx) (v uint64, err error) {
	meta := bucket(tx, catalog.Meta)
	if meta == nil || string(meta.Get(keyKind)) != kind {
		return 0, catalog.ErrForeign
	}
	b := meta.Get(keyFormat)
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: format of %d bytes, 8 expected", catalog.ErrForeign, len(b))
	}
	if v = binary.BigEndian.Uint64(b); v > format {
		return v, fmt.Errorf("%w: format %d, this release reads up to %d: start the newer release, or put back a copy of before", catalog.ErrNewer, v, format)
	}
	for _, s := range catalog.Spaces() {
		if bucket(tx, s) == nil {
			return v, fmt.Errorf("%w: no bucket %s", catalog.ErrForeign, s)
		}
	}
	return v, nil
}

// load reads the whole file.
func load(file *disk.File) (*catalog.Table, error) {
	table := catalog.NewTable()
	err := file.View(func(tx *bbolt.Tx) error {
		want, err := readSum(tx)
		if err != nil {
			return err
		}
		sum := uint64(0)
		for _, space := range catalog.Spaces() {
			err := bucket(tx, space).ForEach(func(k, v []byte) error {
				if ofFile(space, k) {
					return nil
				}
				sum += digest(space, k, v)
				if err := table.Restore(catalog.Record{Space: space, Key: k, Value: v}); err != nil {
					// A damaged page shows keys of many megabytes.
					return fmt.Errorf("%w: damaged: %s %.32x (%d bytes): %w", catalog.ErrForeign, space, k, len(k), err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if sum != want {
			return fmt.Errorf("%w: damaged: the sum over its records is not the one that was written; put a copy in its place", catalog.ErrForeign)
		}
		if err := table.Restored(); err != nil {
			return fmt.Errorf("%w: damaged: %w", catalog.ErrForeign, err)
		}
		return nil
	})
	return table, err
}

func key64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
