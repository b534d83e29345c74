//go:build linux

package cclient_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// wait bounds one run of a C program, under valgrind too.
const wait = 60 * time.Second

// outcome is what a program that ended left behind.
type outcome struct {
	stdout, stderr string
	code           int
}

// run starts a program on host h (nil: the test's own) and waits for its end.
func run(t *testing.T, h *netns.Host, name string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	cmd := h.Command(name, args...)
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	var stdout, stderr bytes.Buffer
	bounded.Stdout, bounded.Stderr = &stdout, &stderr
	err := bounded.Run()
	require.NoError(t, ctx.Err(), "%s did not end; it wrote %s%s", bounded, &stdout, &stderr)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{stdout.String(), stderr.String(), bounded.ProcessState.ExitCode()}
}

// answer is run for a program that must succeed; it returns what it printed.
func answer(t *testing.T, h *netns.Host, name string, args ...string) string {
	t.Helper()
	o := run(t, h, name, args...)
	require.Zero(t, o.code, "%s %q: %s%s", name, args, o.stdout, o.stderr)
	return o.stdout
}

// valgrind is run under valgrind, which must find neither a leak nor an error.
func valgrind(t *testing.T, h *netns.Host, name string, args ...string) outcome {
	t.Helper()
	tool := cpeer.Tool(t, "valgrind")
	o := run(t, h, tool, append([]string{"--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
		"--error-exitcode=99", name}, args...)...)
	require.NotEqual(t, 99, o.code, "%s", o.stderr)
	require.Contains(t, o.stderr, "ERROR SUMMARY: 0 errors")
	return o
}

// rpcbind starts Debian's portmapper on host h.
func rpcbind(t *testing.T, h *netns.Host) *cpeer.Process {
	t.Helper()
	cpeer.Require(t, "rpcbind", "rpcinfo")
	p := cpeer.Start(t, h.Command(cpeer.Tool(t, "rpcbind"), "-f"))
	for end := time.Now().Add(wait); ; {
		if run(t, h, cpeer.Tool(t, "rpcinfo"), "-p").code == 0 {
			return p
		}
		require.True(t, time.Now().Before(end), "rpcbind does not answer: %s", p.Output())
		time.Sleep(20 * time.Millisecond) // a poll of another process, bounded by wait
	}
}

// startCluster starts a master and three slaves on loopback and waits until they
// serve.
func startCluster(t *testing.T) {
	t.Helper()
	startClusterAt(t, "127.0.0.1", nil, cluster.Addr(0), cluster.Addr(1), cluster.Addr(2))
}

// startClusterAt is startCluster for a master that slaves reach at an address,
// with more flags, and slaves at addrs.
func startClusterAt(t *testing.T, master string, flags []string, addrs ...string) (slaves []*cluster.Process) {
	t.Helper()
	dir := t.TempDir()
	cluster.Start(t, "master", append([]string{"--data", filepath.Join(dir, "master")}, flags...)...)
	for _, addr := range addrs {
		slaves = append(slaves, cluster.Start(t, "slave",
			"--master", master, "--addr", addr, "--data", filepath.Join(dir, addr)))
	}
	awaitServing(t, len(addrs))
	return slaves
}

// awaitServing waits until the master says that n slaves serve.
func awaitServing(t *testing.T, n int) {
	t.Helper()
	cluster.AwaitStatus(t, "the slaves serve", func(st structs.ClusterStatus) bool {
		serving := 0
		for _, s := range st.Slaves {
			if s.State == structs.SLAVE_SERVING {
				serving++
			}
		}
		return serving == n
	})
}
