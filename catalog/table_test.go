package catalog

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func priority(p int32) *int32 { return &p }

// table returns a catalog with three slaves of ours and a static one with ids 10-12.
func table(t testing.TB) *sighted {
	c := Over(NewMemory()).(*sighted)
	for _, s := range twos("127.0.0.10", "127.0.0.2", "beta") {
		require.NoError(t, c.AddSlave(t.Context(), s, nil))
	}
	require.NoError(t, c.AddSlave(t.Context(), Slave{Addr: "c", Protocol: 1}, []Span{{10, 12}}))
	return c
}

// put begins and finishes a write.
func (c *sighted) put(t testing.TB, in Intent) {
	in = c.open(t, in)
	require.NoError(t, c.Finish(t.Context(), in.ID, in.Revision))
}

func (c *sighted) open(t testing.TB, in Intent) Intent {
	in, err := c.Begin(t.Context(), in)
	require.NoError(t, err)
	return in
}

func addrs(s *Snapshot) (out []string) {
	for _, sl := range s.Slaves() {
		out = append(out, sl.Addr)
	}
	return out
}

func ids(s *Snapshot) (out []uint64) {
	s.Ascend(0, math.MaxUint64, func(m Member) bool {
		out = append(out, m.ID)
		return true
	})
	return out
}

func TestTableMembers(t *testing.T) {
	c := table(t)
	empty := c.Snapshot()
	c.put(t, Intent{ID: 5, Holders: []string{"127.0.0.10", "127.0.0.2"}, Bytes: 100})
	require.NoError(t, c.AddSlave(t.Context(), Slave{Addr: "c", Protocol: 1}, []Span{{10, 10}, {12, 12}}))
	c.put(t, Intent{ID: 11, Holders: []string{"beta"}, Pinned: true, Name: "A=B", Bytes: 1 << 40})
	_, err := c.Claim(t.Context(), Slave{Addr: "c", Protocol: 1}, Claim{IDs: []Span{{10, 12}}, Known: []uint64{11}})
	require.NoError(t, err)
	s := c.Snapshot()

	require.Equal(t, []string{"127.0.0.2", "127.0.0.10", "beta", "c"}, addrs(s))
	require.Equal(t, []uint64{5, 10, 11, 12}, ids(s))
	require.EqualValues(t, 4, s.Known())
	m, ok := s.Member(5)
	require.True(t, ok)
	require.Equal(t, Member{ID: 5, Bytes: 100, Holders: []string{"127.0.0.2", "127.0.0.10"}}, m)
	m, _ = s.Member(11)
	require.Equal(t, Member{ID: 11, Name: "A=B", Bytes: math.MaxUint32, Holders: []string{"beta", "c"}, Pinned: true}, m)
	m, _ = s.Member(12)
	require.Equal(t, Member{ID: 12, Bytes: 8, Holders: []string{"c"}}, m)
	_, ok = s.Member(6)
	require.False(t, ok)
	sl, ok := s.Slave("c")
	require.True(t, ok)
	require.EqualValues(t, 3, sl.Members)
	_, ok = s.Slave("d")
	require.False(t, ok)

	// A static slave that joins with other ids holds those and no others.
	require.NoError(t, c.AddSlave(t.Context(), Slave{Addr: "c", Protocol: 1}, []Span{{12, 13}}))
	require.Equal(t, []uint64{5, 11, 12, 13}, ids(c.Snapshot()))
	c.put(t, Intent{ID: 5, Op: Delete, Holders: []string{"beta"}})
	require.Equal(t, []uint64{11, 12, 13}, ids(c.Snapshot()))
	require.Equal(t, []uint64{10, 11, 12}, ids(empty))
	require.Equal(t, []uint64{5, 10, 11, 12}, ids(s))
}

func TestTableCheck(t *testing.T) {
	tab := table(t)
	tab.put(t, Intent{ID: 5, Holders: []string{"127.0.0.10"}, Pinned: true})
	tab.open(t, Intent{ID: 6, Holders: []string{"127.0.0.2"}})
	for _, c := range []struct {
		name    string
		slave   Slave
		ids     []Span
		changes bool
		is      error
	}{
		{"Same", Slave{Addr: "beta", Protocol: 2}, nil, false, nil},
		{"Priority", Slave{Addr: "beta", Protocol: 2, Priority: priority(0)}, nil, true, nil},
		{"SameIds", Slave{Addr: "c", Protocol: 1}, []Span{{12, 12}, {10, 11}}, false, nil},
		{"OtherIds", Slave{Addr: "c", Protocol: 1}, []Span{{10, 13}}, true, nil},
		{"StaticBecomesOurs", Slave{Addr: "c", Protocol: 2}, nil, false, ErrProtocol},
		{"OursBecomesStatic", Slave{Addr: "127.0.0.10", Protocol: 1}, []Span{{1, 1}}, false, ErrProtocol},
		{"OursWithoutVectorsBecomesStatic", Slave{Addr: "beta", Protocol: 1}, []Span{{1, 1}}, true, nil},
		{"OursWithAnOpenWriteBecomesStatic", Slave{Addr: "127.0.0.2", Protocol: 1}, []Span{{1, 1}}, false, ErrProtocol},
		{"NoAddress", Slave{Protocol: 2}, nil, false, ErrInvalid},
		{"Blank", Slave{Addr: "a b", Protocol: 2}, nil, false, ErrInvalid},
		{"NoProtocol", Slave{Addr: "d"}, nil, false, ErrInvalid},
		{"IdsOfOurs", Slave{Addr: "d", Protocol: 2}, []Span{{1, 1}}, false, ErrInvalid},
		{"Backwards", Slave{Addr: "d", Protocol: 1}, []Span{{2, 1}}, false, ErrInvalid},
		{"TooManyIds", Slave{Addr: "d", Protocol: 1}, []Span{{0, math.MaxUint64}}, false, ErrInvalid},
		{"TooManyIdsTogether", Slave{Addr: "d", Protocol: 1}, []Span{{0, 0}, {2, MaxStaticIDs + 1}}, false, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := tab.log.(*Memory).table.copy(t).Apply(Join{Addr: c.slave.Addr, Protocol: c.slave.Protocol, Priority: c.slave.Priority, Claim: Claim{IDs: c.ids}})
			require.ErrorIs(t, v.Err, c.is)
			require.Equal(t, c.changes, v.Changed)
		})
	}
}

// copy writes the table out and reads it back.
func (t *Table) copy(tb require.TestingT) *Table {
	out := NewTable()
	require.NoError(tb, t.Records(out.Restore))
	require.NoError(tb, out.Restored())
	return out
}

func TestHoldersFor(t *testing.T) {
	tab := table(t)
	s := tab.Snapshot()
	holders, pinned, err := s.HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.False(t, pinned)
	require.Equal(t, Place(5, s.Slaves(), 2), holders)

	_, err = tab.append(t.Context(), Assign{Slot: uint16(Slot(5)), Holders: []string{"beta"}})
	require.NoError(t, err)
	holders, _, err = tab.Snapshot().HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"beta"}, holders, "the slot's record stays")

	tab.put(t, Intent{ID: 5, Holders: []string{"127.0.0.10"}, Pinned: true})
	holders, pinned, err = tab.Snapshot().HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.True(t, pinned)
	require.Equal(t, []string{"127.0.0.10"}, holders, "a known id stays where it is")

	tab.open(t, Intent{ID: 5, Holders: []string{"127.0.0.2"}})
	holders, _, err = tab.Snapshot().HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.2"}, holders, "or where the open write puts it")

	holders, pinned, err = tab.Snapshot().HoldersFor(5, []string{"beta", "127.0.0.2", "beta"}, 2)
	require.NoError(t, err)
	require.True(t, pinned)
	require.Equal(t, []string{"127.0.0.2", "beta"}, holders)

	_, _, err = s.HoldersFor(5, []string{"nobody"}, 2)
	require.ErrorIs(t, err, ErrUnknownSlave)
	_, _, err = s.HoldersFor(5, []string{"c"}, 2)
	require.ErrorIs(t, err, ErrStatic)
	_, _, err = s.HoldersFor(11, nil, 2)
	require.ErrorIs(t, err, ErrStatic)
	_, _, err = NewTable().Snapshot().HoldersFor(5, nil, 2)
	require.ErrorIs(t, err, ErrNoSlaves)
}

// TestGhostsAreNotDrawn: a join with a wrong address would else make a share of
// all puts fail for ever.
func TestGhostsAreNotDrawn(t *testing.T) {
	tab := Over(NewMemory()).(*sighted)
	for i := range 6 {
		require.NoError(t, tab.AddSlave(t.Context(), Slave{Addr: fmt.Sprint("10.0.0.", i+1), Protocol: 2}, nil))
		tab.SetState(fmt.Sprint("10.0.0.", i+1), Serving, "")
	}
	tab.put(t, Intent{ID: 1, Holders: []string{"10.0.0.1", "10.0.0.2"}, Pinned: true})
	for _, i := range []int{2, 3, 4} { // 2 is down and has something, 3 and 4 are ghosts
		tab.SetState(fmt.Sprint("10.0.0.", i), Down, "no such host")
	}
	s := tab.Snapshot()
	drawn := map[string]int{}
	for id := range uint64(2000) {
		holders, _, err := s.HoldersFor(id+2, nil, 2)
		require.NoError(t, err)
		require.Len(t, holders, 2)
		for _, h := range holders {
			drawn[h]++
		}
	}
	require.ElementsMatch(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.5", "10.0.0.6"}, slices.Collect(maps.Keys(drawn)))
	holders, _, err := s.HoldersFor(9, nil, 5) // of the four that were seen there are too few
	require.NoError(t, err)
	require.Equal(t, Place(9, s.Slaves(), 5), holders)
}

// changes says whether f shows a new snapshot.
func (c *sighted) changes(f func()) bool {
	before := c.Snapshot()
	f()
	return c.Snapshot() != before
}

func TestIntents(t *testing.T) {
	tab := table(t)
	first := tab.open(t, Intent{ID: 7, Holders: []string{"beta", "127.0.0.2"}})
	before := tab.Snapshot()
	confirm := func(id, revision uint64, addr string) bool {
		return tab.changes(func() { tab.Confirm(id, revision, addr) })
	}
	require.True(t, confirm(7, first.Revision, "beta"))
	require.False(t, confirm(7, first.Revision, "beta"), "again")
	require.False(t, confirm(7, first.Revision+1, "127.0.0.2"), "another revision")
	require.False(t, confirm(7, first.Revision, "c"), "no holder")
	require.False(t, confirm(8, first.Revision, "beta"), "no write")
	in, ok := before.Pending(7)
	require.True(t, ok)
	require.Empty(t, in.Confirmed)
	require.False(t, in.Seen, "a new vector")
	in, _ = tab.Snapshot().Pending(7)
	require.Equal(t, []string{"beta"}, in.Confirmed)

	second := tab.open(t, Intent{ID: 7, Holders: []string{"beta"}})
	in, _ = tab.Snapshot().Pending(7)
	require.True(t, in.Seen, "the write before was confirmed, so it may have been read")
	require.Empty(t, in.Confirmed)
	require.ErrorIs(t, tab.Abort(t.Context(), 7, first.Revision), ErrSuperseded)
	require.Len(t, tab.Snapshot().Intents(), 1)
	require.NoError(t, tab.Abort(t.Context(), 7, second.Revision))
	require.Empty(t, tab.Snapshot().Intents())

	tab.put(t, Intent{ID: 7, Holders: []string{"beta"}})
	tab.open(t, Intent{ID: 7, Op: Delete, Holders: []string{"beta"}})
	tab.open(t, Intent{ID: 8, Holders: []string{"beta"}})
	next := Over(tab.log) // another process, which has seen nothing of this one
	tab.open(t, Intent{ID: 9, Holders: []string{"beta"}})
	for id, seen := range map[uint64]bool{7: true, 8: true, 9: false} {
		in, _ := next.Snapshot().Pending(id)
		require.Equal(t, seen, in.Seen, "%d is known, was read back, is new", id)
	}
	n := 0
	tab.Snapshot().AscendIntents(8, 9, func(*Intent) bool { n++; return true })
	require.Equal(t, 2, n)
}

// TestUnderReplicated: what counts are copies that can be asked.
func TestUnderReplicated(t *testing.T) {
	tab := table(t) // c, a C handler, has 10 to 12
	both := Intent{ID: 5, Holders: []string{"127.0.0.10", "127.0.0.2"}}
	tab.put(t, both)
	tab.put(t, Intent{ID: 6, Holders: []string{"beta"}, Pinned: true})
	under := func(replicas int) uint64 { return tab.Snapshot().UnderReplicated(replicas) }
	require.EqualValues(t, 5, under(2), "nobody serves")
	for _, addr := range []string{"127.0.0.2", "127.0.0.10", "beta", "c"} {
		tab.SetState(addr, Serving, "")
	}
	require.Zero(t, under(2))
	require.EqualValues(t, 1, under(3), "those that are pinned or static have what was asked for")
	tab.SetState("127.0.0.2", Down, "")
	require.EqualValues(t, 1, under(2))
	tab.SetState("beta", Joining, "")
	tab.SetState("c", Down, "")
	require.EqualValues(t, 5, under(2))
	require.EqualValues(t, 4, under(0), "pinned and static ones")

	tab.SetState("beta", Serving, "")
	tab.SetState("c", Serving, "")
	tab.SetInventory("127.0.0.2", []uint64{5}, 0)
	require.EqualValues(t, 1, under(2), "missing on one that is down is one copy less, not two")
	require.Zero(t, under(1))
	tab.SetState("127.0.0.2", Serving, "")
	require.EqualValues(t, 1, under(2))
	tab.SetState("127.0.0.10", Down, "")
	require.EqualValues(t, 1, under(1))
}

func TestMissing(t *testing.T) {
	tab := table(t)
	both := Intent{ID: 5, Holders: []string{"127.0.0.10", "127.0.0.2"}}
	tab.put(t, both)
	tab.put(t, Intent{ID: 6, Holders: []string{"127.0.0.2"}})
	state := func(addr string) bool { return tab.changes(func() { tab.SetState(addr, Serving, "") }) }
	inventory := func(missing []uint64, setAside uint64) bool {
		return tab.changes(func() { tab.SetInventory("127.0.0.2", missing, setAside) })
	}
	require.True(t, state("127.0.0.2"))
	require.False(t, state("127.0.0.2"))
	require.False(t, state("nobody"))
	require.EqualValues(t, 3, tab.Snapshot().Unavailable(), "those of the C handler")
	require.True(t, inventory([]uint64{5, 6, 7, 10}, 3))
	before := tab.Snapshot()
	sl, _ := before.Slave("127.0.0.2")
	require.EqualValues(t, 2, sl.Missing, "7 and 10 are not its own")
	require.EqualValues(t, 3, sl.SetAside)
	require.True(t, before.IsMissing("127.0.0.2", 5))
	require.False(t, before.IsMissing("127.0.0.10", 5))
	require.False(t, before.IsMissing("nobody", 5))
	require.EqualValues(t, 5, before.Unavailable())

	tab.put(t, both) // a put brings it back
	s := tab.Snapshot()
	require.False(t, s.IsMissing("127.0.0.2", 5))
	require.True(t, before.IsMissing("127.0.0.2", 5))
	require.EqualValues(t, 4, s.Unavailable())

	tab.put(t, Intent{ID: 6, Op: Delete, Holders: []string{"127.0.0.2"}})
	sl, _ = tab.Snapshot().Slave("127.0.0.2")
	require.Zero(t, sl.Missing)
	require.True(t, inventory(nil, 0))
	require.False(t, inventory(nil, 0))
}

// TestMissingOneByOne: what is missing changes by one id, and is not listed again.
func TestMissingOneByOne(t *testing.T) {
	tab := table(t)
	two := []string{"127.0.0.10", "127.0.0.2"}
	for id := range uint64(5) {
		tab.put(t, Intent{ID: id, Holders: two, Pinned: true})
	}
	missing := func(s *Snapshot) (out []uint64) {
		for id := range uint64(5) {
			if s.IsMissing("127.0.0.2", id) {
				out = append(out, id)
			}
		}
		sl, _ := s.Slave("127.0.0.2")
		require.EqualValues(t, len(out), sl.Missing)
		return out
	}
	tab.SetInventory("127.0.0.2", []uint64{1}, 7)
	before := tab.Snapshot()
	require.True(t, tab.changes(func() { tab.Lacks("127.0.0.2", 3, 4, 99) }), "99 is nobody's")
	require.False(t, tab.changes(func() { tab.Lacks("127.0.0.2", 3) }))
	require.Equal(t, []uint64{1, 3, 4}, missing(tab.Snapshot()))
	require.True(t, tab.changes(func() { tab.Found("127.0.0.2", 3) }))
	require.False(t, tab.changes(func() { tab.Found("127.0.0.2", 3) }))
	require.False(t, tab.changes(func() { tab.Found("nobody", 3) }))
	require.Equal(t, []uint64{1, 4}, missing(tab.Snapshot()))
	require.Equal(t, []uint64{1}, missing(before))
	sl, _ := tab.Snapshot().Slave("127.0.0.2")
	require.EqualValues(t, 7, sl.SetAside)

	tab.put(t, Intent{ID: 4, Holders: []string{"beta"}, Pinned: true}) // it is none of its any more
	require.Equal(t, []uint64{1}, missing(tab.Snapshot()))
	_, err := tab.Claim(t.Context(), Slave{Addr: "d", Protocol: 1}, Claim{IDs: []Span{{1, 1}}, Known: []uint64{1}})
	require.NoError(t, err)
	require.Equal(t, []uint64{1}, missing(tab.Snapshot()), "one more holder is no copy for it")
	_, err = tab.Claim(t.Context(), Slave{Addr: "d", Protocol: 1}, Claim{IDs: []Span{{1, 1}}, Known: []uint64{1}, Alone: true})
	require.NoError(t, err)
	require.Empty(t, missing(tab.Snapshot()))
}

// TestSightingsOutliveAReading: a log that reads its disk again says that anything
// may have changed; what was seen of slaves and writes that are still there stays.
func TestSightingsOutliveAReading(t *testing.T) {
	tab := table(t)
	tab.put(t, Intent{ID: 5, Holders: []string{"127.0.0.10"}, Pinned: true})
	in := tab.open(t, Intent{ID: 7, Holders: []string{"beta"}})
	tab.SetState("beta", Down, "gone")
	tab.SetInventory("127.0.0.10", []uint64{5}, 1)
	tab.Confirm(7, in.Revision, "beta")
	before := tab.Snapshot()
	m := tab.log.(*Memory)
	m.Publish(m.table.copy(t).Snapshot(), nil)
	require.Equal(t, before.Slaves(), tab.Snapshot().Slaves())
	require.Equal(t, before.Intents(), tab.Snapshot().Intents())
	require.True(t, tab.Snapshot().IsMissing("127.0.0.10", 5))

	m.Publish(NewTable().Snapshot(), nil)
	require.Empty(t, tab.Snapshot().Slaves())
	require.Empty(t, tab.Snapshot().Intents())
}

// TestAnAddressThatIsGivenAgain: who comes under it has not been seen.
func TestAnAddressThatIsGivenAgain(t *testing.T) {
	tab := table(t)
	tab.SetState("c", Serving, "")
	require.NoError(t, tab.Remove(t.Context(), "c", true))
	require.NoError(t, tab.AddSlave(t.Context(), Slave{Addr: "c", Protocol: 1}, []Span{{10, 12}}))
	s, _ := tab.Snapshot().Slave("c")
	require.Equal(t, Joining, s.State)
}

// A slave that tells a revision which nobody gave stops the writes of one vector,
// and not those of all.
func TestARevisionThatNobodyGave(t *testing.T) {
	tab := NewTable()
	require.NoError(t, tab.Apply(Join{Addr: "a", Protocol: 2}).Err)
	begin := func(id, floor uint64) Verdict {
		return tab.Apply(Begin{ID: id, Floor: floor, Holders: []string{"a"}})
	}
	require.EqualValues(t, maxLeap+1, begin(1, maxLeap).Revision, "a new catalog over old slaves")
	for _, floor := range []uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 2*maxLeap + 2} {
		require.ErrorIs(t, begin(2, floor).Err, ErrInvalid, floor)
		require.ErrorContains(t, begin(2, floor).Err, "never gave it")
	}
	v := begin(3, 0)
	require.NoError(t, v.Err)
	require.EqualValues(t, maxLeap+2, v.Revision)
}
