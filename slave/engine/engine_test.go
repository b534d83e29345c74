package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"starfish/idset"
	"starfish/store"
	"starfish/vector"
	"starfish/vector/fold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func atOnce(_ context.Context, f func() error) error { return f() }

// machines are engines that each have a part of some vectors.
type machines struct {
	stores  []*store.Store
	engines []*Engine
	vectors map[uint64]*vector.Bitmap
}

func newMachines(t *testing.T, n int) *machines {
	m := &machines{vectors: map[uint64]*vector.Bitmap{}}
	for i := range n {
		s, err := store.Open(filepath.Join(t.TempDir(), "v.db"), store.Config{})
		require.NoError(t, err, i)
		t.Cleanup(func() { s.Close() })
		m.stores, m.engines = append(m.stores, s), append(m.engines, New(s, atOnce))
	}
	return m
}

// put stores a vector on the machine whose number its id ends in.
func (m *machines) put(t *testing.T, id, revision uint64, b *vector.Bitmap) {
	_, err := m.stores[id%uint64(len(m.stores))].Put(id, revision, b)
	require.NoError(t, err)
	m.vectors[id] = b
}

// sets are the ids of machine i in each range.
func (m *machines) sets(t *testing.T, i int, ranges [][]uint64) []idset.Encoded {
	out := make([]idset.Encoded, len(ranges))
	for r, ids := range ranges {
		var s idset.Set
		for _, id := range ids {
			if id%uint64(len(m.stores)) == uint64(i) {
				s.Add(id)
			}
		}
		var err error
		out[r], err = idset.Parse(s.Bytes(), 1<<20)
		require.NoError(t, err)
	}
	return out
}

// query has machine 0 coordinate; between is called before each leg of another.
func (m *machines) query(t *testing.T, ranges [][]uint64, count bool, between func(machine, first int)) (Answer, error) {
	q := Query{Ranges: len(ranges), Own: m.sets(t, 0, ranges), Count: count, Together: func(ctx context.Context, fs []func(context.Context) error) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, f := range fs {
			g.Go(func() error { return f(ctx) })
		}
		return g.Wait()
	}}
	var mu sync.Mutex
	for i := 1; i < len(m.engines); i++ {
		q.Remotes = append(q.Remotes, func(ctx context.Context, first, limit int) (Window, error) {
			if between != nil {
				mu.Lock()
				between(i, first)
				mu.Unlock()
			}
			l, err := m.engines[i].Leg(ctx, m.sets(t, i, ranges), first, limit)
			if err != nil {
				return Window{}, err
			}
			f, err := fold.ParseFrame(l.Frame, len(ranges), first, l.Next)
			return Window{Frame: f, Next: l.Next, Absent: l.Absent, Fingerprint: l.Fingerprint}, err
		})
	}
	return m.engines[0].Coordinate(t.Context(), q)
}

// want is the answer by plain sets.
func (m *machines) want(ranges [][]uint64) *vector.Bitmap {
	var all *vector.Bitmap
	for _, ids := range ranges {
		or := vector.New()
		for _, id := range ids {
			if b := m.vectors[id]; b != nil {
				or.Or(b)
			}
		}
		if all == nil {
			all = or
		} else {
			all.And(or)
		}
	}
	return all
}

func (m *machines) check(t *testing.T, ranges [][]uint64, between func(machine, first int)) {
	t.Helper()
	for _, count := range []bool{false, true} {
		a, err := m.query(t, ranges, count, between)
		require.NoError(t, err)
		want := m.want(ranges)
		require.Equal(t, want.Count(), a.Count)
		if !count {
			got, err := vector.ReadRoaring(a.Rows)
			require.NoError(t, err)
			require.True(t, want.Equal(got))
		}
	}
}

// some is a vector of the kinds of containers there are.
func some(rnd *rand.Rand, keys int) *vector.Bitmap {
	b := vector.New()
	for range rnd.IntN(keys) + 1 {
		base := uint32(rnd.IntN(keys)) << 16
		switch rnd.IntN(3) {
		case 0:
			for range rnd.IntN(300) {
				b.Add(base + rnd.Uint32N(1<<16))
			}
		case 1:
			for range 9000 {
				b.Add(base + rnd.Uint32N(1<<16))
			}
		case 2:
			first := rnd.Uint32N(60000)
			b.AddRange(base+first, base+first+rnd.Uint32N(5000))
		}
	}
	return b
}

func TestCoordinate(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		m := newMachines(t, n)
		rnd := rand.New(rand.NewPCG(uint64(n), 7))
		for id := range uint64(40) {
			m.put(t, id, 1, some(rnd, 20))
		}
		all := make([]uint64, 40)
		for i := range all {
			all[i] = uint64(i)
		}
		for _, ranges := range [][][]uint64{
			{all}, {all[:5], all[10:30]}, {all[3:4]}, {all, all, all[7:9]}, {nil}, {all, nil}, {all[1:2], all[2:3]},
		} {
			m.check(t, ranges, nil)
		}
	}
}

// TestWindows: legs that are cut after every few keys, each at other ones.
func TestWindows(t *testing.T) {
	m := newMachines(t, 3)
	rnd := rand.New(rand.NewPCG(3, 9))
	var ids []uint64
	for id := range uint64(30) {
		m.put(t, id, 1, some(rnd, 60))
		ids = append(ids, id)
	}
	for _, e := range m.engines {
		e.windowBytes = 20 << 10
	}
	windows := map[int]int{}
	m.check(t, [][]uint64{ids, ids[:20]}, func(machine, first int) { windows[machine]++ })
	require.Greater(t, windows[1], 4, "of two queries")
	require.Greater(t, windows[2], 4)
}

// TestWritesBetweenWindows: an answer is of one moment, or it is made again.
func TestWritesBetweenWindows(t *testing.T) {
	m := newMachines(t, 2)
	rnd := rand.New(rand.NewPCG(5, 9))
	ids := []uint64{0, 1, 2, 3}
	for _, id := range ids {
		m.put(t, id, 1, some(rnd, 60))
	}
	m.engines[0].windowBytes = 20 << 10
	for _, written := range []uint64{0, 1} { // our own, and another's
		revision := uint64(2)
		m.check(t, [][]uint64{ids}, func(_, first int) {
			if first > 0 && revision < 10 {
				revision = 100 + written
				m.put(t, written, revision, vector.New(5, 20<<16))
			}
		})
	}
	// Written at every window: the last run takes all at once.
	revision := uint64(1000)
	_, err := m.query(t, [][]uint64{ids}, true, func(_, first int) {
		revision++
		m.put(t, 1, revision, some(rnd, 60))
	})
	require.NoError(t, err)
	m.engines[0].allBytes = 20 << 10
	_, err = m.query(t, [][]uint64{ids}, true, func(_, first int) {
		revision++
		m.put(t, 1, revision, some(rnd, 60))
	})
	require.ErrorIs(t, err, ErrChanged)
}

func TestAbsent(t *testing.T) {
	m := newMachines(t, 2)
	m.put(t, 1, 1, vector.New(1, 2))
	m.put(t, 2, 1, vector.New(2))
	_, err := m.stores[0].Delete(4, 7)
	require.NoError(t, err)
	a, err := m.query(t, [][]uint64{{1, 2, 3, 4}}, true, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, a.Count)
	require.Equal(t, []store.Absent{{ID: 4, Revision: 7}}, a.Absent)
	require.Equal(t, [][]store.Absent{{{ID: 3}}}, a.Remote)
}

func TestFailures(t *testing.T) {
	m := newMachines(t, 2)
	m.put(t, 1, 1, vector.New(1))
	broken := errors.New("broken")
	q := Query{Ranges: 1, Own: m.sets(t, 0, [][]uint64{{2}}), Together: func(ctx context.Context, fs []func(context.Context) error) error {
		return fs[0](ctx)
	}, Remotes: []Remote{func(context.Context, int, int) (Window, error) { return Window{}, broken }}}
	_, err := m.engines[0].Coordinate(t.Context(), q)
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Remotes = []Remote{func(ctx context.Context, _, _ int) (Window, error) { <-ctx.Done(); return Window{}, ctx.Err() }}
	_, err = m.engines[0].Coordinate(ctx, q)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, m.stores[0].Close())
}

// TestFingerprint: another revision, another id, another range, and absence show.
func TestFingerprint(t *testing.T) {
	m := newMachines(t, 1)
	m.put(t, 1, 1, vector.New(1))
	m.put(t, 2, 1, vector.New(1))
	seen := map[uint64]string{}
	look := func(what string, ranges ...[]uint64) {
		l, err := m.engines[0].Leg(t.Context(), m.sets(t, 0, ranges), 0, fold.LegBytes)
		require.NoError(t, err)
		require.Empty(t, seen[l.Fingerprint], what)
		seen[l.Fingerprint] = what
	}
	look("one", []uint64{1})
	look("another", []uint64{2})
	look("both", []uint64{1, 2})
	look("both in two ranges", []uint64{1}, []uint64{2})
	look("the other way round", []uint64{2}, []uint64{1})
	look("and one that is not there", []uint64{1, 3})
	m.put(t, 1, 2, vector.New(1))
	look("a newer revision", []uint64{1})
}

func TestWordLeg(t *testing.T) {
	frame, err := WordLeg([]uint64{1<<63 | 1, 0, 2})
	require.NoError(t, err)
	f, err := fold.ParseFrame(frame, 3, 0, fold.Keys)
	require.NoError(t, err)
	for rng, want := range []uint64{1<<63 | 1, 0, 2} {
		g := fold.NewGather(3)
		g.AddFrame(f)
		for other := range 3 {
			if other != rng {
				g.AddRows(other, 0, 1, 63)
			}
		}
		got, ok, err := g.Word(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want&(1<<63|3), got)
	}
}

func TestAppendLegKeepsWhatIsBefore(t *testing.T) {
	m := newMachines(t, 1)
	m.put(t, 1, 1, vector.New(1, 70000))
	l, err := m.engines[0].Leg(t.Context(), m.sets(t, 0, [][]uint64{{1}}), 0, fold.LegBytes)
	require.NoError(t, err)
	out, appended, err := m.engines[0].AppendLeg(t.Context(), []byte("before"), m.sets(t, 0, [][]uint64{{1}}), 0, fold.LegBytes)
	require.NoError(t, err)
	require.Equal(t, "before"+string(l.Frame), string(out))
	require.Nil(t, appended.Frame)
}

// writtenBefore is a store in which something is written before each transaction.
type writtenBefore struct {
	*store.Store
	write func()
}

func (s writtenBefore) Read(f func(*store.Reader) error) error {
	s.write()
	return s.Store.Read(f)
}

// TestOneRevisionInAllRanges: a vector that stands in two ranges is read in one
// transaction, so that its rows are never ANDed with those of another revision.
func TestOneRevisionInAllRanges(t *testing.T) {
	m := newMachines(t, 2)
	revisions := [2]uint64{1, 1}
	for i := range m.engines {
		m.put(t, uint64(i), 1, vector.New(1))
		m.engines[i].store = writtenBefore{m.stores[i], func() {
			revisions[i]++
			_, err := m.stores[i].Put(uint64(i), revisions[i], vector.New(uint32(revisions[i])))
			require.NoError(t, err)
		}}
	}
	for id := range uint64(2) { // our own, and another machine's
		for _, ranges := range [][][]uint64{{{id}, {id}}, {{id}, {0, 1}}} {
			a, err := m.query(t, ranges, true, nil)
			require.NoError(t, err)
			require.EqualValues(t, 1, a.Count, "vector %d is ANDed with itself", id)
		}
	}
	require.Greater(t, revisions[0], uint64(2))
	require.Greater(t, revisions[1], uint64(2))
}
