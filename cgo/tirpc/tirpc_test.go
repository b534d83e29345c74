package tirpc_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/cgo/tirpc"
	"starfish/tests/cpeer"
)

func needBinding(t testing.TB) {
	t.Helper()
	if !tirpc.Available {
		cpeer.Unavailable(t, "tirpc: built without cgo")
	}
}

// One node ("a", 7) and the word 5, byte by byte.
const oneNode = "00000001" + // list: present
	"00000001" + "61000000" + // machine_addr "a", padded
	"0000000000000007" + // vector
	"00000000" + // next: absent
	"0000000000000005" // result

func TestListIsWhatRpcgenWrites(t *testing.T) {
	needBinding(t)
	b, err := tirpc.EncodeList([]tirpc.Node{{Machine: "a", ID: 7}}, 5)
	require.NoError(t, err)
	require.Equal(t, oneNode, hex.EncodeToString(b))

	list, word, err := tirpc.DecodeList(b)
	require.NoError(t, err)
	require.Equal(t, []tirpc.Node{{Machine: "a", ID: 7}}, list)
	require.EqualValues(t, 5, word)
}

func TestListKeepsItsOrder(t *testing.T) {
	needBinding(t)
	var want []tirpc.Node
	for i := range 1000 {
		want = append(want, tirpc.Node{Machine: strings.Repeat("m", i%256), ID: 1<<63 + uint64(i)})
	}
	b, err := tirpc.EncodeList(want, 1<<63)
	require.NoError(t, err)
	got, word, err := tirpc.DecodeList(b)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, uint64(1)<<63, word)
}

func TestWhatRpcgenRefuses(t *testing.T) {
	needBinding(t)
	_, err := tirpc.EncodeList([]tirpc.Node{{Machine: strings.Repeat("m", 256)}}, 0)
	require.ErrorIs(t, err, tirpc.ErrXDR, "a machine address over its bound")
	_, err = tirpc.EncodeList(make([]tirpc.Node, 10_001), 0)
	require.ErrorIs(t, err, tirpc.ErrTooMany)

	whole, err := hex.DecodeString(oneNode)
	require.NoError(t, err)
	for n := range len(whole) {
		_, _, err := tirpc.DecodeList(whole[:n])
		require.ErrorIs(t, err, tirpc.ErrXDR, "cut after %d bytes", n)
	}
}

func TestTimes(t *testing.T) {
	needBinding(t)
	encode, err := tirpc.TimeEncode(1000, 10)
	require.NoError(t, err)
	require.Positive(t, encode)
	decode, err := tirpc.TimeDecode(1000, 10)
	require.NoError(t, err)
	require.Positive(t, decode)
}

func BenchmarkEncodeC(b *testing.B) { bench(b, tirpc.TimeEncode) }
func BenchmarkDecodeC(b *testing.B) { bench(b, tirpc.TimeDecode) }

// bench reports C's own time for 1,000 nodes as ns/list.
func bench(b *testing.B, f func(nodes, rounds int) (time.Duration, error)) {
	needBinding(b)
	took, err := f(1000, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/list")
}
