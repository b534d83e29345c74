package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// view looks at the table.
func (c *Catalog) view(f func(*catalog.Table) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f(c.table)
}

// number returns the slave's number, or a new one.
func (c *Catalog) number(tx *bbolt.Tx, addr string) (number uint32, err error) {
	known := false
	err = c.view(func(t *catalog.Table) error {
		number, _, known = t.SlaveNumber(addr)
		return nil
	})
	if known || err != nil {
		return number, err
	}
	n, err := tx.Bucket(bucketSlaves).NextSequence()
	if err == nil && n > maxNumber {
		err = fmt.Errorf("more than %d slaves", maxNumber)
	}
	return uint32(n), err
}

// next raises a counter of the meta bucket by one, to above floor at least.
func next(tx *bbolt.Tx, key []byte, floor uint64) (uint64, error) {
	meta := tx.Bucket(bucketMeta)
	v, err := decode64(meta.Get(key))
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %v", catalog.ErrForeign, key, err)
	}
	v = max(v, floor)
	if v == math.MaxUint64 {
		return 0, fmt.Errorf("%w: %s %d has no number after it", catalog.ErrInvalid, key, v)
	}
	return v + 1, meta.Put(key, key64(v+1))
}

// SetState notes what the slave can do now.
func (c *Catalog) SetState(addr string, st catalog.State, problem string) {
	c.change(func(t *catalog.Table) bool { return t.SetState(addr, st, problem) })
}

// SetInventory notes what comparing the slave's inventory found.
func (c *Catalog) SetInventory(addr string, missing []uint64, setAside uint64) {
	c.change(func(t *catalog.Table) bool { return t.SetInventory(addr, missing, setAside) })
}

// Begin writes the intent with a new revision. The first put of a slot that is
// not pinned also writes the slot's partition record.
func (c *Catalog) Begin(ctx context.Context, in catalog.Intent) (catalog.Intent, error) {
	var holders []uint32
	slot, setSlot := catalog.Slot(in.ID), false
	done := in
	err := c.write(ctx, &op{
		check: func(*bbolt.Tx) (err error) {
			holders, err = c.holders(in)
			return err
		},
		store: func(tx *bbolt.Tx) (err error) {
			if done.Revision, err = next(tx, keyRevision, in.Revision); err != nil {
				return err
			}
			slots := tx.Bucket(bucketSlots)
			setSlot = in.Op == catalog.Put && !in.Pinned && slots.Get(keySlot(slot)) == nil
			if setSlot {
				if err := slots.Put(keySlot(slot), appendHolders(nil, holders)); err != nil {
					return err
				}
			}
			r := intentRecord{done.Revision, in.Op, vectorRecord{pinned: in.Pinned, bytes: in.Bytes, holders: holders, name: in.Name}}
			return tx.Bucket(bucketIntents).Put(key64(in.ID), r.append(nil))
		},
		apply: func(t *catalog.Table) {
			if setSlot {
				t.SetSlot(slot, holders)
			}
			t.PutIntent(done, false)
		},
	})
	if err != nil {
		return catalog.Intent{}, err
	}
	done.Confirmed = nil
	return done, nil
}

// holders returns the numbers of the intent's holders, or why it cannot be begun.
func (c *Catalog) holders(in catalog.Intent) (numbers []uint32, err error) {
	switch {
	case len(in.Holders) == 0:
		return nil, fmt.Errorf("%w: a write to vector %d without holders", catalog.ErrInvalid, in.ID)
	case in.Op != catalog.Put && in.Op != catalog.Delete:
		return nil, fmt.Errorf("%w: operation %d", catalog.ErrInvalid, in.Op)
	case len(in.Name) > maxName:
		return nil, fmt.Errorf("%w: name of %d bytes, %d are allowed", catalog.ErrInvalid, len(in.Name), maxName)
	}
	err = c.view(func(t *catalog.Table) error {
		for _, addr := range in.Holders {
			n, protocol, ok := t.SlaveNumber(addr)
			switch {
			case !ok:
				return fmt.Errorf("%w: %s", catalog.ErrUnknownSlave, addr)
			case protocol != 2:
				return fmt.Errorf("%w: %s", catalog.ErrStatic, addr)
			}
			numbers = append(numbers, n)
		}
		if static, ok := t.StaticHolder(in.ID); ok {
			return fmt.Errorf("%w: vector %d is on %s", catalog.ErrStatic, in.ID, static)
		}
		return nil
	})
	return numbers, err
}

// Confirm notes that addr has the revision on disk.
func (c *Catalog) Confirm(id, revision uint64, addr string) {
	c.change(func(t *catalog.Table) bool { return t.Confirm(id, revision, addr) })
}

// Finish makes the intent the state of the id.
func (c *Catalog) Finish(ctx context.Context, id, revision uint64) error {
	var in intentRecord
	return c.write(ctx, &op{
		check: func(tx *bbolt.Tx) (err error) {
			in, err = current(tx, id, revision)
			return err
		},
		store: func(tx *bbolt.Tx) error {
			members := tx.Bucket(bucketMembers)
			var err error
			if in.op == catalog.Delete {
				err = members.Delete(key64(id))
			} else {
				in.vectorRecord.revision = revision
				err = members.Put(key64(id), in.vectorRecord.append(nil))
			}
			return errors.Join(err, tx.Bucket(bucketIntents).Delete(key64(id)))
		},
		apply: func(t *catalog.Table) {
			if in.op == catalog.Delete {
				t.DropMember(id)
			} else {
				t.PutMember(id, in.holders, in.pinned, in.name, in.bytes)
			}
			t.DropIntent(id, revision)
		},
	})
}

// Revisions returns for each of the ids the revision of its last finished put.
func (c *Catalog) Revisions(ids []uint64) ([]uint64, error) {
	revisions := make([]uint64, len(ids))
	err := c.file.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketMembers).Cursor()
		for i, id := range ids {
			k, v := cursor.Seek(key64(id))
			if !bytes.Equal(k, key64(id)) {
				continue
			}
			r := reader{b: v}
			if revisions[i] = r.vector().revision; r.err != nil {
				return fmt.Errorf("%w: vector %d: %v", catalog.ErrForeign, id, r.err)
			}
		}
		return nil
	})
	return revisions, err
}

// Abort forgets the intent.
func (c *Catalog) Abort(ctx context.Context, id, revision uint64) error {
	return c.write(ctx, &op{
		check: func(tx *bbolt.Tx) error {
			_, err := current(tx, id, revision)
			return err
		},
		store: func(tx *bbolt.Tx) error { return tx.Bucket(bucketIntents).Delete(key64(id)) },
		apply: func(t *catalog.Table) { t.DropIntent(id, revision) },
	})
}

// current returns the open intent of the id, if it has that revision.
func current(tx *bbolt.Tx, id, revision uint64) (intentRecord, error) {
	v := tx.Bucket(bucketIntents).Get(key64(id))
	if v == nil {
		return intentRecord{}, fmt.Errorf("%w: vector %d, revision %d: no write is open", catalog.ErrSuperseded, id, revision)
	}
	r := reader{b: v}
	in := r.intent()
	if r.err != nil {
		return in, fmt.Errorf("%w: intent of vector %d: %v", catalog.ErrForeign, id, r.err)
	}
	if in.revision != revision {
		return in, fmt.Errorf("%w: vector %d, revision %d: revision %d is open", catalog.ErrSuperseded, id, revision, in.revision)
	}
	return in, nil
}
