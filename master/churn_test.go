package master

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// ledger is the model of a cluster under writes: what each id was, and when. Its
// clock counts events.
type ledger struct {
	clock atomic.Uint64
	mu    sync.Mutex
	ids   [][]period
}

// period is a state of an id: from the write that began at begin and was
// acknowledged at done, until the next one. rows of version 0 is absent.
type period struct {
	begin, done uint64 // done 0: not acknowledged yet
	version     int
}

// versions is how many follow each other before one looks like another.
const versions = 64

// row of the id in that version.
func ledgerRow(id, version int) uint32 { return uint32(id*versions + version%versions) }

func (l *ledger) begin(id, version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[id] = append(l.ids[id], period{begin: l.clock.Add(1), version: version})
}

func (l *ledger) done(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[id][len(l.ids[id])-1].done = l.clock.Add(1)
}

// check says what is wrong with the rows that a query from begin to end had of an id.
func (l *ledger) check(id int, got *vector.Bitmap, begin, end uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := got.Rows(uint64(id*versions), 1)
	seen := -1 // the row modulo versions
	if len(page) > 0 && page[0] < uint32((id+1)*versions) {
		seen = int(page[0]) - id*versions
	}
	var may []int
	for i, p := range l.ids[id] {
		next := len(l.ids[id]) > i+1 && l.ids[id][i+1].done != 0 && l.ids[id][i+1].done < begin
		if p.begin > end || next { // not begun, or replaced before
			continue
		}
		may = append(may, p.version)
		if p.version == 0 && seen < 0 || p.version > 0 && p.version%versions == seen {
			return nil
		}
	}
	return fmt.Errorf("vector %d: row %d of it, and its versions between %d and %d were %v", id, seen, begin, end, may)
}

// deletes counts those that were under way between begin and end.
func (l *ledger) deletes(begin, end uint64) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.ids {
		for _, p := range id {
			if p.version == 0 && p.begin < end && p.done > begin {
				n++
			}
		}
	}
	return n
}

// planCount counts the plans that queries were answered with, from the log.
type planCount struct {
	slog.Handler
	queries, plans atomic.Int64
}

func (c *planCount) Enabled(context.Context, slog.Level) bool { return true }

func (c *planCount) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "query" {
		c.queries.Add(1)
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "attempts" {
				c.plans.Add(a.Value.Int64())
			}
			return true
		})
	}
	if !c.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

// TestRangesUnderDeletesAndMoves: while vectors are deleted, put again and moved
// from slave to slave, every range is answered, with what each vector was at some
// moment between the query's start and end, and of its first plan.
func TestRangesUnderDeletesAndMoves(t *testing.T) {
	rnd := seeded(t)
	addrs := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	count := &planCount{Handler: testLogger().Handler()}
	r := &realSlaves{t: t, hop: patience, dir: t.TempDir(), at: map[string]string{}, ends: map[string]func(){}}
	w := newWorld(t, func(c *Config) { c.Dial, c.Logger, c.HopTimeout = r.dial, slog.New(count), patience })
	r.join = func(ctx context.Context, _ string) (*rpc.Client, error) {
		return rpc.Dial(ctx, "tcp", w.at.Load().(string), rpc.ClientConfig{})
	}
	for _, a := range addrs {
		r.start(a)
	}
	t.Cleanup(func() {
		for _, a := range addrs {
			r.stop(a)
		}
	})
	w.serving(addrs...)

	const n, moved, writers, readers, queries, writes = 1200, 400, 4, 3, 20, 200
	l := &ledger{ids: make([][]period, n)}
	put := func(id, version int, on []string) error {
		req := structs.PutRequest{Id: uint64(id), Rows: bitmap(t, structs.BITMAP_ROARING, ledgerRow(id, version))}
		for _, a := range on {
			req.Holders = append(req.Holders, structs.MachineName(a))
		}
		l.begin(id, version)
		res, err := w.client.MasterPut(t.Context(), req)
		if err == nil && res.Status != structs.QUERY_OK {
			err = fmt.Errorf("%v: %s", res.Status, res.Failure.Message)
		}
		l.done(id)
		return err
	}
	erase := func(id int) error {
		l.begin(id, 0)
		res, err := w.client.MasterDelete(t.Context(), uint64(id))
		if err == nil && res.Status != structs.QUERY_OK {
			err = fmt.Errorf("%v: %s", res.Status, res.Failure.Message)
		}
		l.done(id)
		return err
	}
	var load sync.WaitGroup
	for k := range 16 {
		load.Go(func() {
			for id := k; id < n; id += 16 {
				if err := put(id, 1, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	load.Wait()

	var written, asked, raced atomic.Int64
	done := func() bool { return t.Failed() || written.Load() >= writes && asked.Load() >= readers*queries }
	var work sync.WaitGroup
	for k := range writers {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		work.Go(func() {
			version := map[int]int{}
			for !done() {
				var err error
				if k == 0 { // moves, of ids of its own
					id := rnd.IntN(moved)
					at := rnd.IntN(3)
					err = put(id, 1, []string{addrs[at], addrs[(at+1)%3]}[:1+rnd.IntN(2)])
				} else {
					id := moved + rnd.IntN((n-moved)/writers)*writers + k
					version[id]++
					if err = erase(id); err == nil && rnd.IntN(2) == 0 {
						err = put(id, 1+version[id], nil)
					} else if err == nil {
						err = put(id, 1+version[id], []string{addrs[rnd.IntN(3)]})
					}
				}
				if err != nil {
					t.Errorf("writer %d: %v", k, err)
				}
				written.Add(1)
			}
		})
	}
	for range readers {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		work.Go(func() {
			for !done() {
				begin := l.clock.Add(1)
				text := structs.QueryText("R:*")
				if rnd.IntN(4) == 0 {
					text = "R:*&0-1199"
				}
				res, err := w.client.MasterQuery(t.Context(), structs.QueryRequest{Text: text, Format: structs.BITMAP_ROARING})
				if err != nil || res.Status != structs.QUERY_OK {
					t.Errorf("%s: %v %v %s", text, err, res.Status, res.Failure.Message)
					return
				}
				end := l.clock.Add(1)
				got, err := rows.Decode(&res.Answer.Rows)
				if err != nil {
					t.Error(err)
					return
				}
				checked := n
				if text != "R:*" { // two ranges may see a write in different orders, but those that only move
					checked = moved
				}
				for id := range checked {
					if err := l.check(id, got, begin, end); err != nil {
						t.Error(err)
						return
					}
				}
				if l.deletes(begin, end) > 0 {
					raced.Add(1)
				}
				asked.Add(1)
			}
		})
	}
	work.Wait()
	require.Positive(t, raced.Load(), "no query met a delete: nothing was tried")
	require.Positive(t, count.queries.Load())
	require.Equal(t, count.queries.Load(), count.plans.Load(), "no query was planned again")
	t.Logf("%d queries, %d of them beside a delete, %d writes", asked.Load(), raced.Load(), written.Load())
	for _, s := range w.m.status().Slaves {
		require.Equal(t, structs.SLAVE_SERVING, s.State)
		require.Zero(t, s.Missing)
	}
}
