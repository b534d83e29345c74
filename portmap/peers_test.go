package portmap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// peerTimeout bounds one C program, and the wait for one event.
const peerTimeout = 30 * time.Second

// peers are the compiled C programs.
type peers struct{ server, client, register string }

func buildPeers(t *testing.T) peers {
	t.Helper()
	cpeer.Require(t, "rpcgen", "gcc", "libtirpc", "rpcinfo")
	dir := t.TempDir()
	const x = "testdata/c/peer.x"
	stubs := cpeer.Rpcgen(t, dir, x, "-C")
	main := cpeer.ServerMain(t, stubs, x, []string{"tcp", "udp"}, "-C")
	c := func(name string) string { return filepath.Join("testdata", "c", name) }
	abs := func(path string) string {
		p, err := filepath.Abs(path)
		require.NoError(t, err)
		return p
	}
	return peers{
		server:   cpeer.Compile(t, dir, "server", []string{main, abs(c("server.c"))}, "-w"),
		client:   cpeer.Compile(t, dir, "client", []string{stubs.Client, abs(c("client.c"))}, "-w"),
		register: cpeer.Compile(t, dir, "register", []string{abs(c("register.c"))}, "-Wall"),
	}
}

// start runs a portmapper until stop, or the test's end.
func start(t *testing.T, cfg Config) (s *Server, stop func()) {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case err := <-done:
		cancel()
		once.Do(func() {})
		require.NoError(t, err)
	}
	return s, stop
}

// run is what a program writes; it must succeed.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := tryRun(cmd)
	require.NoError(t, err, "%s\n%s", cmd, out)
	return out
}

func tryRun(cmd *exec.Cmd) (string, error) {
	timer := time.AfterFunc(peerTimeout, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func rpcinfo(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, exec.Command(cpeer.Tool(t, "rpcinfo"), args...))
}

// startServer runs the C server and waits until it is registered in all
// versions and over both transports.
func startServer(t *testing.T, p peers) *cpeer.Process {
	t.Helper()
	proc := cpeer.Start(t, exec.Command(p.server))
	eventually(t, func() error {
		c, err := Local(context.Background())
		if err != nil {
			return err
		}
		defer c.Close()
		list, err := c.Dump(context.Background())
		n := strings.Count(fmt.Sprint(list), fmt.Sprintf("{%d ", 0x20000099))
		if err == nil && n != 4 {
			err = fmt.Errorf("%d of 4 registrations: %v", n, list)
		}
		return err
	})
	return proc
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(peerTimeout)
	for {
		err := ask()
		if err == nil {
			return
		}
		require.False(t, time.Now().After(deadline), "still: %v", err)
		time.Sleep(10 * time.Millisecond) // another process is waited for
	}
}

const rpcinfoP = `   program vers proto   port  service
    100000    4   tcp    111  portmapper
    100000    3   tcp    111  portmapper
    100000    2   tcp    111  portmapper
    100000    4   udp    111  portmapper
    100000    3   udp    111  portmapper
    100000    2   udp    111  portmapper
`

const rpcinfoPlain = `   program version netid     address                service    owner
    100000    4    tcp6      ::.0.111               portmapper superuser
    100000    3    tcp6      ::.0.111               portmapper superuser
    100000    4    udp6      ::.0.111               portmapper superuser
    100000    3    udp6      ::.0.111               portmapper superuser
    100000    4    tcp       0.0.0.0.0.111          portmapper superuser
    100000    3    tcp       0.0.0.0.0.111          portmapper superuser
    100000    2    tcp       0.0.0.0.0.111          portmapper superuser
    100000    4    udp       0.0.0.0.0.111          portmapper superuser
    100000    3    udp       0.0.0.0.0.111          portmapper superuser
    100000    2    udp       0.0.0.0.0.111          portmapper superuser
    100000    4    local     /run/rpcbind.sock      portmapper superuser
    100000    3    local     /run/rpcbind.sock      portmapper superuser
`

func TestRealPeers(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	p := buildPeers(t)
	start(t, Config{SocketPath: DefaultSocket})

	t.Run("rpcinfo", func(t *testing.T) {
		require.Equal(t, rpcinfoP, rpcinfo(t, "-p"))
		require.Equal(t, rpcinfoP, rpcinfo(t, "-p", "127.0.0.1"))
		require.Equal(t, rpcinfoPlain, rpcinfo(t))
		for _, args := range [][]string{
			{"-T", "tcp", "127.0.0.1", "100000", "4"},
			{"-T", "tcp", "127.0.0.3", "100000", "3"},
			{"-T", "udp", "127.0.0.3", "100000", "2"},
			{"-T", "local", "localhost", "100000", "4"},
			{"-t", "127.0.0.1", "100000", "4"},
			{"-u", "127.0.0.1", "100000", "4"},
			{"-a", "127.0.0.1.0.111", "-T", "tcp", "100000", "4"},
		} {
			require.Contains(t, rpcinfo(t, args...), "ready and waiting", "%v", args)
		}
		require.Equal(t, 3, strings.Count(rpcinfo(t, "-T", "tcp", "127.0.0.1", "100000"), "ready and waiting"))
		require.Contains(t, rpcinfo(t, "-l", "127.0.0.1", "100000", "4"), "127.0.0.1.0.111")
	})

	server := startServer(t, p)
	t.Run("ServerIsFound", func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "127.0.0.3", "localhost"} {
			for _, nettype := range []string{"tcp", "udp", "netpath", "visible"} {
				for _, vers := range []string{"1", "3"} {
					require.Equal(t, "hello\n", run(t, exec.Command(p.client, host, nettype, vers, "hello")), "%s %s", host, nettype)
				}
			}
		}
		require.Contains(t, rpcinfo(t, "-T", "tcp", "127.0.0.1", "536871065", "1"), "ready and waiting")
		require.Contains(t, rpcinfo(t, "-p"), "536871065    3   udp")
	})
	t.Run("OtherVersionLearnsWhichThereAre", func(t *testing.T) {
		out, err := tryRun(exec.Command(cpeer.Tool(t, "rpcinfo"), "-T", "tcp", "127.0.0.1", "536871065", "2"))
		require.Error(t, err)
		require.Contains(t, out, "low version = 1, high version = 3")
	})
	t.Run("GoClientFindsTheServer", func(t *testing.T) {
		for _, network := range []string{"tcp", "udp"} {
			c, err := Dial(context.Background(), network, "127.0.0.3", 0x20000099, 1, rpc.ClientConfig{})
			require.NoError(t, err)
			require.NoError(t, c.Call(context.Background(), 0x20000099, 1, 0, nil, nil))
			require.Equal(t, "127.0.0.3", addrOf(c.RemoteAddr()).String())
			require.NoError(t, c.Close())
		}
		_, err := Dial(context.Background(), "tcp", "127.0.0.1", 0x20000098, 7, rpc.ClientConfig{})
		require.ErrorIs(t, err, ErrNotRegistered)
		require.ErrorContains(t, err, "program 0x20000098 version 7 is not registered with the portmapper at 127.0.0.1:111; is the server running?")
	})
	t.Run("ServerThatStartsAgain", func(t *testing.T) {
		require.NoError(t, server.Signal(syscall.SIGKILL))
		_ = server.Wait(t, peerTimeout)
		startServer(t, p)
		eventually(t, func() error {
			out, err := tryRun(exec.Command(p.client, "127.0.0.1", "tcp", "3", "again"))
			if err == nil && out != "again\n" {
				err = fmt.Errorf("%q", out)
			}
			return err
		})
	})
	t.Run("OldCalls", func(t *testing.T) {
		require.Equal(t, "1\n", run(t, exec.Command(p.register, "pmapset", "0x20000777", "1", "4242")))
		require.Equal(t, "4242\n", run(t, exec.Command(p.register, "getport", "0x20000777", "1")))
		require.Equal(t, "1\n", run(t, exec.Command(p.register, "pmapunset", "0x20000777", "1")))
		require.Equal(t, "0\n", run(t, exec.Command(p.register, "getport", "0x20000777", "1")))
	})
	t.Run("Owners", func(t *testing.T) { testOwners(t, p) })
}

// testOwners registers and removes as several users over the unix socket.
func testOwners(t *testing.T, p peers) {
	as := func(uid uint32, args ...string) string {
		t.Helper()
		cmd := exec.Command(p.register, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return strings.TrimSpace(run(t, cmd))
	}
	owner := func(prog uint32) string {
		t.Helper()
		c, err := Local(context.Background())
		require.NoError(t, err)
		defer c.Close()
		list, err := c.Dump(context.Background())
		require.NoError(t, err)
		for _, r := range list {
			if r.Prog == prog {
				return r.Owner
			}
		}
		return "not registered"
	}
	// The C programs live in a directory of root's.
	for dir := filepath.Dir(p.register); dir != "/"; dir = filepath.Dir(dir) {
		_ = exec.Command("chmod", "o+x", dir).Run()
	}
	require.Equal(t, "1", as(0, "set", "0x20000001", "1", "2001"))
	require.Equal(t, "1", as(65534, "set", "0x20000002", "1", "2002"))
	require.Equal(t, "superuser", owner(0x20000001))
	require.Equal(t, "65534", owner(0x20000002))
	require.Equal(t, "0", as(65534, "unset", "0x20000001", "1"), "a stranger's UNSET")
	require.Equal(t, "0", as(65533, "unset", "0x20000002", "1"), "another stranger's UNSET")
	require.Equal(t, "superuser", owner(0x20000001))
	require.Equal(t, "65534", owner(0x20000002))
	require.Equal(t, "0", as(65534, "set", "0x20000001", "1", "2003"), "another address for root's")
	require.Equal(t, "1", as(65534, "unset", "0x20000002", "1"))
	require.Equal(t, "not registered", owner(0x20000002))
	require.Equal(t, "1", as(0, "unset", "0x20000001", "1"))
	require.Equal(t, "1", as(65534, "unset", "0x20000001", "1"), "nothing to remove")
}

// Without the socket, libtirpc registers over TCP to ::1 and nowhere else.
func TestCServerRegistersWithoutTheSocket(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	p := buildPeers(t)
	start(t, Config{})
	startServer(t, p)
	require.Equal(t, "hello\n", run(t, exec.Command(p.client, "127.0.0.1", "tcp", "1", "hello")))
	require.Contains(t, rpcinfo(t, "-T", "udp", "127.0.0.1", "536871065", "3"), "ready and waiting")
}

// A reply over UDP comes from the address that was asked: a connected socket
// takes no other.
func TestUDPRepliesFromTheAddressAsked(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	start(t, Config{})
	for _, host := range []string{"127.0.0.1", "127.0.0.3", "127.1.2.3", "::1"} {
		conn, err := net.Dial("udp", net.JoinHostPort(host, "111"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(replyTimeout)))
		_, err = conn.Write(request(PMAP_PROG, RPCBVERS4, 0))
		require.NoError(t, err)
		readReply(t, conn, "udp")
	}
	// GETADDR names that address too.
	c, err := Connect(context.Background(), "udp", "127.0.0.3:111", rpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	uaddr, err := c.GetAddr(context.Background(), PMAP_PROG, 4, "udp")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.3.0.111", uaddr)
}

// From another host the portmapper answers where --listen opened it, and
// changes are AUTH_TOOWEAK.
func TestOtherHosts(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	far := netns.NewHost(t, "far")
	netns.Link(t, nil, "10.7.0.1/24", far, "10.7.0.2/24")
	ctx := context.Background()
	from := func(network string, f func(c *Client)) error {
		var c *Client
		err := far.Do(func() error {
			conn, err := net.DialTimeout(network, "10.7.0.1:111", peerTimeout)
			if err != nil {
				return err
			}
			c = &Client{rpc: rpc.NewClient(conn, rpc.ClientConfig{}), addr: "10.7.0.1:111", ip: netip.MustParseAddr("10.7.0.1")}
			c.vers.Store(RPCBVERS4)
			return nil
		})
		if err == nil {
			defer c.Close()
			f(c)
		}
		return err
	}
	_, stop := start(t, Config{})
	require.ErrorIs(t, from("tcp", func(*Client) {}), syscall.ECONNREFUSED, "loopback only")
	stop()

	for _, listen := range []string{"10.7.0.1", "0.0.0.0"} {
		t.Run(listen, func(t *testing.T) {
			_, stop := start(t, Config{Listen: []netip.Addr{netip.MustParseAddr(listen)}})
			defer stop()
			for _, network := range []string{"tcp", "udp"} {
				require.NoError(t, from(network, func(c *Client) {
					require.ErrorIs(t, c.Set(ctx, Registration{Prog: 7, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.8.1"}), rpc.AuthError(rpc.AUTH_TOOWEAK))
					require.ErrorIs(t, c.Unset(ctx, 7, 1, ""), rpc.AuthError(rpc.AUTH_TOOWEAK))
					c.vers.Store(PMAP_VERS)
					require.ErrorIs(t, c.Set(ctx, Registration{Prog: 7, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.8.1"}), rpc.AuthError(rpc.AUTH_TOOWEAK))
					c.vers.Store(RPCBVERS4)
					uaddr, err := c.GetAddr(ctx, PMAP_PROG, 4, network)
					require.NoError(t, err)
					require.Equal(t, "10.7.0.1.0.111", uaddr)
				}))
			}
			for _, local := range []string{"127.0.0.1:111", "127.0.0.3:111", "10.7.0.1:111"} {
				c, err := Connect(ctx, "tcp", local, rpc.ClientConfig{})
				require.NoError(t, err, local)
				require.NoError(t, c.Null(ctx), local)
				require.NoError(t, c.Close())
			}
		})
	}
}
