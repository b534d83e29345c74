package portmap

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
)

// at connects to the portmapper s of this test.
func at(s *Server) func(context.Context) (*Client, error) {
	return func(ctx context.Context) (*Client, error) {
		return Connect(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())), rpc.ClientConfig{})
	}
}

// keep runs a Keeper until stop.
func keep(t *testing.T, cfg KeeperConfig) (k *Keeper, stop func()) {
	t.Helper()
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Millisecond
	}
	k = NewKeeper(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if !stopped {
			require.NoError(t, <-done)
			stopped = true
		}
	}
	t.Cleanup(stop)
	return k, stop
}

// knows asks s's own memory.
func knows(s *Server, r Registration) bool {
	got, ok := s.reg.lookup(r.Prog, r.Vers, r.Netid, true)
	return ok && got.Addr == r.Addr
}

func TestKeeperRegistersAgainAndLeaves(t *testing.T) {
	s, stopServer := start(t, Config{Port: -1})
	regs := []Registration{
		{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"},
		{Prog: testProg, Vers: 2, Netid: "udp", Addr: "0.0.0.0.80.0"},
	}
	k, stop := keep(t, KeeperConfig{Registrations: regs, Local: at(s),
		SiblingAnswers: func(_ context.Context, r Registration) bool { return r.Vers == 2 }})
	<-k.Ready()
	require.True(t, knows(s, regs[0]) && knows(s, regs[1]))

	// The portmapper forgets, as a new one on the same port would.
	require.True(t, s.reg.unset(testProg, 1, ownerSuperuser))
	require.Eventually(t, func() bool { return knows(s, regs[0]) }, peerTimeout, time.Millisecond)

	stop()
	require.False(t, knows(s, regs[0]), "unset on leaving")
	require.True(t, knows(s, regs[1]), "a sibling serves it")
	stopServer()
}

func TestKeeperReplacesTheDead(t *testing.T) {
	s, _ := start(t, Config{Port: -1})
	alive, stopAlive := serveNull(t)
	old := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", alive), Owner: ownerUnknown}
	require.True(t, s.reg.set(old, false))
	ours := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}
	rounds := make(chan struct{}, 1)
	local := at(s)
	k, _ := keep(t, KeeperConfig{Registrations: []Registration{ours}, Local: func(ctx context.Context) (*Client, error) {
		select {
		case rounds <- struct{}{}:
		default:
		}
		return local(ctx)
	}})
	for range 3 {
		<-rounds
		require.True(t, knows(s, old), "who answers keeps its place")
	}
	select {
	case <-k.Ready():
		t.Fatal("ready without being registered")
	default:
	}
	stopAlive()
	<-k.Ready()
	require.True(t, knows(s, ours))
}

// TestKeeperLeavesOthersAlone: who never got its place does not take it from the
// one that has it.
func TestKeeperLeavesOthersAlone(t *testing.T) {
	s, _ := start(t, Config{Port: -1})
	alive, _ := serveNull(t)
	theirs := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", alive), Owner: ownerUnknown}
	require.True(t, s.reg.set(theirs, false))
	rounds := make(chan struct{}, 1)
	local := at(s)
	_, stop := keep(t, KeeperConfig{
		Registrations: []Registration{{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}},
		Local: func(ctx context.Context) (*Client, error) {
			select {
			case rounds <- struct{}{}:
			default:
			}
			return local(ctx)
		},
	})
	<-rounds
	<-rounds
	stop()
	require.True(t, knows(s, theirs))
}

func TestAnswers(t *testing.T) {
	ctx := context.Background()
	port, stop := serveNull(t)
	reg := func(prog, vers uint32, netid string) Registration {
		return Registration{Prog: prog, Vers: vers, Netid: netid, Addr: WildcardUaddr(netid, port)}
	}
	require.True(t, Answers(ctx, reg(testProg, 1, "tcp")))
	require.True(t, Answers(ctx, reg(testProg, 1, "udp")))
	require.False(t, Answers(ctx, reg(testProg, 2, "tcp")), "another version")
	require.False(t, Answers(ctx, reg(testProg+1, 1, "tcp")), "another program took the port")
	require.False(t, Answers(ctx, Registration{Addr: "nonsense"}))
	stop()
	require.False(t, Answers(ctx, reg(testProg, 1, "tcp")))
	require.False(t, Answers(ctx, reg(testProg, 1, "udp")))

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	require.True(t, Answers(ctx, Registration{Prog: testProg, Vers: 1, Netid: "tcp",
		Addr: WildcardUaddr("tcp", uint16(silent.Addr().(*net.TCPAddr).Port))}), "slow is not gone")
}

func TestServerRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rpcbind.sock")
	s, stop := start(t, Config{Port: -1, SocketPath: path})
	ctx := context.Background()
	for _, tgt := range []target{{"unix", path}, {"tcp", "127.0.0.1:" + strconv.Itoa(s.Port())}, {"udp", "127.0.0.9:" + strconv.Itoa(s.Port())}} {
		c, err := firstOf(ctx, []target{{"unix", path + ".none"}, tgt})
		require.NoError(t, err)
		require.Equal(t, tgt.addr, c.Addr())
		require.NoError(t, c.Close())
	}
	second, err := New(Config{Port: s.Port()})
	require.NoError(t, err)
	require.ErrorContains(t, second.Run(ctx), "address already in use")
	third, err := New(Config{Port: -1, SocketPath: path})
	require.NoError(t, err)
	require.ErrorIs(t, third.Run(ctx), ErrInUse)
	stop()
	require.NoFileExists(t, path)

	_, err = New(Config{Port: 70000, Listen: make([]netip.Addr, 1)})
	require.ErrorContains(t, err, "70000")
	require.ErrorContains(t, err, "missing")

	// Where the socket cannot be, the rest serves.
	start(t, Config{Port: -1, SocketPath: filepath.Join(t.TempDir(), "none", "rpcbind.sock")})
}
