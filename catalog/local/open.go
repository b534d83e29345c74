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

// Open opens the catalog in that file, or makes it, with its directory. Every
// slave in it is joining. Errors: catalog.ErrLocked, ErrForeign, ErrNewer, and
// those of the file system.
func Open(path string, cfg Config) (*Catalog, error) {
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
	if err == nil && fresh {
		err = file.Update(create)
	}
	if err == nil && old { // what is written from now on an older release cannot read
		err = file.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyFormat, key64(format)) })
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
	for _, name := range [][]byte{bucketMeta, bucketSlaves, bucketSlots, bucketMembers, bucketIntents} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(keyKind, []byte(kind)),
		meta.Put(keyFormat, key64(format)),
		meta.Put(keyRevision, key64(0)),
		meta.Put(keyEpoch, key64(0)),
	)
}

// check says whether the file is a catalog that this release reads, and returns
// its format.
func check(tx *bbolt.Tx) (v uint64, err error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || string(meta.Get(keyKind)) != kind {
		return 0, catalog.ErrForeign
	}
	v, err = decode64(meta.Get(keyFormat))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: format: %v", catalog.ErrForeign, err)
	case v > format:
		return v, fmt.Errorf("%w: format %d, this release reads up to %d", catalog.ErrNewer, v, format)
	}
	for _, name := range [][]byte{bucketSlaves, bucketSlots, bucketMembers, bucketIntents} {
		if tx.Bucket(name) == nil {
			return v, fmt.Errorf("%w: no bucket %s", catalog.ErrForeign, name)
		}
	}
	return v, nil
}

// load reads the whole file.
func load(file *disk.File) (*catalog.Table, error) {
	l := loader{table: catalog.NewTable(), numbers: map[uint32]bool{}}
	err := file.View(func(tx *bbolt.Tx) error {
		epoch, err := decode64(tx.Bucket(bucketMeta).Get(keyEpoch))
		if err != nil {
			return fmt.Errorf("%w: epoch: %v", catalog.ErrForeign, err)
		}
		l.table.SetEpoch(epoch)
		// Static slaves add to the members that are there, so they come last.
		for _, part := range []struct {
			bucket []byte
			read   func(k, v []byte) error
		}{
			{bucketSlaves, l.slave}, {bucketSlots, l.slot}, {bucketMembers, l.member}, {bucketSlaves, l.static}, {bucketIntents, l.intent},
		} {
			err := tx.Bucket(part.bucket).ForEach(func(k, v []byte) error {
				if err := part.read(k, v); err != nil {
					return fmt.Errorf("%w: damaged: %s %x: %v", catalog.ErrForeign, part.bucket, k, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return l.table, err
}

type loader struct {
	table   *catalog.Table
	numbers map[uint32]bool
}

func (l *loader) slave(k, v []byte) error {
	number, s, ids, err := decodeSlave(string(k), v)
	if err != nil {
		return err
	}
	if _, err := l.table.Check(s, catalog.Claim{IDs: ids}); err != nil {
		return err
	}
	if number == 0 || number > maxNumber || l.numbers[number] {
		return fmt.Errorf("number %d", number)
	}
	l.numbers[number] = true
	l.table.PutSlave(number, s, nil)
	return nil
}

func (l *loader) static(k, v []byte) error {
	number, s, ids, err := decodeSlave(string(k), v)
	if err == nil && len(ids) > 0 {
		l.table.PutSlave(number, s, ids)
	}
	return err
}

func (l *loader) slot(k, v []byte) error {
	r := reader{b: v}
	holders := r.holders()
	if len(k) != 2 || binary.BigEndian.Uint16(k) >= catalog.Slots {
		return fmt.Errorf("no slot")
	}
	if err := l.known(holders, r.err); err != nil {
		return err
	}
	l.table.SetSlot(int(binary.BigEndian.Uint16(k)), holders)
	return nil
}

func (l *loader) member(k, v []byte) error {
	id, err := decode64(k)
	r := reader{b: v}
	m := r.vector()
	if err := l.known(m.holders, errors.Join(err, r.err)); err != nil {
		return err
	}
	l.table.PutMember(id, m.holders, m.pinned, m.name, m.bytes)
	return nil
}

func (l *loader) intent(k, v []byte) error {
	id, err := decode64(k)
	r := reader{b: v}
	in := r.intent()
	if err := l.known(in.holders, errors.Join(err, r.err)); err != nil {
		return err
	}
	l.table.PutIntent(catalog.Intent{
		ID: id, Revision: in.revision, Op: in.op, Holders: l.table.Addrs(in.holders),
		Pinned: in.pinned, Name: in.name, Bytes: in.bytes,
	}, true)
	return nil
}

// known says that the numbers are those of slaves.
func (l *loader) known(numbers []uint32, err error) error {
	for _, n := range numbers {
		if !l.numbers[n] {
			err = errors.Join(err, fmt.Errorf("no slave has number %d", n))
		}
	}
	return err
}
