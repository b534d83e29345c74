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

// table returns one with three slaves of ours and a static one with ids 10-12.
func table(t *testing.T) *Table {
	tab := NewTable()
	for i, s := range twos("127.0.0.10", "127.0.0.2", "beta") {
		changes, err := tab.Check(s, Claim{})
		require.True(t, changes)
		require.NoError(t, err)
		tab.PutSlave(uint32(i+1), s, nil)
	}
	tab.PutSlave(4, Slave{Addr: "c", Protocol: 1}, []Span{{10, 12}})
	return tab
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
	tab := table(t)
	empty := tab.Snapshot()
	tab.PutMember(5, []uint32{1, 2}, false, "", 100)
	tab.PutMember(11, []uint32{3}, true, "A=B", 1<<40)
	tab.PutMember(math.MaxUint64, nil, false, "", 1) // nobody has it: nothing to know
	s := tab.Snapshot()

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
	tab.PutSlave(4, Slave{Addr: "c", Protocol: 1}, []Span{{12, 13}})
	require.Equal(t, []uint64{5, 11, 12, 13}, ids(tab.Snapshot()))
	tab.DropMember(5)
	tab.DropMember(13)
	require.Equal(t, []uint64{11, 12, 13}, ids(tab.Snapshot()))
	require.Equal(t, []uint64{10, 11, 12}, ids(empty))
	require.Equal(t, []uint64{5, 10, 11, 12}, ids(s))
}

func TestTableCheck(t *testing.T) {
	tab := table(t)
	tab.PutMember(5, []uint32{1}, false, "", 1)
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
		{"NoAddress", Slave{Protocol: 2}, nil, false, ErrInvalid},
		{"Blank", Slave{Addr: "a b", Protocol: 2}, nil, false, ErrInvalid},
		{"NoProtocol", Slave{Addr: "d"}, nil, false, ErrInvalid},
		{"IdsOfOurs", Slave{Addr: "d", Protocol: 2}, []Span{{1, 1}}, false, ErrInvalid},
		{"Backwards", Slave{Addr: "d", Protocol: 1}, []Span{{2, 1}}, false, ErrInvalid},
		{"TooManyIds", Slave{Addr: "d", Protocol: 1}, []Span{{0, math.MaxUint64}}, false, ErrInvalid},
		{"TooManyIdsTogether", Slave{Addr: "d", Protocol: 1}, []Span{{0, 0}, {2, MaxStaticIDs + 1}}, false, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes, err := tab.Check(c.slave, Claim{IDs: c.ids})
			require.ErrorIs(t, err, c.is)
			require.Equal(t, c.changes, changes)
		})
	}
}

func TestHoldersFor(t *testing.T) {
	tab := table(t)
	s := tab.Snapshot()
	holders, pinned, err := s.HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.False(t, pinned)
	require.Equal(t, Place(5, s.Slaves(), 2), holders)

	tab.SetSlot(Slot(5), []uint32{3})
	holders, _, err = tab.Snapshot().HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"beta"}, holders, "the slot's record stays")

	tab.PutMember(5, []uint32{1}, true, "", 1)
	holders, pinned, err = tab.Snapshot().HoldersFor(5, nil, 2)
	require.NoError(t, err)
	require.True(t, pinned)
	require.Equal(t, []string{"127.0.0.10"}, holders, "a known id stays where it is")

	tab.PutIntent(Intent{ID: 5, Revision: 9, Holders: []string{"127.0.0.2"}}, false)
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
	tab := NewTable()
	for i := range 6 {
		tab.PutSlave(uint32(i+1), Slave{Addr: fmt.Sprint("10.0.0.", i+1), Protocol: 2}, nil)
		tab.SetState(fmt.Sprint("10.0.0.", i+1), Serving, "")
	}
	tab.PutMember(1, []uint32{1, 2}, false, "", 1)
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

func TestIntents(t *testing.T) {
	tab := table(t)
	tab.PutIntent(Intent{ID: 7, Revision: 1, Holders: []string{"beta", "127.0.0.2"}}, false)
	before := tab.Snapshot()
	require.True(t, tab.Confirm(7, 1, "beta"))
	require.False(t, tab.Confirm(7, 1, "beta"), "again")
	require.False(t, tab.Confirm(7, 2, "127.0.0.2"), "another revision")
	require.False(t, tab.Confirm(7, 1, "c"), "no holder")
	require.False(t, tab.Confirm(8, 1, "beta"), "no write")
	in, ok := before.Pending(7)
	require.True(t, ok)
	require.Empty(t, in.Confirmed)
	require.False(t, in.Seen, "a new vector")
	in, _ = tab.Snapshot().Pending(7)
	require.Equal(t, []string{"beta"}, in.Confirmed)

	tab.PutIntent(Intent{ID: 7, Revision: 2, Holders: []string{"beta"}}, false)
	in, _ = tab.Snapshot().Pending(7)
	require.True(t, in.Seen, "the write before was confirmed, so it may have been read")
	require.Empty(t, in.Confirmed)
	tab.DropIntent(7, 1)
	require.Len(t, tab.Snapshot().Intents(), 1)
	tab.DropIntent(7, 2)
	require.Empty(t, tab.Snapshot().Intents())

	tab.PutMember(7, []uint32{3}, false, "", 1)
	tab.PutIntent(Intent{ID: 7, Revision: 3, Op: Delete, Holders: []string{"beta"}}, false)
	tab.PutIntent(Intent{ID: 8, Revision: 4, Holders: []string{"beta"}}, true)
	for _, in := range tab.Snapshot().Intents() {
		require.True(t, in.Seen, "%d is known or was read back", in.ID)
	}
	n := 0
	tab.Snapshot().AscendIntents(8, 9, func(*Intent) bool { n++; return true })
	require.Equal(t, 1, n)
}

// TestUnderReplicated: what counts are copies that can be asked.
func TestUnderReplicated(t *testing.T) {
	tab := table(t) // c, a C handler, has 10 to 12
	tab.PutMember(5, []uint32{1, 2}, false, "", 1)
	tab.PutMember(6, []uint32{3}, true, "", 1)
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
	tab.PutMember(5, []uint32{1, 2}, false, "", 1)
	tab.PutMember(6, []uint32{2}, false, "", 1)
	require.True(t, tab.SetState("127.0.0.2", Serving, ""))
	require.False(t, tab.SetState("127.0.0.2", Serving, ""))
	require.False(t, tab.SetState("nobody", Serving, ""))
	require.EqualValues(t, 3, tab.Snapshot().Unavailable(), "those of the C handler")
	require.True(t, tab.SetInventory("127.0.0.2", []uint64{5, 6, 7, 10}, 3))
	before := tab.Snapshot()
	sl, _ := before.Slave("127.0.0.2")
	require.EqualValues(t, 2, sl.Missing, "7 and 10 are not its own")
	require.EqualValues(t, 3, sl.SetAside)
	require.True(t, before.IsMissing("127.0.0.2", 5))
	require.False(t, before.IsMissing("127.0.0.10", 5))
	require.False(t, before.IsMissing("nobody", 5))
	require.EqualValues(t, 5, before.Unavailable())

	tab.PutMember(5, []uint32{1, 2}, false, "", 1) // a put brings it back
	s := tab.Snapshot()
	require.False(t, s.IsMissing("127.0.0.2", 5))
	require.True(t, before.IsMissing("127.0.0.2", 5))
	require.EqualValues(t, 4, s.Unavailable())

	tab.DropMember(6)
	sl, _ = tab.Snapshot().Slave("127.0.0.2")
	require.Zero(t, sl.Missing)
	require.True(t, tab.SetInventory("127.0.0.2", nil, 0))
	require.False(t, tab.SetInventory("127.0.0.2", nil, 0))
}

func TestInherit(t *testing.T) {
	old, now := table(t), table(t)
	for _, tab := range []*Table{old, now} {
		tab.PutMember(5, []uint32{1}, false, "", 1)
		tab.PutIntent(Intent{ID: 7, Revision: 3, Holders: []string{"beta"}}, tab == now)
	}
	old.SetState("beta", Down, "gone")
	old.SetInventory("127.0.0.10", []uint64{5}, 1)
	old.Confirm(7, 3, "beta")
	now.Inherit(old)
	require.True(t, slices.EqualFunc(old.Snapshot().Slaves(), now.Snapshot().Slaves(), func(a, b Slave) bool { return a == b }))
	require.Equal(t, old.Snapshot().Intents(), now.Snapshot().Intents())
	require.True(t, now.Snapshot().IsMissing("127.0.0.10", 5))
}
