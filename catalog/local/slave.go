package local

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"starfish/catalog"
)

// AddSlave adds the slave or changes it; what is as it was costs no write.
func (c *Catalog) AddSlave(ctx context.Context, s catalog.Slave, ids []catalog.Span) error {
	_, err := c.Claim(ctx, s, catalog.Claim{IDs: ids})
	return err
}

// Claim is AddSlave of a static slave that shares ids with others, or takes them.
func (c *Catalog) Claim(ctx context.Context, s catalog.Slave, claim catalog.Claim) (revision uint64, err error) {
	changes := false
	check := func(*bbolt.Tx) error {
		return c.view(func(t *catalog.Table) (err error) {
			changes, err = t.Check(s, claim)
			return err
		})
	}
	if err := check(nil); err != nil || !changes {
		return 0, err
	}
	claim.IDs = catalog.MergeSpans(claim.IDs)
	var number uint32
	var epoch uint64
	err = c.write(ctx, &op{
		alone: true,
		check: check,
		store: func(tx *bbolt.Tx) (err error) {
			if number, err = c.number(tx, s.Addr); err != nil {
				return err
			}
			if revision, err = c.storeClaim(tx, s.Addr, claim); err != nil {
				return err
			}
			v, err := encodeSlave(number, s, claim.IDs)
			if err != nil {
				return err
			}
			if epoch, err = next(tx, keyEpoch, 0); err != nil {
				return err
			}
			return tx.Bucket(bucketSlaves).Put([]byte(s.Addr), v)
		},
		apply: func(t *catalog.Table) {
			if claim.Alone {
				t.Evict(claim.Known)
			}
			t.PutSlave(number, s, claim.IDs)
			t.SetEpoch(epoch)
		},
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

// storeClaim writes what a claim means for others. An id that they lose keeps a
// record without holders, with a revision above that of their copies: so these
// are known to be old, also when the slave comes back that has one.
func (c *Catalog) storeClaim(tx *bbolt.Tx, addr string, claim catalog.Claim) (revision uint64, err error) {
	var given []catalog.Span
	shrunk := map[string][]catalog.Span{}
	_ = c.view(func(t *catalog.Table) error {
		given = catalog.SubtractSpans(t.Snapshot().Spans(addr), claim.IDs)
		if claim.Alone {
			shrunk = t.Shrunk(claim.Known, addr)
		}
		return nil
	})
	if err := dropUnheld(tx, given); err != nil {
		return 0, err
	}
	for other, ids := range shrunk {
		if err := setSpans(tx, other, ids); err != nil {
			return 0, err
		}
	}
	if !claim.Alone || len(claim.Known) == 0 {
		return 0, nil
	}
	if revision, err = next(tx, keyRevision, 0); err != nil {
		return 0, err
	}
	v := vectorRecord{revision: revision}.append(nil)
	for _, id := range claim.Known {
		if err := tx.Bucket(bucketMembers).Put(key64(id), v); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// Remove forgets the slave.
func (c *Catalog) Remove(ctx context.Context, addr string, forget bool) error {
	var epoch uint64
	return c.write(ctx, &op{
		alone: true,
		check: func(*bbolt.Tx) error {
			return c.view(func(t *catalog.Table) error { return t.CheckRemove(addr, forget) })
		},
		store: func(tx *bbolt.Tx) (err error) {
			var given []catalog.Span
			_ = c.view(func(t *catalog.Table) error {
				given = t.Snapshot().Spans(addr)
				return nil
			})
			if err := dropUnheld(tx, given); err != nil {
				return err
			}
			if epoch, err = next(tx, keyEpoch, 0); err != nil {
				return err
			}
			return tx.Bucket(bucketSlaves).Delete([]byte(addr))
		},
		apply: func(t *catalog.Table) {
			t.RemoveSlave(addr)
			t.SetEpoch(epoch)
		},
	})
}

// dropUnheld deletes the records without holders of these ids, which their static
// slave gives up.
func dropUnheld(tx *bbolt.Tx, ids []catalog.Span) error {
	members := tx.Bucket(bucketMembers)
	var unheld [][]byte // a cursor must not see its bucket change
	for _, span := range ids {
		cursor := members.Cursor()
		for k, v := cursor.Seek(key64(span.First)); k != nil; k, v = cursor.Next() {
			id, err := decode64(k)
			r := reader{b: v}
			m := r.vector()
			if err := errors.Join(err, r.err); err != nil {
				return fmt.Errorf("%w: vector %x: %v", catalog.ErrForeign, k, err)
			}
			if id > span.Last {
				break
			}
			if len(m.holders) == 0 {
				unheld = append(unheld, key64(id))
			}
		}
	}
	for _, k := range unheld {
		if err := members.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// setSpans changes what a static slave holds, and nothing else of its record.
func setSpans(tx *bbolt.Tx, addr string, ids []catalog.Span) error {
	bucket := tx.Bucket(bucketSlaves)
	number, s, _, err := decodeSlave(addr, bucket.Get([]byte(addr)))
	if err != nil {
		return fmt.Errorf("%w: slave %s: %v", catalog.ErrForeign, addr, err)
	}
	v, err := encodeSlave(number, s, ids)
	if err != nil {
		return err
	}
	return bucket.Put([]byte(addr), v)
}
