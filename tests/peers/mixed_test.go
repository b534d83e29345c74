package peers

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/client"
	"starfish/tests/cluster"
	"starfish/vector"
	"starfish/vector/fold"
)

// inNamespace names the child that TestMain runs in a network namespace, so that
// the benchmark's cluster has the ports that it needs.
const inNamespace = "STARFISH_PEERS_NAMESPACE"

func TestMain(m *testing.M) {
	measuring := slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.bench=") })
	if !measuring || os.Getenv(inNamespace) != "" {
		os.Exit(cluster.Main(m))
	}
	const prepare = `ip link set lo up && mount -t tmpfs tmpfs /run && exec "$@"`
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "sh", "-c", prepare, "sh"}, os.Args...)...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "peers: in a network namespace (needs root):", err)
		os.Exit(1)
	}
}

// The mixed table: rows with columns, each of which has values, uniformly. The
// vector of value v of column f has the id f*values+v.
const (
	rows    = 5_000_000
	columns = 3
	values  = 100
)

// mix is a 64-bit hash (the finalizer of SplitMix64).
func mix(row, column uint64) uint64 {
	x := row*columns + column + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// table are the vectors, by id.
func table() []*vector.Bitmap {
	lists := make([][]uint32, columns*values)
	for r := range uint32(rows) {
		for f := range uint64(columns) {
			id := f*values + mix(uint64(r), f)%values
			lists[id] = append(lists[id], r)
		}
	}
	all := make([]*vector.Bitmap, len(lists))
	for i, l := range lists {
		all[i] = vector.New(l...)
		all[i].Optimize()
	}
	return all
}

// dense is the vector as a Redis string: bit i is row i, the most significant of a
// byte first.
func dense(b *vector.Bitmap) string {
	out := make([]byte, (rows+7)/8)
	for row := range b.All() {
		out[row/8] |= 0x80 >> (row % 8)
	}
	return string(out)
}

// systems are all that is measured, with the same data.
type systems struct {
	ours  *client.Client
	redis *redis
	bytes [][]byte // of the vectors, for the floor
}

func start(b *testing.B) *systems {
	startRedis(b)
	cluster.New(b, cluster.Options{Slaves: 3, Replicas: 2})
	c, err := client.Dial(b.Context(), "127.0.0.1")
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	s := &systems{ours: c, redis: dialRedis(b)}
	for id, v := range table() {
		_, err := c.Put(b.Context(), uint64(id), v, client.PutOptions{})
		require.NoError(b, err)
		_, _, err = s.redis.do([]string{"SET", fmt.Sprint(id), dense(v)})
		require.NoError(b, err)
		s.bytes = append(s.bytes, v.AppendRoaring(nil))
	}
	return s
}

// query is ranges of ids: OR inside each, AND across them.
type query [][]uint64

// draw picks n values of each of the columns.
func draw(rnd *rand.Rand, sizes ...int) query {
	q := make(query, len(sizes))
	for f, n := range sizes {
		for _, v := range rnd.Perm(values)[:n] {
			q[f] = append(q[f], uint64(f*values+v))
		}
	}
	return q
}

func (q query) text() string {
	ranges := make([]string, len(q))
	for i, ids := range q {
		ranges[i] = strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
	}
	return "R:" + strings.Join(ranges, "&")
}

// askRedis has Redis compute the query, and returns the count, or the rows too.
func (s *systems) askRedis(q query, wantRows bool) (count int64, data []byte, err error) {
	var commands [][]string
	and := []string{"BITOP", "AND", "all"}
	for i, ids := range q {
		name := fmt.Sprint("range", i)
		or := []string{"BITOP", "OR", name}
		for _, id := range ids {
			or = append(or, fmt.Sprint(id))
		}
		commands, and = append(commands, or), append(and, name)
	}
	commands = append(commands, and)
	if wantRows {
		_, data, err = s.redis.do(append(commands, []string{"GET", "all"})...)
		for _, x := range data {
			count += int64(bits.OnesCount8(x))
		}
		return count, data, err
	}
	count, _, err = s.redis.do(append(commands, []string{"BITCOUNT", "all"})...)
	return count, nil, err
}

// floor is the engine alone on one core, in memory, from the same bytes.
func (s *systems) floor(g *fold.Gather, q query) (uint64, error) {
	g.Reset(len(q))
	for i, ids := range q {
		for _, id := range ids {
			v, err := fold.Parse(s.bytes[id])
			if err != nil {
				return 0, err
			}
			g.Add(i, v)
		}
	}
	return g.Count(context.Background(), 0, fold.Keys)
}

// times are those of one system in one benchmark.
type times []time.Duration

func (t *times) measure(f func()) {
	began := time.Now()
	f()
	*t = append(*t, time.Since(began))
}

func (t times) median() float64 {
	slices.Sort(t)
	return float64(t[len(t)/2].Microseconds()) / 1000
}

// BenchmarkMixedTable asks the cluster, Redis and the engine alone the same
// queries in turn. The figures are medians in ms; every answer is compared.
func BenchmarkMixedTable(b *testing.B) {
	s := start(b)
	rnd := rand.New(rand.NewPCG(1, 2))
	g := fold.NewGather(0)
	for _, work := range []struct {
		name  string
		sizes []int
		rows  bool
	}{
		{"4and5/count", []int{4, 5}, false},
		{"3x10/count", []int{10, 10, 10}, false},
		{"3x10/rows", []int{10, 10, 10}, true},
		{"union100/count", []int{100}, false},
	} {
		b.Run(work.name, func(b *testing.B) {
			var ours, theirs, floor times
			for b.Loop() {
				q := draw(rnd, work.sizes...)
				text := q.text()
				var a client.Answer
				var count int64
				var alone uint64
				var data []byte
				var err, rerr, ferr error
				ours.measure(func() { a, err = s.ours.Query(b.Context(), text, client.QueryOptions{CountOnly: !work.rows}) })
				theirs.measure(func() { count, data, rerr = s.askRedis(q, work.rows) })
				floor.measure(func() { alone, ferr = s.floor(g, q) })
				require.NoError(b, err, text)
				require.NoError(b, rerr)
				require.NoError(b, ferr)
				require.EqualValues(b, count, a.Count, text)
				require.EqualValues(b, count, alone, text)
				if work.rows {
					require.Equal(b, string(data), dense(a.Rows), text)
				}
			}
			report(b, ours, theirs, floor)
		})
	}
	b.Run("one/count", func(b *testing.B) {
		var ours, theirs, null times
		for b.Loop() {
			id := rnd.Uint64N(columns * values)
			var a client.Answer
			var n int64
			var err, rerr error
			ours.measure(func() { a, err = s.ours.Query(b.Context(), fmt.Sprint("P:", id), client.QueryOptions{CountOnly: true}) })
			theirs.measure(func() { n, _, rerr = s.redis.do([]string{"BITCOUNT", fmt.Sprint(id)}) })
			null.measure(func() { _, _ = s.ours.Status(b.Context()) })
			require.NoError(b, err)
			require.NoError(b, rerr)
			require.EqualValues(b, n, a.Count)
		}
		report(b, ours, theirs, null)
	})
	b.Run("one/count/8clients", func(b *testing.B) {
		var wg sync.WaitGroup
		began := time.Now()
		const each = 500
		for range 8 {
			c, err := client.Dial(b.Context(), "127.0.0.1")
			require.NoError(b, err)
			b.Cleanup(func() { c.Close() })
			wg.Go(func() {
				for i := range uint64(each) {
					if _, err := c.Query(b.Context(), fmt.Sprint("P:", i%(columns*values)), client.QueryOptions{CountOnly: true}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(8*each/time.Since(began).Seconds(), "calls/s")
	})
}

// report shows the medians; floor is what the last column of the work compares with.
func report(b *testing.B, ours, theirs, floor times) {
	b.ReportMetric(0, "ns/op") // of all systems together: it says nothing
	b.ReportMetric(ours.median(), "ours-ms")
	b.ReportMetric(theirs.median(), "redis-ms")
	b.ReportMetric(floor.median(), "floor-ms")
}
