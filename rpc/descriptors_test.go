//go:build linux

package rpc

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const descriptorsEnv = "STARFISH_TEST_DESCRIPTORS"

// TestDescriptors: a server that is out of file descriptors does not spin, serves
// the connections that are in use, and makes room for new ones out of the idle.
func TestDescriptors(t *testing.T) {
	if os.Getenv(descriptorsEnv) != "" {
		serveFewDescriptors(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptors$", "-test.v")
	cmd.Env = append(os.Environ(), descriptorsEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	next := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the server said no %q", prefix)
		return ""
	}
	addr := next("addr ")
	busy := dialRaw(t, "tcp", addr)
	send(t, busy, record(message(1, procBlock)))
	for range 100 { // more than there is room for
		conn := dialRaw(t, "tcp", addr)
		stillServed(t, conn)
	}
	_, err = io.WriteString(in, "release\n")
	require.NoError(t, err)
	require.EqualValues(t, 1, xidOf(readReplyBytes(t, busy)), "a call in flight keeps its connection")
	var fails int
	_, err = fmt.Sscan(next("fails "), &fails)
	require.NoError(t, err)
	require.Positive(t, fails, "descriptors did run out")
	require.LessOrEqual(t, fails, 200)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

// acceptFailures counts the log's lines of that.
type acceptFailures struct{ n atomic.Int64 }

func (a *acceptFailures) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "accept failed") {
		a.n.Add(1)
	}
	return len(p), nil
}

// serveFewDescriptors is the server, in a process of its own.
func serveFewDescriptors(t *testing.T) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	limit := uint64(len(fds) + 20)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}))
	var failures acceptFailures
	s := newTestServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&failures, nil))})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.run(t, func() error { return s.Serve(l) })
	fmt.Println("addr", l.Addr())
	<-s.h.entered
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	s.h.release <- struct{}{}
	fmt.Println("fails", failures.n.Load())
	_, _ = io.ReadAll(os.Stdin) // until the other side has its reply
}
