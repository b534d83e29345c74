package router

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/query"
)

// cluster builds snapshots. Slaves serve from the start.
type cluster struct{ catalog.Catalog }

func newCluster() *cluster { return &cluster{catalog.Over(catalog.NewMemory())} }

// slave adds a slave or changes its priority; unset: none.
func (c *cluster) slave(addr string, priority int64) {
	s := catalog.Slave{Addr: addr, Protocol: 2}
	if priority != unset {
		p := int32(priority)
		s.Priority = &p
	}
	must(c.AddSlave(context.Background(), s, nil))
	c.SetState(addr, catalog.Serving, "")
}

const unset = math.MaxInt64

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// static adds a C handler that shares what is known of its ids.
func (c *cluster) static(addr string, first, last uint64) {
	claim := catalog.Claim{IDs: []catalog.Span{{First: first, Last: last}}}
	c.Snapshot().Ascend(first, last, func(m catalog.Member) bool {
		claim.Known = append(claim.Known, m.ID)
		return true
	})
	_, err := c.Claim(context.Background(), catalog.Slave{Addr: addr, Protocol: 1}, claim)
	must(err)
	c.SetState(addr, catalog.Serving, "")
}

// vector makes one known, if it is not a static slave's.
func (c *cluster) vector(id, bytes uint64, holders ...string) {
	if in, ok := c.open(catalog.Intent{ID: id, Bytes: bytes, Holders: holders}); ok {
		must(c.Finish(context.Background(), id, in.Revision))
	}
}

// open begins a write.
func (c *cluster) open(in catalog.Intent) (_ catalog.Intent, ok bool) {
	in, err := c.Begin(context.Background(), in)
	if errors.Is(err, catalog.ErrStatic) {
		return in, false
	}
	must(err)
	return in, true
}

func parse(t testing.TB, text string) query.Query {
	q, err := query.Parse(text)
	require.NoError(t, err)
	return q
}

func (c *cluster) route(t testing.TB, text string, opts Options) (*Plan, error) {
	opts.Explain = true
	return Route(c.Snapshot(), parse(t, text), opts)
}

// from says where the query takes each vector from, and why.
func (c *cluster) from(t testing.TB, text string, opts Options) string {
	plan, err := c.route(t, text, opts)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, m := range plan.Members {
		out += fmt.Sprintf("%d %s %v; ", m.ID, m.From, m.Reason)
	}
	return out
}

// Countries are the ids 1 to 4 here: the example of the page on data overlap.
func TestCountriesOfTheOverlapPage(t *testing.T) {
	const france, germany, italy, spain = 1, 2, 3, 4
	c := newCluster()
	c.slave("A", 1)
	c.slave("B", 2)
	c.vector(france, 9, "A")
	c.vector(germany, 9, "A", "B")
	c.vector(italy, 9, "A", "B")
	c.vector(spain, 9, "B")
	require.Equal(t, "2 A priority; ", c.from(t, "P:2", Options{}))
	require.Equal(t, "1 A only holder; 2 A priority; 3 A priority; 4 B only holder; ", c.from(t, "R:*", Options{}))
	require.Equal(t, "3 A priority; 4 B only holder; ", c.from(t, "R:{3,4}", Options{}))

	c.SetState("A", catalog.Down, "gone")
	require.Equal(t, "2 B failover; ", c.from(t, "P:2", Options{}))
	_, err := c.route(t, "R:*", Options{})
	var away *UnavailableError
	require.ErrorAs(t, err, &away)
	require.Equal(t, &UnavailableError{IDs: []uint64{france}, Total: 1, Machines: []string{"A"}}, away)
}

func TestWhoServes(t *testing.T) {
	type setup func(*cluster)
	both := func(c *cluster) { c.vector(1, 9, "A", "B") }
	for name, c := range map[string]struct {
		prepare setup
		opts    Options
		want    string
	}{
		"FewestMembers":  {func(c *cluster) { c.slave("A", unset); c.slave("B", unset); both(c); c.vector(2, 9, "A") }, Options{}, "1 B fewest members; "},
		"LowestPriority": {func(c *cluster) { c.slave("A", 3); c.slave("B", -5); both(c); c.vector(2, 9, "B") }, Options{}, "1 B priority; "},
		"UnsetIsLast":    {func(c *cluster) { c.slave("A", unset); c.slave("B", math.MaxInt32-1); both(c) }, Options{}, "1 B priority; "},
		"PriorityOfADownStrangerCounts": {func(c *cluster) {
			c.slave("A", unset)
			c.slave("B", unset)
			c.slave("C", 1)
			c.SetState("C", catalog.Down, "")
			both(c)
			c.vector(2, 9, "A") // B has fewer members, which is no rule any more
		}, Options{Seed: 5}, "1 A random; "},
		"Excluded":         {func(c *cluster) { c.slave("A", 1); c.slave("B", 2); both(c) }, Options{Exclude: map[string]bool{"A": true}}, "1 B failover; "},
		"OtherOneExcluded": {func(c *cluster) { c.slave("A", 1); c.slave("B", 2); both(c) }, Options{Exclude: map[string]bool{"B": true}}, "1 A priority; "},
		"Joining":          {func(c *cluster) { c.slave("A", 1); c.slave("B", 2); both(c); c.SetState("A", catalog.Joining, "") }, Options{}, "1 B failover; "},
		"Missing":          {func(c *cluster) { c.slave("A", 1); c.slave("B", 2); both(c); c.SetInventory("A", []uint64{1}, 0) }, Options{}, "1 B failover; "},
		"AllMissing": {func(c *cluster) {
			c.slave("A", 1)
			c.slave("B", 2)
			both(c)
			c.SetInventory("A", []uint64{1}, 0)
			c.SetInventory("B", []uint64{1}, 0)
		}, Options{}, "unavailable: no live holder of vector 1; held by A, B"},
		"OnlyHolderDown": {func(c *cluster) { c.slave("A", 1); c.vector(1, 9, "A"); c.SetState("A", catalog.Down, "") }, Options{}, "unavailable: no live holder of vector 1; held by A"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster()
			c.prepare(cl)
			require.Equal(t, c.want, cl.from(t, "P:1", c.opts))
		})
	}
}

func TestOpenWrites(t *testing.T) {
	c := newCluster()
	c.slave("A", 1)
	c.slave("B", 2)
	c.slave("C", 3)
	c.vector(1, 9, "A", "B")
	c.vector(3, 9, "A", "B")
	open := func(in catalog.Intent) (revision uint64) {
		in, _ = c.open(in)
		return in.Revision
	}

	revision := open(catalog.Intent{ID: 2, Holders: []string{"A", "B"}})
	require.Equal(t, "1 A priority; 3 A priority; ", c.from(t, "R:0-9", Options{}), "the new one is not there yet")
	require.Equal(t, "no such vector: 2", c.from(t, "P:2", Options{}))
	c.Confirm(2, revision, "B")
	require.Equal(t, "1 A priority; 2 B failover; 3 A priority; ", c.from(t, "R:0-9", Options{}), "only from who has it")
	c.Confirm(2, revision, "A")
	require.Equal(t, "2 A priority; ", c.from(t, "P:2", Options{}))
	c.SetInventory("A", []uint64{2}, 0)
	require.Equal(t, "2 A priority; ", c.from(t, "P:2", Options{}), "what is confirmed is not missing")

	revision = open(catalog.Intent{ID: 3, Holders: []string{"B", "C"}})
	_, err := c.route(t, "R:0-9&7", Options{})
	var wait *PendingError
	require.ErrorAs(t, err, &wait)
	require.Equal(t, &PendingError{IDs: []uint64{3}, Total: 1, Machines: []string{"B", "C"}}, wait)
	require.EqualError(t, err, "unavailable: an unfinished write to vector 3, for B, C")
	c.Confirm(3, revision, "C")
	require.Equal(t, "3 C failover; ", c.from(t, "P:3", Options{}))
	_, err = c.route(t, "P:3", Options{Exclude: map[string]bool{"C": true}})
	require.EqualError(t, err, "unavailable: no live holder of vector 3; held by B, C")

	revision = open(catalog.Intent{ID: 1, Op: catalog.Delete, Holders: []string{"A", "B"}})
	require.Equal(t, "unavailable: an unfinished write to vector 1, for A, B", c.from(t, "R:1-2", Options{}))
	c.Confirm(1, revision, "B")
	require.Equal(t, "2 A priority; ", c.from(t, "R:1-2", Options{}), "deleted")
	require.Equal(t, "no such vector: 1", c.from(t, "P:1", Options{}))

	open(catalog.Intent{ID: 9, Holders: []string{"A"}})
	open(catalog.Intent{ID: 9, Holders: []string{"A"}})
	require.Equal(t, "unavailable: an unfinished write to vector 9, for A", c.from(t, "P:9", Options{}), "the first may have been read")
	c.SetState("A", catalog.Down, "")
	c.vector(4, 9, "A")
	require.Equal(t, "unavailable: no live holder of vector 4; held by A", c.from(t, "R:4-9", Options{}), "no use in waiting")
}

func TestRangesAndLegs(t *testing.T) {
	c := newCluster()
	for i, a := range []string{"127.0.0.10", "127.0.0.2", "beta"} {
		c.slave(a, int64(i))
		for id := range uint64(4) {
			c.vector(uint64(i)*10+id, 100, a)
		}
	}
	plan, err := c.route(t, "R:0-1,0-3,21&100-200&[0,18446744073709551615]", Options{})
	require.NoError(t, err)
	require.Len(t, plan.Ranges, 3)
	require.Equal(t, []Leg{{"127.0.0.10", []uint64{0, 1, 2, 3}}, {"beta", []uint64{21}}}, plan.Ranges[0].Legs)
	require.Equal(t, RangePlan{Strategy: FanOut, Why: "no known vector"}, plan.Ranges[1])
	require.True(t, plan.Empty())
	require.Equal(t, []Leg{
		{"127.0.0.2", []uint64{10, 11, 12, 13}}, {"127.0.0.10", []uint64{0, 1, 2, 3}}, {"beta", []uint64{20, 21, 22, 23}},
	}, plan.Ranges[2].Legs)
	require.EqualValues(t, 12, plan.Ranges[2].Vectors)
	require.EqualValues(t, 1200, plan.Ranges[2].Bytes)
	require.Len(t, plan.Members, 12, "each once")

	c.SetState("beta", catalog.Down, "")
	_, err = c.route(t, "R:100-200&20-29,0&20-21", Options{})
	require.EqualError(t, err, "unavailable: no live holder of vectors 20, 21, 22, 23; held by beta", "even where a range is empty; each once")

	_, err = c.route(t, "P:4", Options{})
	var none *NoSuchVectorError
	require.ErrorAs(t, err, &none)
	require.ErrorIs(t, err, ErrNoSuchVector)
	require.EqualValues(t, 4, none.ID)
}

func TestStrategy(t *testing.T) {
	c := newCluster()
	c.slave("A", unset)
	c.slave("B", unset)
	c.vector(1, 1<<40, "A")
	c.vector(2, 60<<10, "A")
	c.vector(3, 4<<10, "B")
	c.vector(4, 1, "B")
	for text, why := range map[string]string{
		"R:2":   "60 KiB on one machine",
		"R:2,3": "64 KiB on 2 machines",
		"R:1,3": "4 GiB on 2 machines",
	} {
		plan, err := c.route(t, text, Options{})
		require.NoError(t, err)
		require.Equal(t, FanOut, plan.Ranges[0].Strategy, text)
		require.Equal(t, why, plan.Ranges[0].Why)
		plan, err = c.route(t, text, Options{Chain: true})
		require.NoError(t, err)
		require.Equal(t, Chain, plan.Ranges[0].Strategy, text)
		require.Equal(t, why+", hop by hop as was asked for", plan.Ranges[0].Why)
	}
}

func TestCoordinator(t *testing.T) {
	c := newCluster()
	c.static("127.0.0.9", 50, 59)
	for i := range 4 {
		c.slave(fmt.Sprintf("127.0.0.%d", i+2), unset)
	}
	c.vector(1, 100, "127.0.0.2")
	c.vector(2, 300, "127.0.0.3")
	c.SetState("127.0.0.5", catalog.Down, "")
	coordinator := func(text string, opts Options) string {
		plan, err := c.route(t, text, opts)
		require.NoError(t, err)
		return plan.Coordinator
	}
	require.Empty(t, coordinator("P:1", Options{}))
	var turns []string
	for i := range uint64(4) {
		turns = append(turns, coordinator("R:*", Options{Policy: RoundRobin, Turn: i}))
	}
	require.Equal(t, []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2"}, turns)
	require.Equal(t, "127.0.0.3", coordinator("R:*", Options{Policy: Bandwidth}))
	require.Equal(t, "127.0.0.2", coordinator("R:1", Options{Policy: Bandwidth}))
	require.Equal(t, "127.0.0.2", coordinator("R:1&2&1&1&1", Options{Policy: Bandwidth}))
	require.Equal(t, "127.0.0.4", coordinator("R:50-59", Options{Exclude: map[string]bool{"127.0.0.2": true, "127.0.0.3": true}}))

	count := map[string]int{}
	for seed := range uint64(3000) {
		count[coordinator("R:*", Options{Seed: seed})]++
	}
	require.Len(t, count, 3)
	for a, n := range count {
		require.InDelta(t, 1000, n, 120, a)
	}
	ex := map[string]bool{"127.0.0.2": true, "127.0.0.3": true, "127.0.0.4": true}
	plan, err := c.route(t, "R:50", Options{Exclude: ex})
	require.NoError(t, err, "the C handler has it")
	require.Empty(t, plan.Coordinator)
}

func TestTies(t *testing.T) {
	c := newCluster()
	for i := range 4 {
		c.slave(fmt.Sprintf("127.0.0.%d", i+2), unset)
	}
	for id := range uint64(100) {
		c.vector(id, 1, "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
	}
	count := map[string]int{}
	orders := map[string]int{}
	for seed := range uint64(4800) {
		plan, err := c.route(t, "R:*", Options{Seed: seed})
		require.NoError(t, err)
		require.Len(t, plan.Ranges[0].Legs, 1, "a tie does not lengthen the chain")
		require.Equal(t, ReasonRandom, plan.Members[0].Reason)
		order, ex := "", map[string]bool{}
		for range 4 {
			plan, err := c.route(t, "P:7", Options{Seed: seed, Exclude: ex})
			require.NoError(t, err)
			from := plan.Members[0].From
			order += from[len(from)-1:]
			ex[from] = true
		}
		count[plan.Ranges[0].Legs[0].Machine]++
		orders[order]++
	}
	for a, n := range count {
		require.InDelta(t, 1200, n, 150, a)
	}
	require.Len(t, orders, 24, "each order of the four")
	for o, n := range orders {
		require.InDelta(t, 200, n, 70, o)
	}
}

func TestTooLarge(t *testing.T) {
	c := newCluster()
	c.slave("A", unset)
	for id := range uint64(2000) {
		c.vector(id, 1, "A")
	}
	text := "R:*"
	for range 999 {
		text += "&*"
	}
	_, err := Route(c.Snapshot(), parse(t, text), Options{})
	require.NoError(t, err)
	_, err = Route(c.Snapshot(), parse(t, text+"&1"), Options{})
	var large *TooLargeError
	require.ErrorAs(t, err, &large)
}
