package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/user"
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

// TestMain is the keeper of the socket where a test starts one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == keeperName {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// me is the user that the test is, and stays.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	require.NoError(t, err)
	return u.Username
}

// freePort finds a port below those that the system gives to clients.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(21000 + rand.IntN(9000))
		ln, err := net.Listen("tcp", ":"+port)
		if err == nil {
			require.NoError(t, ln.Close())
			return port
		}
	}
}

// serving runs the program until stop, which returns its exit code.
func serving(t *testing.T, port string, args ...string) (stderr *output, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stdout, stderr := waitFor("portmap ready on port "+port+"\n"), waitFor("")
	code := make(chan int, 1)
	go func() { code <- run(ctx, append(args, "--port", port, "--user", me(t)), stdout, stderr) }()
	select {
	case <-stdout.seen:
	case c := <-code:
		cancel()
		t.Fatalf("ended with %d: %s", c, stderr.String())
	case <-time.After(30 * time.Second):
		t.Fatal("not ready")
	}
	return stderr, func() int {
		cancel()
		return <-code
	}
}

func TestServesUntilItIsTold(t *testing.T) {
	port, socket := freePort(t), filepath.Join(t.TempDir(), "rpcbind.sock")
	args := []string{"--socket", socket, "--listen", "127.0.0.1", "-d"}
	_, stop := serving(t, port, args...)
	ctx := context.Background()
	c, err := portmap.Connect(ctx, "unix", socket, rpc.ClientConfig{})
	require.NoError(t, err)
	require.NoError(t, c.Null(ctx))
	require.NoError(t, c.Close())

	// A second one on the same port says who is in the way.
	var second bytes.Buffer
	require.Equal(t, 1, run(ctx, append(args, "--port", port, "--user", me(t)), &second, &second))
	require.Contains(t, second.String(), "another portmapper runs")

	require.Equal(t, 0, stop())
	require.NoFileExists(t, socket)
}

// Everything that a user can switch on at once: the log, the metrics, what
// systemd is told.
func TestObserved(t *testing.T) {
	dir := t.TempDir()
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer notify.Close()
	require.NoError(t, notify.SetReadDeadline(time.Now().Add(30*time.Second)))
	told := func() string {
		b := make([]byte, 1024)
		n, err := notify.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", notify.LocalAddr().String())
	port, state := freePort(t), filepath.Join(dir, "state", "rpcbind.xdr")
	require.NoError(t, os.Mkdir(filepath.Dir(state), 0o755))
	stderr, stop := serving(t, port, "--socket", "", "--metrics", "127.0.0.1:0", "-lf", "--log-format", "json", "--reap=1s", "-w="+state)
	require.Equal(t, "READY=1\nSTATUS=serving port "+port, told())

	ctx := context.Background()
	c, err := portmap.Connect(ctx, "udp", "127.0.0.1:"+port, rpc.ClientConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, c.Set(ctx, portmap.Registration{Prog: 0x20000001, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.0.7"}), portmap.ErrRefused)
	require.NoError(t, c.Close())
	var line struct{ Msg, URL, Proc, Network string }
	first, _, _ := strings.Cut(stderr.String(), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	var text []byte
	require.Eventually(t, func() bool { // a call is counted when its reply is sent
		resp, err := http.Get(line.URL)
		require.NoError(t, err)
		text, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return strings.Contains(string(text), `procedure="SET"`)
	}, 30*time.Second, time.Millisecond)
	require.Contains(t, string(text), `starfish_rpc_calls_total{network="udp",procedure="SET",program="portmapper",status="SUCCESS",version="4"} 1`)
	require.Contains(t, string(text), `starfish_portmap_refused_total{reason="port"} 1`)
	require.Contains(t, string(text), "starfish_portmap_registrations 1")
	require.Contains(t, string(text), "starfish_log_lines_lost_total 0")

	require.Equal(t, 0, stop())
	require.Equal(t, "STOPPING=1", told())
	require.FileExists(t, state)
	for _, l := range strings.Split(stderr.String(), "\n") {
		if strings.Contains(l, `"msg":"call"`) {
			require.NoError(t, json.Unmarshal([]byte(l), &line), l)
		}
	}
	require.Equal(t, "SET", line.Proc)
	require.Equal(t, "udp", line.Network)
}

// The keeper makes the socket, again when it is asked, and removes it at the
// end, but never another's.
func TestKeeper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rpcbind.sock")
	k, err := startKeeper(path)
	require.NoError(t, err)
	ctx := context.Background()
	first, err := k.open(ctx)
	require.NoError(t, err)
	reach := func(ln net.Listener) {
		t.Helper()
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
		there, err := ln.Accept()
		require.NoError(t, err)
		there.Close()
	}
	reach(first)
	_, err = k.open(ctx)
	require.ErrorIs(t, err, portmap.ErrInUse)
	require.NoError(t, os.Remove(path))
	second, err := k.open(ctx)
	require.NoError(t, err)
	reach(second)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.FileExists(t, path)
	k.close()
	require.NoFileExists(t, path)
	_, err = k.open(ctx)
	require.Error(t, err)

	k, err = startKeeper(filepath.Join(t.TempDir(), "none", "rpcbind.sock"))
	require.NoError(t, err)
	defer k.close()
	_, err = k.open(ctx)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAccount(t *testing.T) {
	who, err := options{user: me(t)}.account()
	require.NoError(t, err)
	require.Nil(t, who, "who we are we stay")
	_, err = options{user: "no-such-user"}.account()
	require.ErrorContains(t, err, "no-such-user")
	if os.Geteuid() != 0 {
		return
	}
	who, err = options{asDaemon: true}.account()
	require.NoError(t, err)
	require.Equal(t, &account{"daemon", 1, 1}, who)
	who, err = options{user: "1"}.account()
	require.NoError(t, err)
	require.Equal(t, "daemon", who.name)
	who, err = options{}.account()
	require.NoError(t, err)
	require.Contains(t, []string{rpcUser, nobody}, who.name)
}

// String is what was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
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
		{"RpcbindFlags", []string{"-fdailrwLs", "-h", "127.0.0.1", "-h", "::1", "--port", "0"}, 2, "a port is 1 to 65535"},
		{"BadRate", []string{"--rate", "-1"}, 2, "a rate is 0 or more"},
		{"NoRate", []string{"--rate", "nan"}, 2, "is not a number like 5 or 0.5"},
		{"HexPort", []string{"--port", "0x6f"}, 2, "is not a number"},
		{"BadReap", []string{"--reap=-1s"}, 2, "a time is 0 or more"},
		{"BadFormat", []string{"--log-format", "xml"}, 2, "text or json"},
		{"TwoUsers", []string{"-s", "-u", "nobody"}, 2, "one of them"},
		{"BadUser", []string{"-u", "no-such-user"}, 2, "no-such-user"},
		{"BadAddress", []string{"--listen", "everywhere"}, 2, `--listen "everywhere": an IP address is wanted`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.code, run(context.Background(), c.args, &out, &out), out.String())
			require.Contains(t, out.String(), c.want)
		})
	}
}
