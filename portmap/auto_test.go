package portmap

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

const lookOften = 10 * time.Millisecond

// Two processes of one host: the second uses the portmapper of the first, and
// serves, with what was registered, when the first is gone.
func TestAutoTakesOver(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	ctx := context.Background()
	first, stopFirst := runAutoUntil(t, AutoConfig{Interval: lookOften})
	require.Equal(t, Status{Port: 111, Own: true}, first.Status())
	reg := Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}
	c, err := Local(ctx)
	require.NoError(t, err)
	require.Equal(t, DefaultSocket, c.Addr())
	require.NoError(t, c.Set(ctx, reg))
	require.NoError(t, c.Close())

	changes := make(chan Status, 10)
	_, stopSecond := runAutoUntil(t, AutoConfig{Interval: lookOften, Changed: func(s Status) { changes <- s }})
	require.Equal(t, Status{Port: 111}, <-changes)
	stopFirst()
	require.Equal(t, Status{Port: 111, Own: true}, <-changes)
	c, err = Local(ctx)
	require.NoError(t, err)
	require.Equal(t, DefaultSocket, c.Addr())
	list, err := c.Dump(ctx)
	require.NoError(t, err)
	reg.Owner = ownerSuperuser
	require.Contains(t, list, reg)
	require.NoError(t, c.Close())
	stopSecond()
	_, err = Local(ctx)
	require.ErrorIs(t, err, ErrNoPortmapper)
	require.NoFileExists(t, DefaultSocket)
}

// Something that is no portmapper has port 111: ours serves 10111, says so, and
// moves to 111 when that is free.
func TestAutoFallsBack(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	ctx := context.Background()
	ln, err := net.Listen("tcp", "0.0.0.0:111")
	require.NoError(t, err)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	changes := make(chan Status, 10)
	runAuto(t, AutoConfig{Interval: lookOften, Changed: func(s Status) { changes <- s }})
	status := <-changes
	require.Equal(t, FallbackPort, status.Port)
	require.True(t, status.Own)
	require.Contains(t, status.Message, "address already in use")
	require.Contains(t, status.Message, "C clients (clnt_create) need port 111")
	c, err := target{"tcp", "127.0.0.1:10111"}.connect(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Set(ctx, Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.80.0"}))
	require.NoError(t, c.Close())

	require.NoError(t, ln.Close())
	<-closed
	require.Equal(t, Status{Port: 111, Own: true}, <-changes)
	addr, err := Lookup(ctx, "tcp", "127.0.0.4", testProg, 1)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.4:20480", addr, "moved with its registrations")
	c, err = Local(ctx)
	require.NoError(t, err)
	require.Equal(t, DefaultSocket, c.Addr())
	require.NoError(t, c.Close())
}

// unprivilegedEnv makes TestAutoAsNobody the process without privileges.
const unprivilegedEnv = "STARFISH_TEST_NOBODY"

// A user without the right to bind 111 gets 10111, and is told what to do; our
// own clients find it.
func TestAutoWithoutPrivileges(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAutoAsNobody$", "-test.v")
	cmd.Env = append(os.Environ(), unprivilegedEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := cpeer.Start(t, cmd)
	p.WaitFor(t, "status: ", peerTimeout)
	require.Contains(t, p.Output(), "portmapper on port 10111 (own): no right to bind port 111; C clients (clnt_create) need port 111")
	require.Contains(t, p.Output(), "setcap cap_net_bind_service=+ep")

	ctx := context.Background()
	server, stop := serveNull(t)
	defer stop()
	c, err := Local(ctx)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:10111", c.Addr())
	require.NoError(t, c.Set(ctx, Registration{Prog: testProg, Vers: 1, Netid: "tcp", Addr: WildcardUaddr("tcp", server)}))
	require.NoError(t, c.Set(ctx, Registration{Prog: testProg, Vers: 1, Netid: "udp", Addr: WildcardUaddr("udp", server)}))
	require.NoError(t, c.Close())
	for _, network := range []string{"tcp", "udp"} {
		client, err := Dial(ctx, network, "127.0.0.2", testProg, 1, rpc.ClientConfig{})
		require.NoError(t, err)
		require.NoError(t, client.Call(ctx, testProg, 1, 0, nil, nil))
		require.NoError(t, client.Close())
	}
	_, err = Dial(ctx, "tcp", "127.0.0.2", testProg+1, 1, rpc.ClientConfig{})
	require.ErrorContains(t, err, "not registered with the portmapper at 127.0.0.2:10111")

	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.NoError(t, p.Wait(t, peerTimeout))
}

// TestAutoAsNobody is the other process of TestAutoWithoutPrivileges.
func TestAutoAsNobody(t *testing.T) {
	if os.Getenv(unprivilegedEnv) == "" {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	a := runAuto(t, AutoConfig{Interval: lookOften})
	os.Stdout.WriteString("status: " + strings.ReplaceAll(a.Status().String(), "\n", " ") + "\n")
	<-ended
}

func TestStatusString(t *testing.T) {
	require.Equal(t, "portmapper on port 111 (own)", Status{Port: 111, Own: true}.String())
	require.Equal(t, "portmapper on port 111 (in use, of another process)", Status{Port: 111}.String())
	require.Equal(t, "no portmapper: why", Status{Message: "why"}.String())
}
