package master

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/peer"
	"starfish/router"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
)

func TestQueries(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, nil, 1, 2, 3)
	w.put(2, nil, 3, 70, 1<<32-1)
	w.put(3, nil)
	w.put(10, nil, 2, 3, 70)
	for text, want := range map[string][]uint32{
		"P:1":                        {1, 2, 3},
		"P:3":                        {},
		"R:1-2&10\n":                 {2, 3, 70},
		"R:[0,3]&[10,14]":            {2, 3, 70},
		"R:*":                        {1, 2, 3, 70, 1<<32 - 1},
		"R:0-18446744073709551615&2": {3, 70, 1<<32 - 1},
		"R:500-600":                  {},
		"R:500-600&1":                {},
		"R:1&3":                      {},
	} {
		require.ElementsMatch(t, want, w.rows(text), text)
	}

	res := w.ask(structs.QueryRequest{Text: "P:10", Format: structs.BITMAP_WORDS})
	require.Equal(t, []uint64{12, 64}, res.Answer.Rows.Words)
	require.NotZero(t, res.Answer.Seed)
	res = w.ask(structs.QueryRequest{Text: "R:*", Format: structs.BITMAP_NONE, Seed: 99})
	require.Equal(t, structs.QueryAnswer{Count: 5, Rows: structs.RowBitmap{Format: structs.BITMAP_NONE}, Seed: 99}, res.Answer)
	for _, text := range []structs.QueryText{"P:2", "R:2"} {
		res = w.ask(structs.QueryRequest{Text: text, Format: structs.BITMAP_WORDS, FirstRow: 4, MaxRows: 1})
		require.EqualValues(t, 3, res.Answer.Count)
		require.Equal(t, []uint64{0, 64}, res.Answer.Rows.Words)
		res = w.ask(structs.QueryRequest{Text: text, Format: structs.BITMAP_WORDS, FirstRow: 1<<32 - 70})
		require.EqualValues(t, 3, res.Answer.Count)
		require.Equal(t, []uint64{0, 1 << 63}, res.Answer.Rows.Words, "a page begins at the word of its first row")
	}
	res = w.ask(structs.QueryRequest{Text: "P:2", Format: structs.BITMAP_WORDS})
	require.Equal(t, structs.QUERY_TOO_LARGE, res.Status)
	require.Contains(t, res.Failure.Message, "use roaring, or pages")

	f := w.fails("R:1-&2", structs.QUERY_SYNTAX)
	require.EqualValues(t, 5, f.Position)
	f = w.fails("P:77", structs.QUERY_NO_SUCH_VECTOR)
	require.Equal(t, []uint64{77}, f.Vectors)
}

// logLines is a log, for tests that read it.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// with are the lines that have the text.
func (l *logLines) with(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestVersion1(t *testing.T) {
	var log logLines
	w := newWorld(t, func(c *Config) {
		c.Replicas = 1
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}, three...)
	w.put(1, nil, 0, 63)
	w.put(2, nil, 64)
	w.put(3, three[2:], 5)
	v1 := structs.NewMasterProgMasterV1Client(w.conn)
	for text, want := range map[structs.QueryText]uint64{"P:1": 1<<63 | 1, "R:0-1\n": 1<<63 | 1, "R:50&1": 0, "R:3": 32} {
		r, err := v1.MasterQuery(w.ctx(), text)
		require.NoError(t, err, text)
		require.Equal(t, structs.QueryReturnValue{Vector: structs.VecT(want)}, r, text)
	}
	for text, want := range map[structs.QueryText]error{"P:2": rpc.ErrSystem, "R:*": rpc.ErrSystem, "P:9": rpc.ErrSystem, "Q": rpc.ErrGarbageArgs, "": rpc.ErrGarbageArgs} {
		_, err := v1.MasterQuery(w.ctx(), text)
		require.ErrorIs(t, err, want, "%q", text)
	}
	for text, why := range map[string]string{"P:2": "above 63", "R:*": "above 63", "P:9": "no such vector"} {
		lines := log.with(text)
		require.Len(t, lines, 1, "what the wire cannot say is in the log, once")
		require.Contains(t, lines[0], why)
	}
	w.slaves[three[2]].stop()
	r, err := v1.MasterQuery(w.ctx(), "P:3")
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{FailedMachine: three[2]}, r)
	r, err = v1.MasterQuery(w.ctx(), "R:3&50")
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{FailedMachine: three[2]}, r)
	w.slaves[three[2]].start()
}

// TestSlowIsNobodysFault: where all were merely slow, version 1 has no machine to
// name, and version 2 says that the time is up.
func TestSlowIsNobodysFault(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	w.put(1, nil, 1)
	release := make(chan struct{})
	w.slaves[three[0]].setRefuse(func(op string, _ uint64) error {
		if op == "handle" {
			<-release
		}
		return nil
	})
	defer close(release)
	f := w.failsIn("P:1", structs.QUERY_DEADLINE, 2*testHop)
	require.Empty(t, f.FailedMachines)
	w.serving(three[0])
}

func TestDatagramBound(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	var many []uint32
	for i := range uint32(9000) {
		many = append(many, i*7919)
	}
	w.put(1, nil, many...)
	w.put(2, nil, 1, 2)
	c, err := rpc.Dial(w.ctx(), "udp", w.m.Addr().String(), rpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	udp := structs.NewMasterProgMasterV2Client(c)
	r, err := udp.MasterQuery(w.ctx(), structs.QueryRequest{Text: "P:1", Format: structs.BITMAP_ROARING})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_TOO_LARGE, r.Status)
	require.Contains(t, r.Failure.Message, "use tcp")
	r, err = udp.MasterQuery(w.ctx(), structs.QueryRequest{Text: "P:2", Format: structs.BITMAP_ROARING})
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Answer.Count)
	v1, err := structs.NewMasterProgMasterV1Client(c).MasterQuery(w.ctx(), "P:2")
	require.NoError(t, err)
	require.EqualValues(t, 6, v1.Vector)
}

// fill puts vectors 0 to n-1, vector i with row i.
func (w *world) fill(n int) (all []uint32) {
	for i := range n {
		w.put(uint64(i), nil, uint32(i))
		all = append(all, uint32(i))
	}
	return all
}

func TestEachSlaveDies(t *testing.T)  { eachFails(t, (*fake).stop, (*fake).start) }
func TestEachSlaveHangs(t *testing.T) { eachFails(t, (*fake).freeze, (*fake).thaw) }

// eachFails has each slave fail in turn, the coordinators included: no query is
// answered with an error or a part, and none is tried over and over.
func eachFails(t *testing.T, fail, heal func(*fake)) {
	for _, policy := range []string{"random", "round-robin", "bandwidth"} {
		t.Run(policy, func(t *testing.T) {
			var log logLines
			w := newWorld(t, func(c *Config) {
				c.Coordinator = policy
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}, three...)
			all := w.fill(20)
			for _, a := range three {
				fail(w.slaves[a])
				require.Equal(t, all, w.rows("R:*"))
				for i := range 20 {
					require.Equal(t, []uint32{uint32(i)}, w.rows(fmt.Sprint("P:", i)))
					require.Equal(t, []uint32{uint32(i)}, w.rows(fmt.Sprintf("R:0-19&%d", i)))
				}
				w.state(catalog.Down, a)
				heal(w.slaves[a])
				w.serving(a)
				require.Equal(t, all, w.rows("R:*"))
			}
			requireFewAttempts(t, &log)
		})
	}
}

// maxSpared is how often a query takes a machine back that it gave up: see delegate.
const maxSpared = 2

// requireFewAttempts: a query gives a machine up, or finds it alive a few times.
func requireFewAttempts(t *testing.T, log *logLines) {
	t.Helper()
	attempts := regexp.MustCompile(`msg=query .*attempts=(\d+)`)
	lines := log.with("msg=query ")
	require.NotEmpty(t, lines)
	for _, line := range lines {
		m := attempts.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.LessOrEqual(t, n, 1+len(three)*(1+maxSpared), line)
	}
}

func TestUnavailableNamesAll(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:1], 1)
	w.put(2, three[:2], 2)
	w.put(3, three[2:], 3)
	w.slaves[three[0]].stop()
	w.slaves[three[1]].stop()
	w.state(catalog.Down, three[:2]...)
	f := w.fails("R:1-3", structs.QUERY_UNAVAILABLE)
	require.Equal(t, []uint64{1, 2}, f.Vectors)
	require.EqualValues(t, 2, f.VectorsTotal)
	require.ElementsMatch(t, []structs.MachineName{"10.0.0.1", "10.0.0.2"}, f.FailedMachines)
	require.Contains(t, f.Message, "1, 2")
	require.Contains(t, f.Message, three[0])
	// Also where another range is empty.
	f = w.fails("R:1&50", structs.QUERY_UNAVAILABLE)
	require.Equal(t, []uint64{1}, f.Vectors)
	require.Equal(t, []uint32{3}, w.rows("R:3"))
	require.EqualValues(t, 2, w.m.status().Unavailable)
	w.slaves[three[0]].start()
	w.slaves[three[1]].start()
	w.serving(three...)
	require.Equal(t, []uint32{1, 2, 3}, w.rows("R:1-3"))
}

func TestNotHeldIsRoutedAgain(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	all := w.fill(10)
	for _, lost := range []uint64{3, 4} {
		for _, text := range []string{"P:%d", "R:%d&0-9"} {
			s := w.slaves[three[lost%2]]
			s.drop(lost)
			for range 6 { // whichever holder is drawn
				require.Equal(t, []uint32{uint32(lost)}, w.rows(fmt.Sprintf(text, lost)))
			}
		}
	}
	require.Equal(t, all, w.rows("R:*"))
	w.await("the gaps are seen", func(s *catalog.Snapshot) bool { return s.IsMissing(three[1], 3) && s.IsMissing(three[0], 4) })
	require.EqualValues(t, 1, w.m.status().Slaves[0].Missing)

	// Where no other holder has it, it is unavailable, not forgotten.
	w.slaves[three[0]].drop(3)
	f := w.fails("P:3", structs.QUERY_UNAVAILABLE)
	require.Equal(t, []uint64{3}, f.Vectors)
	w.put(3, nil, 3)
	w.put(4, nil, 4)
	require.Equal(t, all, w.rows("R:*"))
	require.Zero(t, w.m.status().Slaves[0].Missing)
	require.Zero(t, w.m.status().Slaves[1].Missing)
}

// TestLiesAboutNotHeld: a slave that says that it does not hold what it has is
// left alone by that query, and does not keep it busy.
func TestLiesAboutNotHeld(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.put(1, nil, 1)
	s := w.slaves[three[0]]
	s.mu.Lock()
	s.answer = func(id uint64) *structs.RowsResponse {
		return &structs.RowsResponse{Status: structs.QUERY_NOT_HELD, Failure: structs.QueryFailure{Message: "no", Vectors: []uint64{id}, VectorsTotal: 1}}
	}
	s.mu.Unlock()
	for range 8 {
		require.Equal(t, []uint32{1}, w.rows("P:1"))
	}
	s.mu.Lock()
	s.answer = func(uint64) *structs.RowsResponse {
		return &structs.RowsResponse{Leg: structs.LegAnswer{Rows: structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte("nonsense")}}}
	}
	s.mu.Unlock()
	for range 8 {
		require.Equal(t, []uint32{1}, w.rows("P:1"))
	}
	s.setRefuse(func(op string, _ uint64) error {
		if op == "handle" {
			return rpc.ErrSystem
		}
		return nil
	})
	w.slaves[three[1]].setRefuse(s.refuse)
	f := w.fails("P:1", structs.QUERY_FAILED)
	require.Empty(t, f.FailedMachines)
}

func TestSeedReplays(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.fill(30)
	explain := func(seed uint64) structs.Explanation {
		r, err := w.client.MasterExplain(w.ctx(), structs.QueryRequest{Text: "R:*", Seed: seed})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		return r.Plan
	}
	first := explain(0)
	require.NotZero(t, first.Seed)
	require.Equal(t, first, explain(first.Seed))
	require.Len(t, first.Members, 30)
	require.Len(t, first.Ranges, 1)
	require.EqualValues(t, 30, first.Ranges[0].Vectors)
	require.Contains(t, three, string(first.Coordinator))

	r, err := w.client.MasterExplain(w.ctx(), structs.QueryRequest{Text: "P:4"})
	require.NoError(t, err)
	require.Empty(t, r.Plan.Coordinator)
	r, err = w.client.MasterExplain(w.ctx(), structs.QueryRequest{Text: "P:400"})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_NO_SUCH_VECTOR, r.Status)
	r, err = w.client.MasterExplain(w.ctx(), structs.QueryRequest{Text: "P:"})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_SYNTAX, r.Status)
}

func TestPriority(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, three, 1)
	low := int32(-5)
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.2", Protocol: 2, Priority: &low})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, r.Status)
	from := func() structs.ExplainedMember {
		r, err := w.client.MasterExplain(w.ctx(), structs.QueryRequest{Text: "P:1"})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		return r.Plan.Members[0]
	}
	require.Equal(t, structs.ExplainedMember{Id: 1, From: "10.0.0.2", Reason: structs.ROUTE_PRIORITY}, from())
	w.slaves["10.0.0.2"].stop()
	require.Equal(t, []uint32{1}, w.rows("P:1"))
	w.state(catalog.Down, "10.0.0.2")
	require.Equal(t, structs.ROUTE_FAILOVER, from().Reason)
	w.slaves["10.0.0.2"].start()
}

func TestStaticHandler(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	c := w.add("10.0.0.9", 1)
	for id := range uint64(5) {
		c.set(id, 1, uint32(id))
	}
	join := func(ids ...structs.IdRange) structs.JoinResponse {
		r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.9", Protocol: 1, Ids: ids})
		require.NoError(t, err)
		return r
	}
	require.Equal(t, structs.QUERY_FAILED, join().Status)
	require.Equal(t, structs.QUERY_FAILED, join(structs.IdRange{First: 3, Last: 1}).Status)
	require.Equal(t, structs.QUERY_FAILED, join(structs.IdRange{Last: 1<<64 - 1}).Status)
	for range 2 {
		require.Equal(t, structs.QUERY_OK, join(structs.IdRange{First: 0, Last: 5}).Status)
	}
	w.serving("10.0.0.9")
	require.Equal(t, []uint32{4}, w.rows("P:4"))
	require.Equal(t, 1, c.count("handle1"))

	// Read-only, and what it does not have after all is unavailable.
	res := w.tryPut(4, nil, 1)
	require.Equal(t, structs.QUERY_FAILED, res.Status)
	require.Contains(t, res.Failure.Message, "10.0.0.9")
	require.Equal(t, structs.QUERY_FAILED, w.tryPut(50, []string{"10.0.0.9"}, 1).Status)
	del, err := w.client.MasterDelete(w.ctx(), 4)
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_FAILED, del.Status)
	f := w.fails("P:5", structs.QUERY_UNAVAILABLE)
	require.Equal(t, []structs.MachineName{"10.0.0.9"}, f.FailedMachines)
	w.serving("10.0.0.9")

	c.freeze()
	require.Equal(t, []structs.MachineName{"10.0.0.9"}, w.fails("P:4", structs.QUERY_UNAVAILABLE).FailedMachines)
	c.thaw()
	w.serving("10.0.0.9")
	require.Equal(t, []uint32{4}, w.rows("P:4"))

	// A second holder of its ids.
	w.put(60, nil, 60)
	require.Equal(t, []uint32{60}, w.rows("P:60"))
}

func TestOnlyStaticHandlersCannotCoordinate(t *testing.T) {
	w := newWorld(t, nil, three[:1]...)
	c := w.add("10.0.0.9", 1)
	c.set(1, 1, 7)
	_, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.9", Protocol: 1, Ids: []structs.IdRange{{First: 1, Last: 1}}})
	require.NoError(t, err)
	w.serving("10.0.0.9")
	w.slaves[three[0]].stop()
	w.state(catalog.Down, three[0])
	require.Equal(t, []uint32{7}, w.rows("P:1"))
	f := w.fails("R:1", structs.QUERY_UNAVAILABLE)
	require.Contains(t, f.Message, "coordinate")
	require.Empty(t, w.rows("R:70"))
	w.slaves[three[0]].start()
}

func TestRowsOfEveryFormat(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.put(1, nil, 5, 100)
	for _, text := range []structs.QueryText{"P:1", "R:1"} {
		for _, format := range []structs.RowBitmapFormat{structs.BITMAP_WORDS, structs.BITMAP_ROARING} {
			r := w.ask(structs.QueryRequest{Text: text, Format: format})
			require.Equal(t, format, r.Answer.Rows.Format)
			b, err := rows.Decode(&r.Answer.Rows)
			require.NoError(t, err)
			require.Equal(t, []uint32{5, 100}, b.Rows(0, 0))
		}
	}
}

// TestRouterWords: what package router says travels as the word of structs.x.
func TestRouterWords(t *testing.T) {
	for r, want := range map[router.Reason]structs.RouteReason{
		router.ReasonOnlyHolder:    structs.ROUTE_ONLY_HOLDER,
		router.ReasonPriority:      structs.ROUTE_PRIORITY,
		router.ReasonFewestMembers: structs.ROUTE_FEWEST_MEMBERS,
		router.ReasonRandom:        structs.ROUTE_RANDOM,
		router.ReasonFailover:      structs.ROUTE_FAILOVER,
		router.ReasonMasked:        structs.ROUTE_MASKED,
	} {
		require.Equal(t, want, routeReason(r))
	}
	for s, want := range map[router.Strategy]structs.RangeStrategy{
		router.Chain:  structs.RANGE_CHAIN,
		router.FanOut: structs.RANGE_FAN_OUT,
	} {
		require.Equal(t, want, rangeStrategy(s))
		require.Equal(t, want, structs.RangeStrategy(peer.Strategy(s)), "a plan is sent to its coordinator")
	}
}
