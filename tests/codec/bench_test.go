package codec

import (
	"bytes"
	"testing"
	"time"

	rasky "github.com/rasky/go-xdr/xdr2"
	"github.com/stretchr/testify/require"

	"starfish/cgo/tirpc"
	"starfish/structs"
	"starfish/xdr"
)

// benchNodes is the length of the list of design.md's speed table.
const benchNodes = 1000

// list returns a list of n nodes on one machine, as cgo/tirpc times it.
func list(n int) structs.HandleQueryArgs {
	nodes := make([]structs.MachineVecNode, n)
	for i := range nodes {
		nodes[i] = structs.MachineVecNode{MachineAddr: tirpc.BenchMachine, Vector: structs.VecT(i)}
		if i > 0 {
			nodes[i-1].Next = &nodes[i]
		}
	}
	args := structs.HandleQueryArgs{Result: 1}
	if n > 0 {
		args.List = &nodes[0]
	}
	return args
}

func BenchmarkListEncode(b *testing.B) {
	args := list(benchNodes)
	buf, err := args.AppendXDR(nil)
	require.NoError(b, err)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = args.AppendXDR(buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListDecode(b *testing.B) {
	args := list(benchNodes)
	buf, err := args.AppendXDR(nil)
	require.NoError(b, err)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		var v structs.HandleQueryArgs
		if err := xdr.Unmarshal(buf, &v); err != nil {
			b.Fatal(err)
		}
	}
}

// The C benchmarks are rpcgen's routines at -O2 over libtirpc, without a step
// into Go.
func BenchmarkListEncodeC(b *testing.B) { benchC(b, tirpc.TimeEncode) }
func BenchmarkListDecodeC(b *testing.B) { benchC(b, tirpc.TimeDecode) }

func benchC(b *testing.B, f func(nodes, rounds int) (time.Duration, error)) {
	if !tirpc.Available {
		b.Skip("built without cgo")
	}
	args := list(benchNodes)
	buf, err := args.AppendXDR(nil)
	require.NoError(b, err)
	b.SetBytes(int64(len(buf)))
	took, err := f(benchNodes, b.N)
	require.NoError(b, err)
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
}

// raskyNode is a list node as rasky/go-xdr wants it.
type raskyNode struct {
	MachineAddr string
	Vector      uint64
	Next        *raskyNode `xdr:"optional"`
}

type raskyArgs struct {
	List   *raskyNode `xdr:"optional"`
	Result uint64
}

func toRasky(v structs.HandleQueryArgs) raskyArgs {
	out := raskyArgs{Result: uint64(v.Result)}
	p := &out.List
	for n := v.List; n != nil; n = n.Next {
		*p = &raskyNode{MachineAddr: n.MachineAddr, Vector: uint64(n.Vector)}
		p = &(*p).Next
	}
	return out
}

func BenchmarkListEncodeRasky(b *testing.B) {
	args := toRasky(list(benchNodes))
	var buf bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		if _, err := rasky.Marshal(&buf, &args); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(buf.Len()))
}

func BenchmarkListDecodeRasky(b *testing.B) {
	args := toRasky(list(benchNodes))
	var buf bytes.Buffer
	_, err := rasky.Marshal(&buf, &args)
	require.NoError(b, err)
	b.SetBytes(int64(buf.Len()))
	b.ReportAllocs()
	for b.Loop() {
		var v raskyArgs
		if _, err := rasky.Unmarshal(bytes.NewReader(buf.Bytes()), &v); err != nil {
			b.Fatal(err)
		}
	}
}
