package codec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	rasky "github.com/rasky/go-xdr/xdr2"
	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/codec/differ"
	"starfish/tests/codec/sample"
	"starfish/xdr"
)

// decode reads all of b into v.
func decode(b []byte, v differ.Value, lax bool) error {
	d := xdr.NewDecoder(b)
	d.Lax = lax
	if err := v.DecodeXDR(d); err != nil {
		return err
	}
	if d.Len() > 0 {
		return xdr.ErrTrailing
	}
	return nil
}

func TestRoundTrip(t *testing.T) {
	eachKind(t, func(t *testing.T, k differ.Kind) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			v, b := random(t, rng, k)
			again, err := v.AppendXDR([]byte("in front"))
			require.NoError(t, err)
			require.Equal(t, b, again[8:])
			require.Equal(t, len(b), v.(xdr.Sizer).XDRSize())
			require.Zero(t, len(b)%4)
			read := k.Make()
			require.NoError(t, xdr.Unmarshal(b, read))
			require.Equal(t, v, read)
			require.NoError(t, xdr.Unmarshal(b, read), "into a value that was used before")
			require.Equal(t, v, read)
			require.ErrorIs(t, xdr.Unmarshal(append(b, 0, 0, 0, 0), k.Make()), xdr.ErrTrailing)
		}
	})
}

func TestTruncatedAtEveryByte(t *testing.T) {
	eachKind(t, func(t *testing.T, k differ.Kind) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range 20 {
			_, b := random(t, rng, k)
			for n := range len(b) {
				require.ErrorIs(t, decode(b[:n], k.Make(), false), xdr.ErrShort, "%x, %d of %d bytes", b, n, len(b))
			}
		}
	})
}

// Every word of a value is made huge in turn: an error or a value, and memory
// bounded by the input, never by the word.
func TestHugeWords(t *testing.T) {
	eachKind(t, func(t *testing.T, k differ.Kind) {
		rng := rand.New(rand.NewPCG(5, 6))
		_, b := random(t, rng, k)
		b = b[:min(len(b), 400)]
		var before, after runtime.MemStats
		for _, huge := range []uint32{math.MaxUint32, math.MaxUint32 - 3, 1 << 31, 0x7fffffd0, 1 << 24} {
			runtime.ReadMemStats(&before)
			for i := 0; i < len(b); i += 4 {
				bad := bytes.Clone(b)
				copy(bad[i:], xdr.AppendUint32(nil, huge))
				_ = decode(bad, k.Make(), true) // an error where it was a length, else often none
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10+len(b)/4*(16<<10)), "%x", huge)
		}
	})
}

// words returns big-endian words.
func words(ws ...uint32) (b []byte) {
	for _, w := range ws {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

func TestRefusals(t *testing.T) {
	padded := append(words(0, 0, 1), 'x', 0, 0, 1)
	for _, c := range []struct {
		name  string
		bytes []byte
		into  differ.Value
		err   error
		lax   bool // whether the lax reading takes it
	}{
		{"padding", padded, new(structs.QueryReturnValue), xdr.ErrPadding, true},
		{"bool 2", words(2, 0), new(structs.MembersPage), xdr.ErrShort, false},
		{"bool 2 in its place", words(0, 2), new(structs.MembersPage), xdr.ErrBool, true},
		{"optional flag 2", words(2, 7, 0, 0, 0, 0), new(sample.Optionals), xdr.ErrBool, true},
		{"list flag 2", words(2, 0, 0, 0, 0), &nodeList{}, xdr.ErrBool, true},
		{"unknown tag", words(9), new(structs.QueryStatus), xdr.ErrEnum, true},
		{"unknown discriminant", words(3, 0), new(structs.RowBitmap), xdr.ErrEnum, false},
		{"int without an arm", words(5), new(sample.ByInt), xdr.ErrUnion, false},
		{"tag without an arm", words(5), new(sample.ByEnum), xdr.ErrUnion, false},
		{"string above its bound", append(words(9), "123456789\x00\x00\x00"...), new(sample.Label), xdr.ErrTooLong, false},
		{"array above its bound", words(5, 0, 0, 0, 0, 0), new(sample.Palette), xdr.ErrTooLong, false},
		{"opaque above its bound", append(words(256), make([]byte, 256)...), new(sample.Blob), xdr.ErrTooLong, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, decode(c.bytes, c.into, false), c.err)
			err := decode(c.bytes, c.into, true)
			if c.lax {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}

// nodeList is a machine_vec_list as a value.
type nodeList struct{ head structs.MachineVecList }

func (l *nodeList) AppendXDR(b []byte) ([]byte, error) {
	return structs.AppendMachineVecList(b, l.head)
}
func (l *nodeList) DecodeXDR(d *xdr.Decoder) error { return structs.DecodeMachineVecList(d, &l.head) }

// A union's accessors give the arm that counts, and no other.
func TestArms(t *testing.T) {
	answer, failure := structs.QueryAnswer{Count: 7}, structs.QueryFailure{Message: "no"}
	ok := structs.NewQueryResponseAnswer(answer)
	require.Equal(t, structs.QUERY_OK, ok.Status)
	got, is := ok.AsAnswer()
	require.True(t, is)
	require.Equal(t, answer, got)
	_, is = ok.AsFailure()
	require.False(t, is)

	failed := structs.NewQueryResponseFailure(structs.QUERY_DEADLINE, failure)
	failed.Answer = answer // does not count
	what, is := failed.AsFailure()
	require.True(t, is)
	require.Equal(t, failure, what)
	got, is = failed.AsAnswer()
	require.False(t, is)
	require.Zero(t, got)

	for kind, want := range map[int32]bool{-1: true, sample.MINUS: true, 0: false, 5: false} {
		_, is := sample.ByInt{Kind: kind, Negative: "n"}.AsNegative()
		require.Equal(t, want, is, kind)
	}
}

// What is a ring has no size, and asking for it ends.
func TestSizeOfRings(t *testing.T) {
	item := &sample.Item{Name: "a"}
	item.Next = item
	chain := &sample.Chain{Inner: item}
	chain.Next = chain
	bush := sample.Bush{Twigs: make([]sample.Bush, 2)}
	bush.Twigs[0].Twigs, bush.Twigs[1].Twigs = bush.Twigs, bush.Twigs
	tree := &sample.Tree{}
	tree.Left, tree.Right = tree, tree
	for _, v := range []interface {
		xdr.Appender
		xdr.Sizer
	}{item, chain, bush, tree, sample.Lists{Others: []sample.ItemList{item, item, item}}} {
		require.Negative(t, v.XDRSize(), "%T", v)
		_, err := xdr.Marshal(v)
		require.Error(t, err)
	}
}

func TestRefusedToEncode(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Appender
		err  error
		says string
	}{
		{"string above its bound", structs.QueryReturnValue{FailedMachine: string(make([]byte, 256))}, xdr.ErrTooLong, "query_return_value.failed_machine"},
		{"array above its bound", structs.QueryFailure{Vectors: make([]uint64, 1001)}, xdr.ErrTooLong, "query_failure.vectors"},
		{"opaque above its bound", sample.Blob(make([]byte, 256)), xdr.ErrTooLong, "blob"},
		{"unknown tag", structs.QueryStatus(-1), xdr.ErrEnum, "query_status -1"},
		{"unknown tag of a union", structs.QueryResponse{Status: 99}, xdr.ErrEnum, "query_status 99"},
		{"discriminant without an arm", sample.ByInt{Kind: 7}, xdr.ErrUnion, "by_int 7"},
		{"tag without an arm", sample.ByEnum{C: sample.DARK}, xdr.ErrUnion, "by_enum -2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := xdr.Marshal(c.v)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRecursionIsBounded(t *testing.T) {
	// A tree to the left is recursion, one to the right a list.
	left := func(depth int) *sample.Tree {
		top := &sample.Tree{}
		for range depth - 1 {
			top = &sample.Tree{Left: top}
		}
		return top
	}
	b, err := xdr.Marshal(left(xdr.MaxDepth))
	require.NoError(t, err)
	require.NoError(t, xdr.Unmarshal(b, new(sample.Tree)))
	_, err = xdr.Marshal(left(xdr.MaxDepth + 1))
	require.ErrorIs(t, err, xdr.ErrDepth)

	deep := bytes.Repeat(words(7, 1), 1<<20)
	require.ErrorIs(t, xdr.Unmarshal(deep, new(sample.Tree)), xdr.ErrDepth)
	require.ErrorIs(t, xdr.Unmarshal(deep, new(sample.Bush)), xdr.ErrDepth)
	nested := bytes.Repeat(words(5), 1<<20) // GREEN: both
	for i := 4; i < len(nested); i += 8 {
		nested[i+3] = 1
	}
	require.ErrorIs(t, xdr.Unmarshal(nested, new(sample.Expression)), xdr.ErrDepth)

	// Through the arms of a union, by *, by <> and by the nodes of a list.
	for kind := range uint32(3) {
		shapes := bytes.Repeat(words(kind+1, 1), 1<<20)
		require.ErrorIs(t, xdr.Unmarshal(shapes, new(sample.Shape)), xdr.ErrDepth, "case %d", kind+1)
		require.ErrorIs(t, xdr.Unmarshal(shapes, new(sample.Drawing)), xdr.ErrDepth, "case %d", kind+1)
	}
	for _, within := range []func(sample.Shape) sample.Shape{
		func(s sample.Shape) sample.Shape { return sample.NewShapeInner(&s) },
		func(s sample.Shape) sample.Shape { return sample.NewShapeParts([]sample.Shape{s}) },
		func(s sample.Shape) sample.Shape { return sample.NewShapeStack(&sample.Layer{Top: s}) },
	} {
		deep := func(depth int) (s sample.Shape) {
			for range depth - 1 {
				s = within(s)
			}
			return s
		}
		b, err := xdr.Marshal(deep(xdr.MaxDepth / 2))
		require.NoError(t, err)
		require.NoError(t, xdr.Unmarshal(b, new(sample.Shape)))
		for _, v := range []xdr.Appender{deep(xdr.MaxDepth + 1), sample.Drawing{First: sample.Layer{Top: deep(xdr.MaxDepth + 1)}}} {
			_, err = xdr.Marshal(v)
			require.ErrorIs(t, err, xdr.ErrDepth)
		}
	}

	ring := &sample.Bush{Twigs: make([]sample.Bush, 1)}
	ring.Twigs[0].Twigs = ring.Twigs
	_, err = xdr.Marshal(ring)
	require.ErrorIs(t, err, xdr.ErrDepth)
}

func TestLongLists(t *testing.T) {
	args := list(xdr.MaxNodes)
	b, err := xdr.Marshal(args)
	require.NoError(t, err)
	var got structs.HandleQueryArgs
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, xdr.Unmarshal(b, &got))
	runtime.ReadMemStats(&after)
	perRecord := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(b))
	t.Logf("a list of %d nodes: %d bytes, decoding allocates %.2f times as much", xdr.MaxNodes, len(b), perRecord)
	require.Less(t, perRecord, 4.0)
	n := 0
	for node := got.List; node != nil; node = node.Next {
		if node.Vector != structs.VecT(n) || node.MachineAddr != args.List.MachineAddr {
			t.Fatalf("node %d is %+v", n, node)
		}
		n++
	}
	require.Equal(t, xdr.MaxNodes, n)

	require.Equal(t, len(b), args.XDRSize())
	require.Equal(t, len(b)-8, structs.SizeMachineVecList(args.List))
	args.List = &structs.MachineVecNode{Next: args.List}
	require.Negative(t, args.XDRSize())
	_, err = xdr.Marshal(args)
	require.ErrorIs(t, err, xdr.ErrTooLong)
	b = append(append(words(1, 0, 0, 0), b...), 0)[:len(b)+16]
	require.ErrorIs(t, xdr.Unmarshal(b, &got), xdr.ErrTooLong)

	ring := &structs.MachineVecNode{}
	ring.Next = ring
	_, err = structs.AppendMachineVecList(nil, ring)
	require.ErrorIs(t, err, xdr.ErrTooLong)
}

func TestAllocations(t *testing.T) {
	args := list(1000)
	b, err := xdr.Marshal(args)
	require.NoError(t, err)
	decoded := testing.AllocsPerRun(20, func() {
		var v structs.HandleQueryArgs
		if err := xdr.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, decoded, 5.0)
	encoded := testing.AllocsPerRun(20, func() {
		if b, err = args.AppendXDR(b[:0]); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, encoded)
}

// rasky/go-xdr must read and write the same bytes, where it knows the type.
func TestRaskyAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, k := range []differ.Kind{
		differ.Of[structs.QueryReturnValue]("query_return_value"), differ.Of[structs.QueryFailure]("query_failure"),
		differ.Of[structs.InventoryItem]("inventory_item"), differ.Of[structs.InventoryPage]("inventory_page"),
		differ.Of[structs.CoordinateReturnValue]("coordinate_return_value"), differ.Of[structs.JoinAnswer]("join_answer"),
		differ.Of[sample.Basics]("basics"), differ.Of[sample.Arrays]("arrays"), differ.Of[sample.Bush]("bush"),
	} {
		for range 100 {
			v, b := random(t, rng, k)
			var buf bytes.Buffer
			_, err := rasky.Marshal(&buf, v)
			require.NoError(t, err, k.Name)
			require.Equal(t, b, buf.Bytes(), k.Name)
			read := k.Make()
			_, err = rasky.Unmarshal(&buf, read)
			require.NoError(t, err, k.Name)
			again, err := read.AppendXDR(nil)
			require.NoError(t, err, k.Name)
			require.Equal(t, b, again, k.Name)
		}
	}
	var buf bytes.Buffer
	args := list(100)
	_, err := rasky.Marshal(&buf, toRasky(args))
	require.NoError(t, err)
	b, err := xdr.Marshal(args)
	require.NoError(t, err)
	require.Equal(t, b, buf.Bytes())
}
