package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/netns"
)

// seed is drawn anew each run, logged, and taken from STARFISH_TEST_SEED to
// repeat one.
func seed(t testing.TB) *rand.Rand {
	s := uint64(time.Now().UnixNano())
	if env := os.Getenv("STARFISH_TEST_SEED"); env != "" {
		v, err := strconv.ParseUint(env, 10, 64)
		require.NoError(t, err)
		s = v
	}
	t.Logf("STARFISH_TEST_SEED=%d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// world is what the oracle knows: the vectors by id.
type world struct {
	ids  []uint64 // ascending
	rows map[uint64]cluster.Words
}

func newWorld(rnd *rand.Rand, vectors, dense int, limit uint32) *world {
	w := &world{rows: map[uint64]cluster.Words{}}
	for len(w.ids) < vectors {
		id := rnd.Uint64N(400)
		if rnd.IntN(4) == 0 {
			id = rnd.Uint64()
		}
		if _, known := w.rows[id]; known {
			continue
		}
		w.rows[id] = cluster.RandomWords(rnd, limit, len(w.ids) < dense)
		w.ids = append(w.ids, id)
	}
	slices.Sort(w.ids)
	return w
}

// load puts all vectors, in both formats' senses: words are what puts carry.
func (w *world) load(t testing.TB, c *cluster.Client) {
	t.Helper()
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(16)
	for _, id := range w.ids {
		g.Go(func() error { return c.Put(ctx, id, w.rows[id]) })
	}
	require.NoError(t, g.Wait())
}

// span is the OR of the known ids from lo to hi.
func (w *world) span(lo, hi uint64) cluster.Words {
	var r cluster.Words
	for _, id := range w.ids {
		if id >= lo && id <= hi {
			r.Or(w.rows[id])
		}
	}
	return r
}

// query draws a query and its right answer.
func (w *world) query(rnd *rand.Rand) (string, cluster.Words) {
	if rnd.IntN(8) == 0 {
		id := w.ids[rnd.IntN(len(w.ids))]
		return fmt.Sprint("P:", id), w.rows[id]
	}
	var parts []string
	var answer cluster.Words
	for i := range 1 + rnd.IntN(3) {
		text, rows := w.oneRange(rnd)
		parts = append(parts, text)
		if i == 0 {
			answer = rows
		} else {
			answer.And(rows)
		}
	}
	return "R:" + strings.Join(parts, []string{"&", " & "}[rnd.IntN(2)]), answer.Trim()
}

func (w *world) oneRange(rnd *rand.Rand) (string, cluster.Words) {
	known := func() uint64 { return w.ids[rnd.IntN(len(w.ids))] }
	switch rnd.IntN(6) {
	case 0:
		id := known()
		return fmt.Sprint(id), w.span(id, id)
	case 1:
		a, b := known(), known()
		rows := w.span(a, a)
		rows.Or(w.rows[b])
		return fmt.Sprintf("{%d,%d}", a, b), rows
	case 2:
		a, lo := known(), rnd.Uint64N(400)
		rows := w.span(lo, lo+9)
		rows.Or(w.rows[a])
		return fmt.Sprintf("%d,%d-%d", a, lo, lo+9), rows
	case 3:
		if rnd.IntN(10) == 0 {
			return "*", w.span(0, 1<<64-1)
		}
		fallthrough
	case 4:
		lo := rnd.Uint64N(400)
		hi := lo + rnd.Uint64N(60)
		return fmt.Sprintf("[%d,%d]", lo, hi), w.span(lo, hi)
	default:
		lo, hi := known(), known()
		if lo > hi {
			lo, hi = hi, lo
		}
		if rnd.IntN(4) > 0 {
			hi = lo + min(hi-lo, 50)
		}
		return fmt.Sprintf("%d-%d", lo, hi), w.span(lo, hi)
	}
}

// equal says whether an answer in either format is the oracle's.
func equal(a structs.QueryAnswer, want cluster.Words) error {
	if a.Count != want.Count() {
		return fmt.Errorf("count %d, want %d", a.Count, want.Count())
	}
	got := cluster.Words(a.Rows.Words)
	if a.Rows.Format == structs.BITMAP_ROARING {
		var err error
		if got, err = cluster.ReadRoaring(a.Rows.Roaring); err != nil {
			return err
		}
	}
	if !slices.Equal(got, want.Trim()) {
		return fmt.Errorf("other rows in %v", a.Rows.Format)
	}
	return nil
}

func TestOracle(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	rnd := seed(t)
	cluster.New(t, cluster.Options{})
	c := cluster.MustDial(t)
	w := newWorld(rnd, 300, 8, 5_000_000)
	w.load(t, c)

	nonEmpty := 0
	for i := range 2000 {
		text, want := w.query(rnd)
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
		a, err := c.Query(ctx, text, structs.RowBitmapFormat(i%2))
		cancel()
		require.NoError(t, err, text)
		require.NoError(t, equal(a, want), text)
		if want.Count() > 0 {
			nonEmpty++
		}
	}
	t.Logf("%d of 2000 answers are not empty", nonEmpty)
	require.GreaterOrEqual(t, nonEmpty, 1000)
}
