package catalog

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// changes draws whatever may be asked, sensible or not, over few slaves and ids.
func drawChange(t *rapid.T) Change {
	addr := rapid.SampledFrom([]string{"127.0.0.2", "127.0.0.10", "beta", "c", "d", "nobody"})
	addrs := rapid.SliceOfN(addr, 0, 3)
	id := rapid.OneOf(rapid.Uint64Range(0, 12), rapid.Just(uint64(math.MaxUint64)))
	revision := rapid.OneOf(rapid.Uint64Range(1, 40), rapid.Uint64())
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0, 1:
		j := Join{
			Addr: addr.Draw(t, "addr"), Protocol: rapid.Uint32Range(0, 2).Draw(t, "protocol"), Weight: rapid.Uint32Range(0, 2).Draw(t, "weight"),
			Identity: rapid.SampledFrom([]string{"", "\x00\xff"}).Draw(t, "identity"),
		}
		if rapid.Bool().Draw(t, "prioritized") {
			j.Priority = priority(rapid.Int32().Draw(t, "priority"))
		}
		if j.Protocol == 1 {
			for range rapid.IntRange(0, 3).Draw(t, "spans") {
				first := id.Draw(t, "first")
				j.Claim.IDs = append(j.Claim.IDs, Span{first, first + min(rapid.Uint64Range(0, 3).Draw(t, "more"), math.MaxUint64-first)})
			}
			j.Claim.Known = rapid.SliceOfNDistinct(id, 0, 6, rapid.ID[uint64]).Draw(t, "known")
			slices.Sort(j.Claim.Known)
			if len(j.Claim.Known) == 0 {
				j.Claim.Known = nil
			}
			j.Claim.Alone = rapid.Bool().Draw(t, "alone")
		}
		return j
	case 2:
		return Remove{addr.Draw(t, "addr"), rapid.Bool().Draw(t, "forget"), rapid.Bool().Draw(t, "served")}
	case 3:
		return Assign{uint16(Slot(id.Draw(t, "slot"))), whole(addrs.Draw(t, "holders"))}
	case 4, 5, 6:
		return Begin{
			id.Draw(t, "id"), rapid.SampledFrom([]uint64{0, 0, 0, 20}).Draw(t, "floor"), Op(rapid.SampledFrom([]byte{0, 0, 0, 1, 2}).Draw(t, "op")),
			rapid.Bool().Draw(t, "pinned"), whole(addrs.Draw(t, "holders")), rapid.SampledFrom([]string{"", "A=B", "\xff"}).Draw(t, "name"), rapid.Uint64().Draw(t, "bytes"),
		}
	case 7:
		return Abort{id.Draw(t, "id"), revision.Draw(t, "revision")}
	default:
		return Finish{id.Draw(t, "id"), revision.Draw(t, "revision"), whole(rapid.SliceOfN(addr, 0, 1).Draw(t, "insync")), rapid.Uint64().Draw(t, "checksum"), rapid.Uint64().Draw(t, "count")}
	}
}

// whole is the list as the codec gives it back.
func whole(addrs []string) []string {
	if len(addrs) == 0 {
		return nil
	}
	return addrs
}

// ending is a Finish or Abort of a write that is open, where there is one.
func ending(t *rapid.T, tab *Table) (c Change, ok bool) {
	open := tab.Snapshot().Intents()
	if len(open) == 0 {
		return nil, false
	}
	in := rapid.SampledFrom(open).Draw(t, "open")
	if rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
		return Abort{in.ID, in.Revision}, true
	}
	return Finish{in.ID, in.Revision, whole(rapid.SliceOfN(rapid.SampledFrom(in.Holders), 0, 2).Draw(t, "insync")), 7, 8}, true
}

// kept are the records as somebody keeps them who was given those that changed.
type kept map[Space]map[string][]byte

func (k kept) put(r Record) error {
	if k[r.Space] == nil {
		k[r.Space] = map[string][]byte{}
	}
	if r.Value == nil {
		delete(k[r.Space], string(r.Key))
		return nil
	}
	k[r.Space][string(r.Key)] = r.Value
	return nil
}

func records(t require.TestingT, tab *Table) kept {
	k := kept{}
	require.NoError(t, tab.Records(k.put))
	for _, s := range Spaces() {
		if k[s] == nil {
			k[s] = map[string][]byte{}
		}
	}
	return k
}

// shown is all that a snapshot says.
func shown(s *Snapshot) []any {
	out := []any{s.epoch, s.last, s.Slaves(), s.Intents()}
	for _, sl := range s.Slaves() {
		out = append(out, append([]Span{}, s.Spans(sl.Addr)...))
	}
	for id := range uint64(13) {
		h, pinned, err := s.HoldersFor(id, nil, 2)
		out = append(out, h, pinned, err == nil)
	}
	s.Ascend(0, math.MaxUint64, func(m Member) bool {
		out = append(out, m, s.Written(m.ID))
		return true
	})
	return out
}

// TestOneLogOneTable: two tables that apply one log are the same, through the codec
// as well; one that is written out and read back is, and goes on alike; the records
// that are said to have changed are all that have; a change that is refused has
// changed nothing.
func TestOneLogOneTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other, disk := NewTable(), NewTable(), records(t, NewTable())
		read := one.copy(t)
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			c := drawChange(t)
			if rapid.Bool().Draw(t, "end") {
				if end, ok := ending(t, one); ok {
					c = end
				}
			}
			again, err := Decode(Encode(nil, c))
			require.NoError(t, err)
			require.Equal(t, c, again)
			before := records(t, one)
			v := one.Apply(c)
			for _, tab := range []*Table{other, read} {
				w := tab.Apply(again)
				require.Equal(t, v.Err == nil, w.Err == nil, "%v, %v", v.Err, w.Err)
				if v.Err != nil {
					require.Equal(t, v.Err.Error(), w.Err.Error())
				}
				require.Equal(t, v.Revision, w.Revision)
				require.Equal(t, v.Changed, w.Changed)
			}
			require.NoError(t, one.Dirty(disk.put))
			one.Flushed()
			now := records(t, one)
			require.Equal(t, now, disk)
			require.Equal(t, v.Changed, !reflect.DeepEqual(before, now), "%#v", c)
			require.Equal(t, now, records(t, other))
			require.Equal(t, shown(one.Snapshot()), shown(other.Snapshot()))
			if rapid.IntRange(0, 3).Draw(t, "read") == 0 {
				read = one.copy(t)
			}
			require.Equal(t, now, records(t, read))
			require.Equal(t, shown(one.Snapshot()), shown(read.Snapshot()))
		}
	})
}

// TestOneOfTwoIsInSync: who did not have the write when it was finished is a
// holder, and known to lag, also when the table is read back.
func TestOneOfTwoIsInSync(t *testing.T) {
	tab := NewTable()
	for _, s := range twos("a", "b", "x") {
		require.NoError(t, tab.Apply(Join{Addr: s.Addr, Protocol: 2}).Err)
	}
	begin := tab.Apply(Begin{ID: 1, Holders: []string{"a", "b"}, Bytes: 9})
	require.ErrorIs(t, tab.Apply(Finish{ID: 1, Revision: begin.Revision, InSync: []string{"x"}}).Err, ErrInvalid)
	require.NoError(t, tab.Apply(Finish{ID: 1, Revision: begin.Revision, InSync: []string{"b"}, Checksum: 77, Count: 3}).Err)
	for _, tab := range []*Table{tab, tab.copy(t)} {
		s := tab.Snapshot()
		m, _ := s.Member(1)
		require.Equal(t, []string{"a", "b"}, m.Holders)
		require.Equal(t, Written{begin.Revision, 77, 3, []string{"b"}}, s.Written(1))
	}
}

func TestMemoryLog(t *testing.T) {
	m := NewMemory()
	var seen []*Snapshot
	var touched [][]uint64
	m.Watch(func(now *Snapshot, ids []uint64) { seen, touched = append(seen, now), append(touched, ids) })
	v, err := m.Append(t.Context(), Join{Addr: "a", Protocol: 2}, Begin{ID: 4, Holders: []string{"a"}}, Finish{ID: 4, Revision: 1}, Finish{ID: 4, Revision: 1})
	require.NoError(t, err)
	require.Len(t, v, 4)
	require.EqualValues(t, 1, v[1].Revision)
	require.NoError(t, v[2].Err)
	require.ErrorIs(t, v[3].Err, ErrSuperseded)
	require.Equal(t, []uint64{4}, ids(m.Load()))
	require.Len(t, seen, 2)
	require.Same(t, m.Load(), seen[1])
	require.Nil(t, touched[0])
	require.Contains(t, touched[1], uint64(4))
	_, err = m.Append(t.Context(), Abort{ID: 4, Revision: 1})
	require.NoError(t, err)
	require.Len(t, seen, 2, "nothing changed")
	_, err = m.Append(t.Context(), Join{Addr: string(make([]byte, maxAddr+1))})
	require.ErrorIs(t, err, ErrInvalid)
}

func TestDecodeErrors(t *testing.T) {
	good := Encode(nil, Begin{ID: 300, Holders: []string{"a"}})
	for name, c := range map[string]struct {
		b  []byte
		is error
	}{
		"Empty":        {nil, ErrForeign},
		"NoVersion":    {[]byte{0, kindAbort, 1, 1}, ErrForeign},
		"NewerCodec":   {[]byte{codec + 1, kindAbort, 1, 1}, ErrNewer},
		"NoKind":       {[]byte{codec}, ErrForeign},
		"NewerKind":    {[]byte{codec, 99}, ErrNewer},
		"Short":        {good[:len(good)-1], ErrForeign},
		"Trailing":     {append(slices.Clone(good), 0), ErrForeign},
		"LongNumber":   {[]byte{codec, kindAbort, 0x81, 0, 1}, ErrForeign},
		"Flag":         {[]byte{codec, kindRemove, 1, 'a', 2, 0}, ErrForeign},
		"HugeList":     {[]byte{codec, kindAssign, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, ErrForeign},
		"Slot":         {[]byte{codec, kindAssign, 0x80, 0x08, 0}, ErrForeign},
		"NotAscending": {[]byte{codec, kindJoin, 1, 'a', 1, 0, 0, 0, 0, 2, 5, 0, 0}, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(c.b)
			require.ErrorIs(t, err, c.is)
		})
	}
}

// samples are changes of all kinds.
func samples() []Change {
	return []Change{
		Join{Addr: "127.0.0.2", Protocol: 2, Priority: priority(-1), Weight: 3, Identity: "\x01\xff"},
		Join{Addr: "c", Protocol: 1, Claim: Claim{IDs: []Span{{1, 3}, {math.MaxUint64, math.MaxUint64}}, Known: []uint64{0, 2, math.MaxUint64}, Alone: true}},
		Remove{Addr: "c", Forget: true}, Assign{1023, []string{"a", "b"}},
		Begin{300, 5, Delete, true, []string{"a", "b"}, "A=B", 1 << 40}, Finish{300, 6, []string{"a"}, 1 << 63, 9}, Abort{300, 6},
	}
}

// FuzzDecode: what is read is what would be written.
func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(Encode(nil, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			return
		}
		require.Equal(t, b, Encode(nil, c))
	})
}

// FuzzRestore: a record that is taken is one that is written so, or as a release
// before wrote it, and a table with it works.
func FuzzRestore(f *testing.F) {
	tab := NewTable()
	for _, c := range samples()[:1] {
		require.NoError(f, tab.Apply(c).Err)
	}
	v := tab.Apply(Begin{ID: 1, Holders: []string{"127.0.0.2"}, Name: "A=B"})
	require.NoError(f, tab.Apply(Finish{ID: 1, Revision: v.Revision, Checksum: 1}).Err)
	tab.Apply(Begin{ID: 1, Holders: []string{"127.0.0.2"}})
	require.NoError(f, tab.Records(func(r Record) error {
		f.Add(byte(r.Space), r.Key, r.Value)
		return nil
	}))
	f.Fuzz(func(t *testing.T, space byte, key, value []byte) {
		if space > byte(Intents) {
			return
		}
		var all []Record
		require.NoError(t, tab.Records(func(r Record) error {
			if r.Space != Space(space) || !bytes.Equal(r.Key, key) {
				all = append(all, r)
			}
			return nil
		}))
		all = append(all, Record{Space(space), key, value})
		slices.SortStableFunc(all, func(a, b Record) int { return int(a.Space) - int(b.Space) })
		read := NewTable()
		for _, r := range all {
			if read.Restore(r) != nil {
				return
			}
		}
		if read.Restored() != nil {
			return
		}
		s := read.Snapshot()
		shown(s)
		s.UnderReplicated(2)
		s.Unavailable()
		require.Equal(t, records(t, read), records(t, read.copy(t)))
	})
}

// TestCodecIsStable: the bytes are between masters, and on their disks.
func TestCodecIsStable(t *testing.T) {
	var got []byte
	for _, c := range samples() {
		got = append(strconv.AppendQuoteToASCII(got, string(Encode(nil, c))), '\n')
	}
	path := filepath.Join("testdata", "changes.txt")
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// BenchmarkPutToASlaveThatLostMany: a put costs the same, whatever else is missing.
func BenchmarkPutToASlaveThatLostMany(b *testing.B) {
	for _, lost := range []uint64{1, 1000, 100_000} {
		b.Run(strconv.FormatUint(lost, 10), func(b *testing.B) {
			c := table(b)
			missing := make([]uint64, lost)
			for i := range missing {
				missing[i] = uint64(i) * 64
				c.put(b, Intent{ID: missing[i], Holders: []string{"beta"}, Pinned: true})
			}
			c.SetInventory("beta", missing, 0)
			b.ReportAllocs()
			var i uint64
			for b.Loop() {
				id := missing[i%lost]
				i++
				c.put(b, Intent{ID: id, Holders: []string{"beta"}, Pinned: true})
				c.Found("beta", id)
				c.Lacks("beta", id)
			}
		})
	}
}
