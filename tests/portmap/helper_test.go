package portmap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// timeout bounds one program and the wait for one event.
const timeout = 30 * time.Second

// builtEnv hands the directory of the built programs to a test's child.
const builtEnv = "STARFISH_TEST_BUILT"

var (
	buildOnce sync.Once
	builtDir  string
)

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(builtEnv) != "" && builtDir != "" { // ours, not our parent's
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// enter builds what tests need, once, and runs the test in namespaces of its
// own; it is true there.
func enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(builtEnv) == "" {
		cpeer.Require(t, "gcc", "rpcgen", "libtirpc", "rpcinfo", "rpcbind")
		buildOnce.Do(func() { builtDir = build(t) })
		require.NotEmpty(t, builtDir, "the programs were not built")
		require.NoError(t, os.Setenv(builtEnv, builtDir))
	}
	return netns.Enter(t)
}

// build makes the portmapper and the C programs in a directory that every user
// may read.
func build(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "portmap")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "portmap"), "starfish/cmd/portmap")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	source := func(name string) string {
		path, err := filepath.Abs(filepath.Join("testdata", name))
		require.NoError(t, err)
		return path
	}
	cpeer.Compile(t, dir, "server", []string{source("server.c")}, "-Wall")
	cpeer.Compile(t, dir, "client", []string{source("client.c")}, "-Wall")
	for name, flags := range map[string][]string{"peer": {"-C"}, "peern": {"-N", "-C"}} {
		stubs := cpeer.Rpcgen(t, dir, source(name+".x"), flags...)
		main := cpeer.ServerMain(t, stubs, source(name+".x"), []string{"tcp", "udp"}, flags...)
		sources := []string{main, source(name + ".c")}
		if stubs.XDR != "" {
			sources = append(sources, stubs.XDR)
		}
		cpeer.Compile(t, dir, name, sources, "-w")
	}
	return dir
}

// program is the path of what build made.
func program(name string) string { return filepath.Join(os.Getenv(builtEnv), name) }

// startOurs runs bin/portmap until the test ends, and returns when it is ready.
func startOurs(t testing.TB, args ...string) *cpeer.Process {
	t.Helper()
	p := cpeer.Start(t, exec.Command(program("portmap"), args...))
	p.WaitFor(t, "portmap ready on port", timeout)
	return p
}

// startRpcbind runs Debian's rpcbind until the test ends.
func startRpcbind(t testing.TB, args ...string) *cpeer.Process {
	t.Helper()
	require.NoError(t, os.MkdirAll("/run/rpcbind", 0o755))
	require.NoError(t, exec.Command("chown", "_rpc", "/run/rpcbind").Run())
	p := cpeer.Start(t, exec.Command(cpeer.Tool(t, "rpcbind"), append([]string{"-f"}, args...)...))
	eventually(t, answers)
	return p
}

// answers calls NULL over the unix socket.
func answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := portmap.Connect(ctx, "unix", portmap.DefaultSocket, rpc.ClientConfig{})
	if err == nil {
		defer c.Close()
		err = c.Null(ctx)
	}
	return err
}

// stop ends a program by SIGTERM.
func stop(t testing.TB, p *cpeer.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	_ = p.Wait(t, timeout) // C programs end by the signal
}

// eventually asks until there is no error any more: another process is waited
// for.
func eventually(t testing.TB, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := ask()
		if err == nil {
			return
		}
		require.False(t, time.Now().After(deadline), "still: %v", err)
		time.Sleep(5 * time.Millisecond)
	}
}

// result is what a program wrote, and its exit code where it is not 0.
func result(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Sprintf("%sexit code %d\n", out, exit.ExitCode())
	case err != nil:
		return err.Error()
	}
	return string(out)
}

// rpcinfo is what rpcinfo writes.
func rpcinfo(t testing.TB, args ...string) string {
	t.Helper()
	return result(cpeer.Tool(t, "rpcinfo"), args...)
}

// client is what client.c writes.
func client(how, host, prog, vers string) string {
	return strings.TrimSpace(result(program("client"), how, host, prog, vers))
}

// registered lists the registrations of a program.
func registered(t testing.TB, prog uint32) []portmap.Registration {
	t.Helper()
	list, err := dump()
	require.NoError(t, err)
	var found []portmap.Registration
	for _, r := range list {
		if r.Prog == prog {
			found = append(found, r)
		}
	}
	return found
}

func dump() ([]portmap.Registration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := portmap.Connect(ctx, "unix", portmap.DefaultSocket, rpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Dump(ctx)
}

// waitRegistered waits until a program has n registrations.
func waitRegistered(t testing.TB, prog uint32, n int) {
	t.Helper()
	eventually(t, func() error {
		if got := registered(t, prog); len(got) != n {
			return fmt.Errorf("%d of %d registrations: %v", len(got), n, got)
		}
		return nil
	})
}
