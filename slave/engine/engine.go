// Package engine runs queries on one machine: as a leg of one that another
// machine coordinates, or as the coordinator of its legs. It reads vectors out of
// the store and folds their bytes (package vector/fold) with what the other legs
// answered; who is called, and how, is the business of its caller.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"starfish/idset"
	"starfish/store"
	"starfish/vector/fold"
)

// Store is where the vectors are.
type Store interface {
	// Read runs f with a reader of one moment.
	Read(f func(*store.Reader) error) error
}

// Engine runs queries over one store. All methods may be called concurrently.
type Engine struct {
	store   Store
	compute func(ctx context.Context, f func() error) error
	gathers sync.Pool // of *fold.Gather

	windowBytes, allBytes int // see coordinate.go
}

// New returns an engine. Whatever computes for long runs in compute, which bounds
// how much of that there is at a time and gives the error of a ctx that ended.
func New(s Store, compute func(ctx context.Context, f func() error) error) *Engine {
	return &Engine{store: s, compute: compute, windowBytes: windowBytes, allBytes: allBytes}
}

func (e *Engine) gather(ranges int) *fold.Gather {
	g, _ := e.gathers.Get().(*fold.Gather)
	if g == nil {
		return fold.NewGather(ranges)
	}
	g.Reset(ranges)
	return g
}

// release gives a Gather back; nothing keeps the bytes that it was given.
func (e *Engine) release(g *fold.Gather) {
	g.Reset(0)
	e.gathers.Put(g)
}

// Leg is what this machine answers for the keys from one up to Next: upper 16 bits
// of rows.
type Leg struct {
	Frame       []byte         // containers; see fold.ParseFrame
	Next        int            // fold.Keys where that was all
	Absent      []store.Absent // ids that are not there
	Fingerprint uint64         // a sum over a hash of (range, id, revision) of all that was read
}

// Leg reads the vectors of this machine, a set of ids a range, and answers what
// has keys from first on, in about limit bytes.
func (e *Engine) Leg(ctx context.Context, ids []idset.Encoded, first, limit int) (Leg, error) {
	frame, l, err := e.AppendLeg(ctx, nil, ids, first, limit)
	l.Frame = frame
	return l, err
}

// AppendLeg is Leg with the frame appended to dst, and none in the Leg.
func (e *Engine) AppendLeg(ctx context.Context, dst []byte, ids []idset.Encoded, first, limit int) (out []byte, l Leg, err error) {
	g := e.gather(len(ids))
	defer e.release(g)
	err = e.compute(ctx, func() error {
		return e.store.Read(func(r *store.Reader) error {
			if l.Absent, l.Fingerprint, err = add(ctx, g, r, ids); err != nil {
				return err
			}
			out, l.Next, err = g.Leg(ctx, dst, first, fold.Keys, limit)
			return err
		})
	})
	if err != nil {
		return dst, Leg{}, err
	}
	return out, l, nil
}

// WordLeg is the frame of a leg of C handlers, which answer one word a range.
func WordLeg(words []uint64) ([]byte, error) {
	g := fold.NewGather(len(words))
	for rng, w := range words {
		g.AddWord(rng, w)
	}
	frame, _, err := g.Leg(context.Background(), nil, 0, fold.Keys, fold.LegBytes)
	return frame, err
}

// ctxEvery is how many vectors are added between two looks at the context.
const ctxEvery = 1024

// add adds the vectors of the store to their ranges. What is not there, or is no
// set, is absent.
func add(ctx context.Context, g *fold.Gather, r *store.Reader, ids []idset.Encoded) (absent []store.Absent, fingerprint uint64, err error) {
	n := 0
	for rng, set := range ids {
		for id := range set.All() {
			if n++; n%ctxEvery == 0 && ctx.Err() != nil {
				return nil, 0, ctx.Err()
			}
			rec := r.Find(id)
			fingerprint += mark(rng, id, rec.Revision)
			if rec.Rows == nil {
				absent = append(absent, store.Absent{ID: id, Revision: rec.Revision})
				continue
			}
			v, err := fold.Parse(rec.Rows)
			if err != nil {
				return nil, 0, fmt.Errorf("engine: vector %d: %w", id, err)
			}
			g.Add(rng, v)
		}
	}
	return absent, fingerprint, nil
}

// mark is what one vector adds to a fingerprint: its range, id and revision,
// mixed (the finalizer of MurmurHash3) so that sums of other ones differ.
func mark(rng int, id, revision uint64) uint64 {
	return mix(mix(mix(uint64(rng))^id) ^ revision)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// ErrChanged says that vectors were written between two windows of one leg.
var ErrChanged = errors.New("engine: vectors were written between two windows")
