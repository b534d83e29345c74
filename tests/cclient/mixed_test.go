//go:build linux

package cclient_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// The slaves of a mixed cluster, in the global order: Go, C, Go.
const (
	goFirst = "10.7.1.1"
	inC     = "10.7.1.2"
	goLast  = "10.7.1.3"
)

// mixed is a cluster of two slaves in Go on this host and a handler in C on
// another, with a portmapper each and a cable between.
type mixed struct {
	first, last *cluster.Process
	far         *netns.Host // inC
	handler     *cpeer.Process
	client      *cluster.Client
}

// newMixed starts one. goFirst holds the vectors 0 and 1, inC 10 and 11, goLast
// 20 and 21, each with its number as its one row (inC also 12 and 13, unsaid); and for comparison goLast has
// 110 and 111, which are like 10 and 11.
func newMixed(t *testing.T, p programs, farPortmapper func(*testing.T, *netns.Host)) *mixed {
	m := &mixed{}
	far := netns.NewHost(t, "far")
	m.far = far
	netns.Link(t, nil, goFirst+"/24", far, inC+"/24")
	netns.AddAddr(t, nil, "to-far", goLast+"/24")

	farPortmapper(t, far)
	m.startHandler(t, p)

	portmapInGo(t, nil)
	slaves := startClusterAt(t, goFirst, []string{"--listen", goFirst, "--allow", goFirst + "/24"}, goFirst, goLast)
	m.first, m.last = slaves[0], slaves[1]

	m.client = cluster.MustDial(t)
	joined, err := m.client.MasterJoin(t.Context(), structs.JoinRequest{
		Addr: inC, Protocol: structs.SLAVE_V1, Ids: []structs.IdRange{{First: 10, Last: 11}},
	})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, joined.Status, "%+v", joined.Failure)
	awaitServing(t, 3)
	for id, row := range map[uint64]int{0: 0, 1: 1, 20: 20, 21: 21, 110: 10, 111: 11} {
		holder := goLast
		if id < 10 {
			holder = goFirst
		}
		require.NoError(t, m.client.Put(t.Context(), id, []uint64{1 << row}, holder))
	}
	return m
}

func (m *mixed) startHandler(t *testing.T, p programs) {
	t.Helper()
	m.handler = cpeer.Start(t, m.far.Command(p.handler(), inC, fmt.Sprintf("10=%d,11=%d,12=%d,13=%d", 1<<10, 1<<11, 1<<12, uint64(1)<<33)))
	m.handler.WaitFor(t, "ready\n", wait)
}

func portmapInGo(t *testing.T, h *netns.Host) {
	cpeer.Start(t, h.Command(cluster.Binary(t, "portmap"), "--listen", "0.0.0.0")).WaitFor(t, "ready", wait)
}

// TestChainsOfGoAndC compares chains with a C handler with chains of Go alone.
func TestChainsOfGoAndC(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	m := newMixed(t, p, func(t *testing.T, h *netns.Host) { rpcbind(t, h) })

	for name, c := range map[string]struct{ first, list, allGo string }{
		"Go, C, Go":       {goFirst, list(goFirst, "0", inC, "10", goLast, "20"), list(goFirst, "0", goLast, "110", goLast, "20")},
		"ends in C":       {goFirst, list(goFirst, "1", goLast, "21", inC, "11", inC, "10"), list(goFirst, "1", goLast, "21", goLast, "110", goLast, "111")},
		"begins in C":     {inC, list(inC, "11", goFirst, "0", goLast, "20"), list(goLast, "111", goFirst, "0", goLast, "20")},
		"C after a gap":   {goLast, list(goFirst, "0", goFirst, "1", inC, "10"), list(goFirst, "0", goFirst, "1", goLast, "110")},
		"in turns":        {goFirst, list(inC, "10", goFirst, "0", goLast, "20", inC, "11", goFirst, "1", inC, "10"), list(goLast, "110", goFirst, "0", goLast, "20", goLast, "111", goFirst, "1")},
		"C and no others": {goFirst, list(inC, "10", inC, "11"), list(goLast, "110", goLast, "111")},
	} {
		for _, network := range []string{"tcp", "udp"} {
			want := answer(t, nil, p.slaveClient(), goLast, "tcp", "0x8000000000000000", c.allGo)
			require.NotEqual(t, "word 0x8000000000000000\n", want)
			require.Equal(t, want, answer(t, nil, p.slaveClient(), c.first, network, "0x8000000000000000", c.list), "%s over %s", name, network)
		}
	}

	t.Run("queries", func(t *testing.T) {
		for text, allGo := range map[string]string{
			"P:10": "P:110", "R:0,10,20": "R:0,110,20", "R:0-30": "R:0-1,20-21,110-111",
			"R:0-15&10-30": "R:110-111", "R:10&11": "R:110&111",
		} {
			for _, version := range []string{"1", "2"} {
				want := answer(t, nil, p.client(), "127.0.0.1", version, "tcp", allGo)
				require.Equal(t, want, answer(t, nil, p.client(), "127.0.0.1", version, "tcp", text), text)
			}
		}
	})
	t.Run("the handler is read-only", func(t *testing.T) {
		require.Error(t, m.client.Put(t.Context(), 10, []uint64{1}))
		require.Error(t, m.client.Put(t.Context(), 500, []uint64{1}, inC))
	})
	t.Run("joins are compared", func(t *testing.T) {
		join := func(replace bool, first, last uint64) structs.JoinResponse {
			r, err := m.client.MasterJoin(t.Context(), structs.JoinRequest{
				Addr: inC, Protocol: structs.SLAVE_V1, Ids: []structs.IdRange{{First: first, Last: last}}, Replace: replace,
			})
			require.NoError(t, err)
			return r
		}
		for id := range uint64(3) { // 12 is there as it is here, 13 is not, 14 is not there
			require.NoError(t, m.client.Put(t.Context(), 12+id, []uint64{1 << 12}, goFirst))
		}
		r := join(false, 12, 14)
		require.Equal(t, structs.QUERY_FAILED, r.Status)
		require.Equal(t, []uint64{14}, r.Failure.Vectors, r.Failure.Message)
		r = join(false, 12, 13)
		require.Equal(t, structs.QUERY_FAILED, r.Status)
		require.Equal(t, []uint64{13}, r.Failure.Vectors, r.Failure.Message)
		r = join(false, 12, 12)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		require.EqualValues(t, 1, r.Answer.Compared)
		require.Error(t, m.client.Put(t.Context(), 12, []uint64{1}))
		want := answer(t, nil, p.client(), "127.0.0.1", "2", "tcp", "R:10-12")
		require.Contains(t, want, "rows 10 11 12\n")

		// What it was joined with and does not hold.
		r = join(false, 15, 15)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		for _, text := range []string{"P:15", "R:15"} {
			o := run(t, nil, p.client(), "127.0.0.1", "2", "tcp", text)
			require.Equal(t, 1, o.code)
			require.Contains(t, o.stderr, "unavailable: vector 15 ")
			require.Contains(t, o.stderr, "does not hold")
		}
		r = join(true, 10, 13)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		require.EqualValues(t, 2, r.Answer.Taken)
		require.EqualValues(t, 1, r.Answer.RemovedTotal)
		require.Contains(t, answer(t, nil, p.client(), "127.0.0.1", "2", "tcp", "R:10-13"), "rows 10 11 12 33\n")

		// Out, and in again as it was.
		remove, err := m.client.MasterChange(t.Context(), structs.ChangeRequest{Kind: structs.CHANGE_REMOVE, Remove: structs.RemoveChange{Addr: inC, Forget: true}})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, remove.Status, remove.Failure.Message)
		require.EqualValues(t, 4, remove.Answer.IdsTotal)
		require.Contains(t, answer(t, nil, p.client(), "127.0.0.1", "2", "tcp", "R:0-20"), "rows 0 1 12 20\n")
		r = join(false, 10, 11)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
		awaitServing(t, 3)
	})
	t.Run("the machine behind C is blamed", func(t *testing.T) {
		chain := list(goFirst, "0", inC, "10", goLast, "20")
		m.last.Stop(t)
		o := run(t, nil, p.slaveClient(), goFirst, "tcp", "0", chain)
		require.Equal(t, outcome{"", "slave_client: machine " + goLast + " failed\n", 1}, o)
		m.last.Continue(t)
		require.Equal(t, "word 0x0000000000100401\n", answer(t, nil, p.slaveClient(), goFirst, "tcp", "0", chain))
	})
	t.Run("C is blamed", func(t *testing.T) {
		m.handler.Stop(t)
		o := run(t, nil, p.slaveClient(), goFirst, "tcp", "0", list(goFirst, "0", goLast, "20", inC, "10"))
		require.Equal(t, outcome{"", "slave_client: machine " + inC + " failed\n", 1}, o)
		m.handler.Continue(t)
	})
}

// TestHandlerBehindOurPortmapper has bin/portmap on the handler's host. The
// handler dies, another takes its place whose replies cannot be encoded, and the
// good one comes back, each on a port of its own.
func TestHandlerBehindOurPortmapper(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	m := newMixed(t, p, portmapInGo)
	ok := func() {
		require.Equal(t, "word 0x0000000000100401\n",
			answer(t, nil, p.slaveClient(), goFirst, "tcp", "0", list(goFirst, "0", inC, "10", goLast, "20")))
		require.Equal(t, "word 0x0000000000300c03\n", answer(t, nil, p.clientN(), "127.0.0.1", "udp", "R:0-30"))
	}
	failed := func() {
		o := run(t, nil, p.slaveClient(), goFirst, "tcp", "0", list(goFirst, "0", inC, "10"))
		require.Equal(t, outcome{"", "slave_client: machine " + inC + " failed\n", 1}, o)
		o = run(t, nil, p.client(), "127.0.0.1", "1", "tcp", "R:0-30")
		require.Equal(t, outcome{"", "client: machine " + inC + " failed\n", 1}, o)
		o = run(t, nil, p.client(), "127.0.0.1", "2", "tcp", "R:0-30")
		require.Equal(t, 1, o.code)
		require.Contains(t, o.stderr, inC)
		require.Equal(t, "word 0x0000000000300003\n", answer(t, nil, p.clientN(), "127.0.0.1", "tcp", "R:0-9,20-30"))
	}
	ok()
	require.NoError(t, m.handler.Signal(syscall.SIGKILL))
	_ = m.handler.Wait(t, wait)
	failed()

	careless := cpeer.Start(t, m.far.Command(p.careless()))
	awaitServing(t, 3)
	failed()
	require.NoError(t, careless.Signal(syscall.SIGKILL))
	_ = careless.Wait(t, wait)

	m.startHandler(t, p)
	awaitServing(t, 3)
	ok()
}
