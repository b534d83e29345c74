//go:build linux

package codec

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpcgen"
	"starfish/tests/codec/workspace"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// peersEnv hands the program that a test built to the test in its namespace.
const peersEnv = "STARFISH_TEST_PEERS"

// patience bounds the wait for a daemon.
const patience = 30 * time.Second

// Real programs of Debian talk to Go programs that come of Debian's .x files.
// All find each other by our portmapper, in namespaces of their own.
func TestPeers(t *testing.T) {
	if os.Getenv(peersEnv) == "" {
		t.Setenv(peersEnv, buildPeers(t))
	}
	for _, p := range []struct {
		name, tool string
		test       func(t *testing.T, peers string)
	}{
		{"rusers", "rusers", testRusers}, {"mountd", "ganesha.nfsd", testMount},
		{"statd", "rpc.statd", testStatd}, {"rstatd", "rpc.rstatd", testRstatd},
	} {
		t.Run(p.name, func(t *testing.T) {
			cpeer.Require(t, p.tool, "mount")
			if netns.Enter(t) {
				servePortmap(t)
				p.test(t, os.Getenv(peersEnv))
			}
		})
	}
}

// buildPeers builds testdata/peers.go.txt with the files of Debian.
func buildPeers(t *testing.T) string {
	t.Helper()
	space := workspace.New(t)
	for _, d := range debian {
		switch d.base() {
		case "mount", "rstat", "rusers", "sm_inter":
			if !d.present() {
				cpeer.Unavailable(t, "%s is missing (apt install rpcsvc-proto)", d.x)
			}
			d.generate(t, space)
		}
	}
	space.Rpcgen(t, "rusers_idle", rpcgen.Options{File: "testdata/rusers_idle.x"})
	main, err := os.ReadFile("testdata/peers.go.txt")
	require.NoError(t, err)
	space.Write(t, "peers/main.go", main)
	return space.Build(t, "peers")
}

// servePortmap serves port 111 and the unix socket until the test ends.
func servePortmap(t *testing.T) {
	t.Helper()
	pm, err := portmap.New(portmap.Config{SocketPath: "/run/rpcbind.sock"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pm.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	<-pm.Ready()
}

// registered waits until a daemon has registered itself.
func registered(t *testing.T, netid string, prog, vers uint32) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := portmap.Lookup(t.Context(), netid, "127.0.0.1", prog, vers)
		return err == nil
	}, patience, 50*time.Millisecond, "program %d has not registered", prog)
}

// output runs a program to its end.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}

// Debian's rusers is answered by a Go server that comes of rusers.x; so is a
// client of C rpcgen, since rusers calls version 2 alone.
func testRusers(t *testing.T, peers string) {
	cpeer.Start(t, exec.Command(peers, "serve-rusers")).WaitFor(t, "ready", patience)
	rusers := cpeer.Tool(t, "rusers")
	const host = `(localhost|127\.0\.0\.1)` // as /etc/hosts names it
	require.Regexp(t, `^`+host+` +ada +grace *\n$`, output(t, rusers, "127.0.0.1"))
	long := output(t, rusers, "-l", "127.0.0.1")
	require.Regexp(t, `(?m)^ada +`+host+`:tty7 .*:03 \(engine\.example\)`, long)
	require.Regexp(t, `(?m)^grace +`+host+`:pts/1 `, long)

	dir := t.TempDir()
	stubs := cpeer.Rpcgen(t, dir, rpcsvc+"rusers.x", "-C")
	source, err := os.ReadFile("testdata/rusers.c")
	require.NoError(t, err)
	client := cpeer.Compile(t, dir, "rusers3", []string{cpeer.Source(t, dir, "main.c", string(source)), stubs.Client, stubs.XDR}, "-w")
	require.Equal(t, "2\nada tty7 'engine.example' 7 1000000000 3\ngrace pts/1 '' 7 1000000060 0\n", output(t, client, "127.0.0.1"))
}

// ganesha serves two exports out of memory.
const ganesha = `
NFS_CORE_PARAM { Protocols = 3; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; }
EXPORT {
  Export_Id = 1; Path = /one; Pseudo = /one; Protocols = 3; Access_Type = RO; FSAL { Name = MEM; }
  CLIENT { Clients = 10.1.0.0/16; }
}
EXPORT { Export_Id = 2; Path = /two; Pseudo = /two; Protocols = 3; Access_Type = RW; FSAL { Name = MEM; } }
`

// A Go client that comes of mount.x lists the exports of nfs-ganesha's mountd.
func testMount(t *testing.T, peers string) {
	mountTmpfs(t, "/var/lib/nfs")
	dir := t.TempDir()
	conf := cpeer.Source(t, dir, "ganesha.conf", ganesha)
	log := filepath.Join(dir, "log")
	cpeer.Start(t, exec.Command(cpeer.Tool(t, "ganesha.nfsd"), "-F", "-L", log, "-f", conf, "-p", filepath.Join(dir, "pid")))
	t.Cleanup(func() {
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("ganesha's log:\n%s", text)
		}
	})
	registered(t, "tcp", 100005, 1)
	registered(t, "udp", 100005, 1)
	// A list over TCP and one over UDP.
	require.Equal(t, strings.Repeat("/one 10.1.0.0/16\n/two\n", 2), output(t, peers, "exports"))
}

// A Go client that comes of sm_inter.x talks to nfs-common's rpc.statd.
func testStatd(t *testing.T, peers string) {
	mountTmpfs(t, "/var/lib/nfs")
	for _, dir := range []string{"/var/lib/nfs/sm", "/var/lib/nfs/sm.bak"} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	cpeer.Start(t, exec.Command(cpeer.Tool(t, "rpc.statd"), "-F", "-d", "--no-notify"))
	registered(t, "udp", 100024, 1)
	registered(t, "tcp", 100024, 1)
	want := "SM_MON: stat_succ 1\nSM_UNMON: true\nSM_UNMON_ALL: true\n"
	require.Equal(t, strings.Repeat(want, 2), output(t, peers, "monitor"))
}

// A Go client that comes of rstat.x asks Debian's rpc.rstatd.
func testRstatd(t *testing.T, peers string) {
	cpeer.Start(t, exec.Command(cpeer.Tool(t, "rpc.rstatd")))
	registered(t, "udp", 100001, 3)
	require.Equal(t, "uptime: true true\n", output(t, peers, "uptime"))
}

// mountTmpfs puts an empty folder over one of the host's, in the namespace.
func mountTmpfs(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	output(t, cpeer.Tool(t, "mount"), "-t", "tmpfs", "tmpfs", path)
}
