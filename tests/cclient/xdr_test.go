//go:build linux

package cclient_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/cgo/tirpc"
	"starfish/structs"
	"starfish/tests/cpeer"
	"starfish/xdr"
)

func needBinding(t testing.TB) {
	t.Helper()
	if !tirpc.Available {
		cpeer.Unavailable(t, "tirpc: built without cgo")
	}
}

// chain makes the same list for our stubs.
func chain(nodes []tirpc.Node) (head structs.MachineVecList) {
	for i := len(nodes) - 1; i >= 0; i-- {
		head = &structs.MachineVecNode{MachineAddr: nodes[i].Machine, Vector: structs.VecT(nodes[i].ID), Next: head}
	}
	return head
}

// TestListsAreTheSameInC encodes with one side and decodes with the other.
func TestListsAreTheSameInC(t *testing.T) {
	needBinding(t)
	r := rand.New(rand.NewPCG(5, 8))
	for range 200 {
		var nodes []tirpc.Node
		for range r.IntN(50) {
			nodes = append(nodes, tirpc.Node{Machine: strings.Repeat("m", r.IntN(256)), ID: r.Uint64()})
		}
		args := structs.HandleQueryArgs{List: chain(nodes), Result: structs.VecT(r.Uint64())}

		inC, err := tirpc.EncodeList(nodes, uint64(args.Result))
		require.NoError(t, err)
		inGo, err := xdr.Marshal(&args)
		require.NoError(t, err)
		require.Equal(t, inC, inGo)

		var decoded structs.HandleQueryArgs
		require.NoError(t, xdr.Unmarshal(inC, &decoded))
		require.Equal(t, args, decoded)
		back, word, err := tirpc.DecodeList(inGo)
		require.NoError(t, err)
		require.Equal(t, nodes, back)
		require.Equal(t, uint64(args.Result), word)
	}
}

// BenchmarkList compares encoding and decoding a list of 1,000 nodes with C's
// stubs at -O2 in one run: go-ns/list beside c-ns/list.
func BenchmarkList(b *testing.B) {
	needBinding(b)
	const n = 1000
	var nodes []tirpc.Node
	for id := range n {
		nodes = append(nodes, tirpc.Node{Machine: tirpc.BenchMachine, ID: uint64(id)})
	}
	args := structs.HandleQueryArgs{List: chain(nodes), Result: 1}
	bytes, err := xdr.Marshal(&args)
	require.NoError(b, err)

	b.Run("encode", func(b *testing.B) {
		compare(b, tirpc.TimeEncode, func() error {
			var err error
			bytes, err = args.AppendXDR(bytes[:0])
			return err
		})
	})
	b.Run("decode", func(b *testing.B) {
		var d xdr.Decoder
		compare(b, tirpc.TimeDecode, func() error {
			var args structs.HandleQueryArgs
			d.Reset(bytes)
			return args.DecodeXDR(&d)
		})
	})
}

func compare(b *testing.B, inC func(nodes, rounds int) (time.Duration, error), inGo func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := inGo(); err != nil {
			b.Fatal(err)
		}
	}
	goTime := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	took, err := inC(1000, b.N)
	require.NoError(b, err)
	cTime := float64(took.Nanoseconds()) / float64(b.N)
	b.ReportMetric(cTime, "c-ns/list")
	b.ReportMetric(cTime/goTime, "times-faster")
}
