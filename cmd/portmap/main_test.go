package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
)

// output is a writer that tells when a line with text has come.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	text string
	seen chan struct{}
}

func waitFor(text string) *output { return &output{text: text, seen: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := strings.Contains(o.buf.String(), o.text)
	o.buf.Write(b)
	if !had && strings.Contains(o.buf.String(), o.text) {
		close(o.seen)
	}
	return len(b), nil
}

func TestServesUntilItIsTold(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	require.NoError(t, ln.Close())
	socket := filepath.Join(t.TempDir(), "rpcbind.sock")
	args := []string{"--port", port, "--socket", socket, "--listen", "127.0.0.1", "-d"}

	ctx, cancel := context.WithCancel(context.Background())
	stdout, stderr := waitFor("portmap on port "+port+"\nready\n"), waitFor("")
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, stdout, stderr) }()
	select {
	case <-stdout.seen:
	case c := <-code:
		t.Fatalf("ended with %d: %s", c, stderr.buf.String())
	case <-time.After(30 * time.Second):
		t.Fatal("not ready")
	}
	c, err := portmap.Connect(ctx, "unix", socket, rpc.ClientConfig{})
	require.NoError(t, err)
	require.NoError(t, c.Null(ctx))
	require.NoError(t, c.Close())

	// A second one on the same port says who is in the way.
	var second bytes.Buffer
	require.Equal(t, 1, run(ctx, args, &second, &second))
	require.Contains(t, second.String(), "another portmapper runs")

	cancel()
	require.Equal(t, 0, <-code)
	require.NoFileExists(t, socket)
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"Help", []string{"--help"}, 0, "sudo portmap --listen 0.0.0.0"},
		{"Version", []string{"version"}, 0, "portmap dev go"},
		{"BadFlag", []string{"--nonsense"}, 2, "see 'portmap --help'"},
		{"Argument", []string{"nonsense"}, 2, "nonsense"},
		{"BadPort", []string{"--port", "70000"}, 2, "a port is 1 to 65535"},
		{"BadAddress", []string{"--listen", "everywhere"}, 2, `--listen "everywhere": an IP address is wanted`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.code, run(context.Background(), c.args, &out, &out), out.String())
			require.Contains(t, out.String(), c.want)
		})
	}
}
