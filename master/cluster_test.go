package master

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/node"
	"starfish/rpc"
	"starfish/structs"
)

func TestConfigFaultsAreJoined(t *testing.T) {
	err := Config{Port: 70000, Replicas: 99, HopTimeout: -1, Coordinator: "me", Balance: "x"}.Check()
	for _, want := range []string{"--data", "70000", "99", "negative", `"me"`, `"x"`} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Config{Data: "d"}.Check())
	_, err = New(Config{Data: t.TempDir(), NoOverlap: true, Replicas: 2})
	require.ErrorContains(t, err, "overlap")

	cfg := Config{Data: t.TempDir(), Portmap: node.PortmapperNone, Logger: testLogger(), Port: AnyPort}
	m, err := New(cfg)
	require.NoError(t, err)
	_, err = New(cfg)
	require.ErrorIs(t, err, catalog.ErrLocked)
	require.NoError(t, m.Close())

	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	cfg.Port = busy.Addr().(*net.TCPAddr).Port
	m, err = New(cfg)
	require.NoError(t, err)
	require.ErrorContains(t, m.Run(context.Background()), "address already in use")
}

func TestJoinIsIdempotent(t *testing.T) {
	w := newWorld(t, nil, three...)
	a := w.join(three[0])
	require.Equal(t, a, w.join(three[0]))
	require.Len(t, a.Machines, 3)
	require.Equal(t, structs.ClusterMachine{Addr: "10.0.0.1", Protocol: 2}, a.Machines[0])
	for _, req := range []structs.JoinRequest{
		{Addr: "", Protocol: 2},
		{Addr: "a b", Protocol: 2},
		{Addr: "0.0.0.0", Protocol: 2},
		{Addr: "10.0.0.1:20490", Protocol: 2},
		{Addr: "10.0.0.4", Protocol: 3},
		{Addr: "10.0.0.4", Protocol: 2, Ids: []structs.IdRange{{}}},
		{Addr: "10.0.0.4", Protocol: 1},
		{Addr: "10.0.0.4", Protocol: 2, Replace: true},
	} {
		r, err := w.client.MasterJoin(w.ctx(), req)
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_FAILED, r.Status, "%+v", req)
		require.NotEmpty(t, r.Failure.Message)
	}
	require.Len(t, w.m.status().Slaves, 3)

	// One that cannot be reached is a member where that is meant, and down.
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.4", Protocol: 2})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_FAILED, r.Status)
	require.Contains(t, r.Failure.Message, "--force")
	require.Len(t, w.m.status().Slaves, 3)
	r, err = w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.4", Protocol: 2, Force: true})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_OK, r.Status)
	require.Greater(t, r.Answer.Epoch, a.Epoch)
	w.state(catalog.Down, "10.0.0.4")
	for id := range uint64(30) {
		w.put(id, nil, 1) // none of them on a slave that never was there
	}
	st, err := w.client.MasterStatus(w.ctx())
	require.NoError(t, err)
	require.Equal(t, "no host 10.0.0.4", st.Slaves[3].Problem)
}

// TestProblemOfADisk: what a slave says of its disk is in its status while it serves,
// until it says otherwise.
func TestProblemOfADisk(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	say := func(problem string) {
		t.Helper()
		r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.1", Protocol: 2, Instance: w.slaves[three[0]].instance, Problem: problem})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
	}
	say("its disk: no space left on device")
	for range 3 { // visits of the monitor do not wipe it away
		<-w.m.health.Visit(three[0])
		st := w.m.status().Slaves[0]
		require.Equal(t, structs.SLAVE_SERVING, st.State)
		require.Equal(t, "its disk: no space left on device", st.Problem)
	}
	require.Empty(t, w.m.status().Slaves[1].Problem)
	w.slaves[three[0]].stop()
	w.state(catalog.Down, three[0])
	require.NotContains(t, w.m.status().Slaves[0].Problem, "disk", "why it does not serve comes first")
	w.slaves[three[0]].start()
	w.serving(three[0])
	say("")
	<-w.m.health.Visit(three[0])
	require.Empty(t, w.m.status().Slaves[0].Problem)
}

// TestInventoryIsCompared: what a slave lacks is not asked of it, what the
// catalog does not know is shown and not revived.
func TestInventoryIsCompared(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	all := w.fill(50)
	s := w.slaves[three[0]]
	s.stop()
	w.state(catalog.Down, three[0])
	require.EqualValues(t, 50, w.m.status().UnderReplicated)
	require.Equal(t, "connection refused", w.m.status().Slaves[0].Problem)
	for id := range uint64(10) {
		s.drop(id * 5)
	}
	for id := range uint64(7) {
		s.set(1000+id*1000, 1, 99)
	}
	s.pageSize = 8
	s.start()
	w.serving(three[0])
	st := w.m.status().Slaves[0]
	require.EqualValues(t, 10, st.Missing)
	require.EqualValues(t, 10, w.m.status().UnderReplicated)
	require.EqualValues(t, 7, st.SetAside)
	require.EqualValues(t, 50, st.Members)
	require.Equal(t, all, w.rows("R:*"))
	w.fails("P:1000", structs.QUERY_NO_SUCH_VECTOR)

	// A new process with an empty disk, noticed at its join.
	for id := range uint64(50) {
		s.drop(id)
	}
	s.mu.Lock()
	s.instance = instances.Add(1)
	s.mu.Unlock()
	w.join(three[0])
	w.await("the loss is seen", func(sn *catalog.Snapshot) bool { return sn.Slaves()[0].Missing == 50 })
	w.serving(three[0])
	require.Equal(t, all, w.rows("R:*"))
	require.Zero(t, w.m.status().Unavailable)

	// An inventory that makes no sense keeps the slave out.
	s.setRefuse(func(op string, _ uint64) error {
		if op == "inventory" {
			return errors.New("torn page")
		}
		return nil
	})
	s.stop()
	w.state(catalog.Down, three[0])
	s.start()
	w.m.health.Visit(three[0])
	w.await("the problem is told", func(sn *catalog.Snapshot) bool {
		return sn.Slaves()[0].State == catalog.Down && len(sn.Slaves()[0].Problem) > 0
	})
	s.setRefuse(nil)
	w.serving(three[0])
}

// TestDataPutBackFromACopy: a slave whose disk is older than what was acknowledged
// is not asked for what is stale, until that is put again.
func TestDataPutBackFromACopy(t *testing.T) {
	w := newWorld(t, nil, three[:2]...)
	w.put(1, three[:2], 1)
	w.put(2, three[:2], 2)
	w.put(3, three[:1], 3)
	s := w.slaves[three[0]]
	copied := map[uint64]stored{1: s.get(1), 3: s.get(3)}
	w.put(1, three[:2], 10)
	w.put(3, three[:1], 30)
	s.stop()
	w.state(catalog.Down, three[0])
	for id, v := range copied {
		s.set(id, v.revision, v.rows.Rows(0, 0)...)
	}
	s.start()
	w.serving(three[0])
	require.EqualValues(t, 2, w.m.status().Slaves[0].Missing)
	require.EqualValues(t, 2, w.m.status().UnderReplicated, "pinned to two, and to one")
	for range 20 { // whoever is drawn
		require.Equal(t, []uint32{10}, w.rows("P:1"))
		require.Equal(t, []uint32{2, 10}, w.rows("R:1-2"))
	}
	f := w.fails("R:*", structs.QUERY_UNAVAILABLE)
	require.Equal(t, []uint64{3}, f.Vectors)
	w.put(1, nil, 11)
	w.put(3, nil, 31)
	require.Zero(t, w.m.status().Slaves[0].Missing)
	require.Zero(t, w.m.status().UnderReplicated)
	require.Equal(t, []uint32{2, 11, 31}, w.rows("R:*"))
}

func TestMembersPages(t *testing.T) {
	w := newWorld(t, nil, three...)
	w.fill(25)
	w.put(1<<63, three[:1], 1)
	var ids []uint64
	for req := (structs.MembersRequest{MaxMembers: 10}); ; {
		p, err := w.client.MasterMembers(w.ctx(), req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Members), 10)
		for _, m := range p.Members {
			ids = append(ids, m.Id)
			require.NotEmpty(t, m.Holders)
			require.False(t, m.Pending)
		}
		if !p.More {
			break
		}
		req.FirstId = ids[len(ids)-1] + 1
	}
	require.Len(t, ids, 26)
	require.IsIncreasing(t, ids)
	p, err := w.client.MasterMembers(w.ctx(), structs.MembersRequest{})
	require.NoError(t, err)
	require.Len(t, p.Members, 26)
	require.False(t, p.More)
	require.Equal(t, []structs.MachineName{"10.0.0.1"}, p.Members[25].Holders)
	require.Len(t, w.m.members(structs.MembersRequest{}, 200).Members, 3)
}

// strangerListener accepts connections that come from 192.0.2.7.
type strangerListener struct{ net.Listener }

func (l strangerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return strangerConn{c}, err
}

type strangerConn struct{ net.Conn }

func (strangerConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:999"))
}

func TestWhoMayChange(t *testing.T) {
	for _, allow := range []bool{false, true} {
		w := newWorld(t, func(c *Config) {
			if allow {
				c.Allow = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}
			}
		}, three[:2]...)
		w.put(7, nil, 5)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		w.m.bg.Go(func() { w.m.srv.Serve(strangerListener{l}) })
		c, err := rpc.Dial(w.ctx(), "tcp", l.Addr().String(), rpc.ClientConfig{})
		require.NoError(t, err)
		defer c.Close()
		stranger := structs.NewMasterProgMasterV2Client(c)

		q, err := stranger.MasterQuery(w.ctx(), structs.QueryRequest{Text: "P:7"})
		require.NoError(t, err)
		require.EqualValues(t, 1, q.Answer.Count)
		put, err := stranger.MasterPut(w.ctx(), structs.PutRequest{Id: 7})
		require.NoError(t, err)
		join, err := stranger.MasterJoin(w.ctx(), structs.JoinRequest{Addr: "10.0.0.2", Protocol: 2})
		require.NoError(t, err)
		del, err := stranger.MasterDelete(w.ctx(), 7)
		require.NoError(t, err)
		want := structs.QUERY_DENIED
		if allow {
			want = structs.QUERY_OK
		} else {
			require.Equal(t, []uint32{5}, w.rows("P:7"))
			require.Contains(t, put.Failure.Message, "--allow")
		}
		require.Equal(t, []structs.QueryStatus{want, want, want}, []structs.QueryStatus{put.Status, join.Status, del.Status})
	}
}

// TestShutdownDrains: a query and a put that are in flight at the end are answered.
func TestShutdownDrains(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.DrainTimeout = patience }, three[:1]...)
	w.put(1, nil, 1)
	s := w.slaves[three[0]]
	in, release := make(chan struct{}, 2), make(chan struct{})
	s.setRefuse(func(op string, _ uint64) error {
		if op == "handle" || op == "store" {
			in <- struct{}{}
			<-release
		}
		return nil
	})
	type result struct {
		err    error
		status structs.QueryStatus
	}
	results := make(chan result, 2)
	conn, err := rpc.Dial(w.ctx(), "tcp", w.m.Addr().String(), rpc.ClientConfig{}) // w.end closes the other one
	require.NoError(t, err)
	defer conn.Close()
	client := structs.NewMasterProgMasterV2Client(conn)
	go func() {
		r, err := client.MasterQuery(w.ctx(), structs.QueryRequest{Text: "P:1"})
		results <- result{err, r.Status}
	}()
	go func() {
		r, err := client.MasterPut(w.ctx(), structs.PutRequest{Id: 2})
		results <- result{err, r.Status}
	}()
	<-in
	<-in
	ended := make(chan struct{})
	go func() { defer close(ended); w.end() }()
	require.Eventually(t, func() bool {
		late, err := net.Dial("tcp", w.m.Addr().String())
		if err == nil {
			late.Close()
		}
		return err != nil
	}, patience, time.Millisecond, "the end has begun: nobody new is let in")
	select {
	case <-ended:
		require.Fail(t, "ended with calls in flight")
	default:
	}
	close(release) // who was cut off before has an error below
	for range 2 {
		require.Equal(t, result{nil, structs.QUERY_OK}, <-results)
	}
	<-ended
}
