package portmap

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"starfish/rpc"
)

// answers calls NULL over the unix socket.
func answers(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	c, err := target{"unix", path}.connect(ctx)
	if err == nil {
		c.Close()
	}
	return err
}

// lines is a log whose lines are waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// await waits until a line has the text.
func (l lines) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(peerTimeout); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			require.FailNow(t, "not logged", text)
		}
	}
}

// The socket file comes back after somebody deleted it, once and again.
func TestSocketFileIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rpcbind.sock")
	log := make(lines, 1000)
	s, err := New(Config{Port: -1, SocketPath: path, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	s.socketCheck = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	for range 3 {
		require.NoError(t, answers(path))
		require.NoError(t, os.Remove(path))
		eventually(t, func() error { return answers(path) })
	}
	// Another process's file stays.
	other, err := net.Listen("unix", path+".other")
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, os.Rename(path+".other", path))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	log.await(t, "another process has put its file") // and it leaves it
	cancel()
	require.NoError(t, <-done)
	now, err := os.Lstat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, now))
}

// fileOf is a duplicate of a socket, as another process would hand it over.
func fileOf(t *testing.T, s interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := s.File()
	require.NoError(t, err)
	return f
}

// Sockets that were opened for us are used, and what is missing is opened.
func TestInheritedSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "given.sock")
	free, err := openSockets(context.Background(), nil, -1) // a port that is free for UDP, too
	require.NoError(t, err)
	free.close()
	tcp, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(int(free.port)))
	require.NoError(t, err)
	defer tcp.Close()
	file, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer file.Close()
	port := addrPortOf(tcp.Addr()).Port()
	s, stop := start(t, Config{Inherited: []*os.File{fileOf(t, tcp.(*net.TCPListener)), fileOf(t, file.(*net.UnixListener))}})
	require.Equal(t, int(port), s.Port())
	ctx := context.Background()
	addr := "127.0.0.1:" + strconv.Itoa(int(port))
	for _, tgt := range []target{{"tcp", addr}, {"udp", addr}, {"unix", path}} {
		c, err := tgt.connect(ctx)
		require.NoError(t, err, "%v", tgt)
		require.NoError(t, c.Close())
	}
	require.True(t, knows(s, Registration{Prog: PMAP_PROG, Vers: 4, Netid: "local", Addr: path}))
	stop()
	require.FileExists(t, path, "not ours to remove")

	// A datagram socket on :: for both families.
	lc := net.ListenConfig{}
	udp, err := lc.ListenPacket(ctx, "udp", "[::]:0")
	require.NoError(t, err)
	defer udp.Close()
	s, _ = start(t, Config{Inherited: []*os.File{fileOf(t, udp.(*net.UDPConn))}})
	for _, host := range []string{"127.0.0.1", "127.0.0.5", "::1"} {
		c, err := Connect(ctx, "udp", net.JoinHostPort(host, strconv.Itoa(s.Port())), rpc.ClientConfig{})
		require.NoError(t, err)
		uaddr, err := c.GetAddr(ctx, PMAP_PROG, 4, "udp")
		require.NoError(t, err)
		at, err := ParseUaddr(uaddr)
		require.NoError(t, err)
		require.Equal(t, host, at.Addr().String())
		require.NoError(t, c.Close())
	}
}

func TestInheritedNonsense(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(pair[1])
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	gram, err := net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "gram"))
	require.NoError(t, err)
	defer gram.Close()
	one, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer one.Close()
	two, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer two.Close()
	for name, files := range map[string][]*os.File{
		"does not listen":   {os.NewFile(uintptr(pair[0]), "pair")},
		"no socket":         {null},
		"nor a unix stream": {fileOf(t, gram.(*net.UnixConn))},
		"another has":       {fileOf(t, one.(*net.TCPListener)), fileOf(t, two.(*net.TCPListener))},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Inherited: files})
			require.NoError(t, err)
			require.ErrorContains(t, s.Run(context.Background()), name)
		})
	}
}
