//go:build linux

package cclient_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// words are the vectors 0 to 14 of one word each, and what queries make of them.
type words [15]uint64

func (w *words) or(ids ...int) (word uint64) {
	for _, id := range ids {
		word |= w[id]
	}
	return word
}

func span(lo, hi int) (ids []int) {
	for id := lo; id <= hi; id++ {
		ids = append(ids, id)
	}
	return ids
}

// store puts random vectors, of which each bit is set with a chance of 1/4.
func store(t *testing.T, c *cluster.Client) *words {
	var w words
	r := rand.New(rand.NewPCG(7, 11))
	for id := range w {
		w[id] = r.Uint64() & r.Uint64()
		require.NoError(t, c.Put(t.Context(), uint64(id), []uint64{w[id]}))
	}
	return &w
}

// bits are the rows of a word as the C client prints them.
func bits(word uint64) string {
	var b strings.Builder
	for i := range 64 {
		if word>>i&1 == 1 {
			fmt.Fprintf(&b, " %d", i)
		}
	}
	return b.String()
}

func count(word uint64) int { return strings.Count(bits(word), " ") }

// TestClientInC asks the master in every spelling, over TCP and UDP, in both
// versions, with the stubs of rpcgen -C and of -N.
func TestClientInC(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	startCluster(t)
	c := cluster.MustDial(t)
	w := store(t, c)

	var texts []string
	var want []uint64
	for _, q := range []struct {
		text string
		word uint64
	}{
		{"P:7", w[7]},
		{"P:0\n", w[0]},
		{"R:0-3&10-14", w.or(span(0, 3)...) & w.or(span(10, 14)...)},
		{"R:[0,3]&[10,14]", w.or(span(0, 3)...) & w.or(span(10, 14)...)},
		{"R: 0 - 3 & 10 - 14 \n", w.or(span(0, 3)...) & w.or(span(10, 14)...)},
		{"R:7&9", w[7] & w[9]},
		{"R:{1,4,9}", w.or(1, 4, 9)},
		{"R:2,5-7", w.or(2, 5, 6, 7)},
		{"R:*", w.or(span(0, 14)...)},
		{"R:*&0-1&{2}", w.or(0, 1) & w[2]},
		{"R:1000-2000", 0},
		{"R:14-18446744073709551615", w[14]},
	} {
		texts, want = append(texts, q.text), append(want, q.word)
	}

	var version1, version1N, version2 strings.Builder
	for _, word := range want {
		fmt.Fprintf(&version1, "word 0x%016x\nrows%s\n", word, bits(word))
		fmt.Fprintf(&version1N, "word 0x%016x\n", word)
		fmt.Fprintf(&version2, "count %d\nrows%s\n", count(word), bits(word))
	}
	for _, network := range []string{"tcp", "udp"} {
		require.Equal(t, version1.String(), answer(t, nil, p.client(), append([]string{"127.0.0.1", "1", network}, texts...)...), network)
		require.Equal(t, version1N.String(), answer(t, nil, p.clientN(), append([]string{"127.0.0.1", network}, texts...)...), network)
		require.Equal(t, version2.String(), answer(t, nil, p.client(), append([]string{"127.0.0.1", "2", network}, texts...)...), network)
	}

	t.Run("refusals", func(t *testing.T) {
		require.NoError(t, c.Put(t.Context(), 64, []uint64{1, 1})) // rows 0 and 64
		for _, network := range []string{"tcp", "udp"} {
			for text, say := range map[string]string{
				"P:64":      "client: RPC: Remote system error",
				"R:63-64":   "client: RPC: Remote system error",
				"P:99":      "client: RPC: Remote system error",
				"R:4-1":     "client: RPC: Server can't decode arguments",
				"P:7 or so": "client: RPC: Server can't decode arguments",
			} {
				o := run(t, nil, p.client(), "127.0.0.1", "1", network, text)
				require.Equal(t, 1, o.code, "%s over %s: %s", text, network, o.stdout)
				require.Empty(t, o.stdout)
				require.Contains(t, o.stderr, say, "%s over %s", text, network)
			}
		}
		require.Equal(t, "count 2\nrows 0 64\n", answer(t, nil, p.client(), "127.0.0.1", "2", "udp", "P:64"))
		for text, say := range map[string]string{"P:99": "99", "R:4-1": "(at byte "} {
			o := run(t, nil, p.client(), "127.0.0.1", "2", "tcp", text)
			require.Equal(t, 1, o.code)
			require.Contains(t, o.stderr, say)
		}
	})

	t.Run("pages", func(t *testing.T) {
		const rows = 600_000 // three pages of the C client, which begin anywhere in a word
		all := make([]uint64, rows/64+1)
		var want strings.Builder
		for row := 0; row < rows; row++ {
			if row%64 == 7 || row%3 == 1 && row%64 > 9 {
				all[row/64] |= 1 << (row % 64)
				fmt.Fprintf(&want, " %d", row)
			}
		}
		require.NoError(t, c.Put(t.Context(), 65, all))
		require.Equal(t, fmt.Sprintf("count %d\nrows%s\n", strings.Count(want.String(), " "), want.String()), answer(t, nil, p.client(), "127.0.0.1", "2", "tcp", "P:65"))
		o := run(t, nil, p.client(), "127.0.0.1", "2", "udp", "P:65")
		require.Equal(t, 1, o.code, "%s", o.stdout)
		require.Contains(t, o.stderr, "use tcp")
	})

	t.Run("valgrind", func(t *testing.T) {
		for _, version := range []string{"1", "2"} {
			for _, network := range []string{"tcp", "udp"} {
				o := valgrind(t, nil, p.client(), "127.0.0.1", version, network, "R:0-3&10-14", "P:99", "R:4-1", "P:7")
				require.Equal(t, 1, o.code, "version %s over %s: %s", version, network, o.stderr)
			}
		}
		require.Zero(t, valgrind(t, nil, p.clientN(), "127.0.0.1", "tcp", "R:0-3").code)
		require.Zero(t, valgrind(t, nil, p.client(), "127.0.0.1", "2", "tcp", "P:65", "P:64").code)
	})
}

// TestListsInC sends lists made by hand to slaves, as a coordinator in C would.
func TestListsInC(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	startCluster(t)
	c := cluster.MustDial(t)

	// Slave i holds the vectors 10i to 10i+4; vector v has the row v alone.
	for slave := range 3 {
		for v := 10 * slave; v < 10*slave+5; v++ {
			require.NoError(t, c.Put(t.Context(), uint64(v), []uint64{1 << v}, cluster.Addr(slave)))
		}
	}
	node := func(v int) string { return cluster.Addr(v/10) + ":" + strconv.Itoa(v) }
	r := rand.New(rand.NewPCG(3, 5))
	lists := [][]int{
		{0, 10, 20}, {20, 10, 0}, {0, 20, 1, 10, 21, 0, 0, 11}, {}, {4}, {24, 24, 24},
		{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24},
	}
	for range 6 {
		var l []int
		for range 1 + r.IntN(30) {
			l = append(l, 10*r.IntN(3)+r.IntN(5))
		}
		lists = append(lists, l)
	}
	for i, l := range lists {
		word := r.Uint64()
		want := word
		var nodes []string
		for _, v := range l {
			nodes = append(nodes, node(v))
			want |= 1 << v
		}
		for slave := range 3 {
			network := []string{"tcp", "udp"}[(i+slave)%2]
			got := answer(t, nil, p.slaveClient(), cluster.Addr(slave), network, fmt.Sprintf("%#x", word), strings.Join(nodes, ","))
			require.Equal(t, fmt.Sprintf("word 0x%016x\n", want), got, "%v to slave %d over %s", l, slave, network)
		}
	}

	t.Run("coordinate", func(t *testing.T) {
		for _, network := range []string{"tcp", "udp"} {
			require.Equal(t, fmt.Sprintf("word 0x%016x\n", 1<<10|1<<20),
				answer(t, nil, p.slaveClient(), cluster.Addr(1), network, "coordinate",
					strings.Join([]string{node(20), node(0), node(10)}, ","), strings.Join([]string{node(10), node(20), node(24)}, ",")))
		}
		require.Equal(t, "word 0x0000000000000000\n", answer(t, nil, p.slaveClient(), cluster.Addr(0), "tcp", "coordinate", node(1), ""))
		o := run(t, nil, p.slaveClient(), cluster.Addr(0), "tcp", "coordinate")
		require.Equal(t, 1, o.code)
		require.Contains(t, o.stderr, "can't decode arguments")
	})

	t.Run("failures", func(t *testing.T) {
		for what, f := range map[string]struct{ list, machine string }{
			"not held":                   {node(0) + "," + cluster.Addr(1) + ":3", cluster.Addr(1)},
			"not held by the first":      {cluster.Addr(0) + ":11", cluster.Addr(0)},
			"a machine that is nobody's": {node(0) + ",127.0.0.99:5", "127.0.0.99"},
		} {
			o := run(t, nil, p.slaveClient(), cluster.Addr(0), "tcp", "0", f.list)
			require.Equal(t, outcome{"", "slave_client: machine " + f.machine + " failed\n", 1}, o, what)
		}
	})

	t.Run("valgrind", func(t *testing.T) {
		require.Zero(t, valgrind(t, nil, p.slaveClient(), cluster.Addr(0), "tcp", "1", node(0)+","+node(20)+","+node(10)).code)
		require.Equal(t, 1, valgrind(t, nil, p.slaveClient(), cluster.Addr(0), "udp", "1", cluster.Addr(2)+":3").code)
		require.Zero(t, valgrind(t, nil, p.slaveClient(), cluster.Addr(0), "tcp", "coordinate", node(0), node(10)).code)
	})
}
