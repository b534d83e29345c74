package slave

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/structs"
)

const stranger = "127.0.0.99"

// TestForgedListDialsNobody: a list that names a stranger makes nobody dial it;
// with --allow-machine the same list does.
func TestForgedListDialsNobody(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   Config
		dials int64
	}{
		{"member of a cluster", Config{Addr: a}, 0},
		{"without a master", Config{Addr: a, Master: "-"}, 0},
		{"other machines allowed", Config{Addr: a, AllowMachine: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, 0},
		{"allowed", Config{Addr: a, AllowMachine: []netip.Prefix{netip.MustParsePrefix("127.0.0.99/32")}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t)
			f.member(a, 2)
			f.start(tt.cfg)
			f.put(a, 1, 1)
			accepted := f.hang(stranger)
			l := list(item{a, 1}, item{stranger, 1}, item{a, 1})
			r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: l})
			require.NoError(t, err)
			require.Equal(t, structs.QueryReturnValue{FailedMachine: stranger}, r)
			if tt.dials > 0 {
				require.Positive(t, accepted.Load())
				return
			}
			r2, err := f.v2(a).HandleQuery(t.Context(), structs.HandleQuery2Args{List: l})
			require.NoError(t, err)
			require.Equal(t, structs.QUERY_FAILED, r2.Status)
			require.Equal(t, machineNames(stranger), r2.Failure.FailedMachines)
			co, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l, list(item{a, 1})}})
			require.NoError(t, err)
			require.Equal(t, machineNames(stranger), co.FailedMachines)
			require.Zero(t, accepted.Load())
			require.Zero(t, f.dialed(stranger))
		})
	}
}

func TestAllowedMachineWithoutMaster(t *testing.T) {
	f := newFleet(t)
	f.start(Config{Addr: a, Master: "-", AllowMachine: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")}})
	f.start(Config{Addr: b, Master: "-"})
	f.put(a, 1, 1)
	f.put(b, 2, 2)
	h := f.handler(c, 1, map[structs.VecT]structs.VecT{3: bits(3)})
	l := list(item{b, 2}, item{c, 3}, item{a, 1})
	for range 2 {
		co, err := f.v1(a).Coordinate(t.Context(), structs.CoordinateArgs{Ranges: []structs.MachineVecList{l}})
		require.NoError(t, err)
		require.Equal(t, structs.CoordinateReturnValue{Vector: bits(1, 2, 3)}, co)
	}
	require.Equal(t, []int{1, 1}, h.lists())
}

// TestNewMemberIsAskedFor: a list that names a machine which joined later makes
// the slave ask for the members again.
func TestNewMemberIsAskedFor(t *testing.T) {
	f := newFleet(t)
	f.member(a, 2)
	f.start(Config{Addr: a, HopTimeout: plenty})
	f.member(b, 2)
	f.start(Config{Addr: b})
	f.put(b, 1, 1)
	before := f.joins.Load()
	r, err := f.v1(a).HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{b, 1})})
	require.NoError(t, err)
	require.Equal(t, structs.QueryReturnValue{Vector: bits(1)}, r)
	require.Equal(t, before+1, f.joins.Load())
}

// TestRefreshesAreShared: many who want the list of machines at one time do not
// each ask the master for it, and they do not ask without a pause.
func TestRefreshesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var joins []time.Time
		near, far := net.Pipe()
		srv := rpc.NewServer(quiet())
		structs.RegisterMasterProgMasterV2(srv, joinCounter{at: &joins})
		l := &oneConn{conn: far, closed: make(chan struct{})}
		done := make(chan struct{})
		go func() { defer close(done); srv.Serve(l) }()
		c := newCluster(Config{Addr: a, Master: "m", HopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
			DialMaster: func(context.Context, string) (*rpc.Client, error) {
				return rpc.NewClient(near, rpc.ClientConfig{}), nil
			}}, 1)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 5 {
					c.refresh(t.Context())
				}
			})
		}
		wg.Wait()
		require.GreaterOrEqual(t, len(joins), 5, "each of the five got a new list")
		require.LessOrEqual(t, len(joins), 10, "of 100 that wanted one")
		for i, at := range joins[1:] {
			require.GreaterOrEqual(t, at.Sub(joins[i]), refreshInterval)
		}
		c.hangUp()
		srv.Close()
		<-done
	})
}

// joinCounter is a master that notes when it is joined.
type joinCounter struct {
	structs.MasterProgMasterV2Handler
	at *[]time.Time // one caller at a time
}

func (j joinCounter) MasterJoin(context.Context, structs.JoinRequest) (structs.JoinResponse, error) {
	*j.at = append(*j.at, time.Now())
	return structs.JoinResponse{}, nil
}

// oneConn is a listener of one connection.
type oneConn struct {
	once   sync.Once
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func TestJoinsAgainAfterTheMasterWasAway(t *testing.T) {
	f := newFleet(t, a)
	s := f.slaves[a]
	conn := s.cluster.conn // the test's own refreshes alone use it
	require.NotNil(t, conn)
	conn.Close()
	before := f.joins.Load()
	s.cluster.refresh(t.Context())
	require.Equal(t, before+1, f.joins.Load())
}

func TestRefusedJoin(t *testing.T) {
	f := newFleet(t)
	c := newCluster(Config{Addr: a, Master: "m", HopTimeout: testHop, Logger: slog.New(slog.DiscardHandler),
		DialMaster: func(ctx context.Context, _ string) (*rpc.Client, error) {
			return rpc.Dial(ctx, "tcp", f.master, rpc.ClientConfig{})
		}}, 1)
	require.NoError(t, c.join(t.Context(), time.Now()))
	require.True(t, c.isMaster(f.told.Load().Secret), "who was joined has the secret")
	require.False(t, c.isMaster(structs.JoinSecret{}), "and nobody else")
	other := newCluster(Config{Addr: a, Master: "m", Logger: c.log}, 1)
	require.NotEqual(t, c.secret, other.secret, "drawn anew for each start")
	require.False(t, newCluster(Config{Addr: a, Logger: c.log}, 1).isMaster(structs.JoinSecret{}), "without a master")
	c.hangUp()
	srv := rpc.NewServer(quiet())
	structs.RegisterMasterProgMasterV2(srv, refusingMaster{})
	f.master = f.listen("127.0.0.1:0", srv)
	require.ErrorContains(t, c.join(t.Context(), time.Now()), "QUERY_DENIED): not you")
	c.hangUp()
}

type refusingMaster struct {
	structs.MasterProgMasterV2Handler
}

func (refusingMaster) MasterJoin(context.Context, structs.JoinRequest) (structs.JoinResponse, error) {
	return structs.JoinResponse{Status: structs.QUERY_DENIED, Failure: structs.QueryFailure{Message: "not you"}}, nil
}

func TestOwnAddresses(t *testing.T) {
	f := newFleet(t)
	f.member("localhost", 2) // an alias that was joined, too
	f.start(Config{Addr: "127.0.0.1"})
	f.put("127.0.0.1", 1, 1)
	for _, name := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		r, err := f.v1("127.0.0.1").HandleQuery(t.Context(), structs.HandleQueryArgs{List: list(item{name, 1})})
		require.NoError(t, err)
		require.Equal(t, structs.QueryReturnValue{Vector: bits(1)}, r, name)
	}
	require.Zero(t, f.dialed("localhost"))
}

// TestMembersByAnyName: what counts is the address.
func TestMembersByAnyName(t *testing.T) {
	f := newFleet(t)
	f.member(a, 2)
	f.member("localhost", 2)
	f.member("127.0.0.3", 2)
	f.start(Config{Addr: a})
	s := f.slaves[a]
	for machine, want := range map[string]target{
		"localhost":        {dial: "localhost"},
		"LOCALHOST":        {dial: "LOCALHOST"},
		"127.0.0.1":        {dial: "localhost"},
		"127.0.0.3":        {dial: "127.0.0.3"},
		"::ffff:127.0.0.3": {dial: "::ffff:127.0.0.3"},
		"127.0.0.4":        {outsider: true},
		"no.such.invalid":  {outsider: true},
		a:                  {own: true},
	} {
		got, err := s.target(t.Context(), machine)
		require.NoError(t, err)
		require.Equal(t, want, got, machine)
	}
}

func TestConfig(t *testing.T) {
	require.NoError(t, Config{Data: "d"}.Check())
	for want, cfg := range map[string]Config{
		"no data directory":          {},
		"port 70000":                 {Data: "d", Port: 70000},
		"has a port":                 {Data: "d", Addr: "10.0.0.1:20490"},
		"no address that others can": {Data: "d", Addr: "0.0.0.0"},
		"neither a host name nor":    {Data: "d", Addr: "a b"},
		"224.0.0.1 is no address":    {Data: "d", Addr: "224.0.0.1"},
		`"[::1]" is neither`:         {Data: "d", Addr: "[::1]"},
		`the master "[fd00::1]" is`:  {Data: "d", Master: "[fd00::1]"},
		"negative":                   {Data: "d", HopTimeout: -1},
	} {
		require.ErrorContains(t, cfg.Check(), want)
	}
	err := Config{Port: -7, Addr: "::"}.Check()
	require.ErrorContains(t, err, "port -7")
	require.ErrorContains(t, err, "data directory", "all faults at once")
}

func TestMasterTakesNoPort(t *testing.T) {
	err := Config{Data: "d", Master: "10.0.0.5:20480"}.Check()
	require.EqualError(t, err, `slave: the master "10.0.0.5:20480" has a port: leave it away, its portmapper knows it`)
	require.NoError(t, Config{Data: "d", Master: "::1"}.Check())
}
