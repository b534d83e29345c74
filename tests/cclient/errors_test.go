//go:build linux

package cclient_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// table is the table of errors of the document for C programmers.
func table(t *testing.T) string {
	text, err := os.ReadFile("../../docs/c-clients.md")
	require.NoError(t, err)
	_, errors, found := strings.Cut(string(text), "\n## Errors\n")
	require.True(t, found)
	errors, _, found = strings.Cut(errors, "\n## ")
	require.True(t, found)
	return errors
}

// TestErrorsAreThoseOfTheTable makes each error happen, has libtirpc say what it
// is, and looks it up in the document.
func TestErrorsAreThoseOfTheTable(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	doc := table(t)
	says := func(text, name string, args ...string) {
		t.Helper()
		o := run(t, nil, name, args...)
		require.Equal(t, 1, o.code, "%q: %s%s", args, o.stdout, o.stderr)
		require.Contains(t, o.stderr, ": RPC: "+text+"\n", "%q", args)
		require.Contains(t, doc, "`"+text+"`")
	}
	client, index := p.client(), p.index()

	// No portmapper, or no host.
	says("Remote system error - Connection refused", client, host, "2", "tcp", "P:1")
	says("Unable to receive", client, host, "2", "udp", "P:1")
	says("Remote system error - Connection refused", index, host, "status")
	for _, name := range []string{client, index} {
		args := []string{"no.such.host.invalid", "2", "tcp", "P:1"}
		if name == index {
			args = []string{"no.such.host.invalid", "status"}
		}
		says("Unknown host", name, args...)
	}
	hide := cpeer.Source(t, t.TempDir(), "hide.sh", `mount --bind /dev/null /etc/services && exec "$@"`)
	says("Unknown host", "unshare", "--mount", "sh", hide, client, host, "2", "tcp", "P:1")
	netns.Link(t, nil, "10.7.9.1/24", netns.NewHost(t, "far"), "10.7.9.2/24")
	says("Remote system error - No route to host", client, "10.7.9.9", "2", "tcp", "P:1") // nobody has that address
	says("Remote system error - Connection timed out", index, "-t", "1", "10.7.9.8", "status")

	// A portmapper, and no master, or one that hangs.
	portmapper := cpeer.Start(t, exec.Command(cluster.Binary(t, "portmap")))
	portmapper.WaitFor(t, "ready", wait)
	for _, network := range []string{"tcp", "udp"} {
		says("Program not registered", client, host, "2", network, "P:1")
	}
	says("Program not registered", index, host, "status")
	portmapper.Stop(t)
	says("Port mapper failure - Timed out", index, "-t", "1", host, "status")
	portmapper.Continue(t)

	dir := t.TempDir()
	master := cluster.Start(t, "master", "--data", filepath.Join(dir, "master"))
	slave := cluster.Start(t, "slave", "--master", host, "--addr", cluster.Addr(0), "--data", filepath.Join(dir, "slave"))
	awaitServing(t, 1)
	require.NoError(t, cluster.MustDial(t).Put(t.Context(), 1, []uint64{1, 1}))
	for _, network := range []string{"tcp", "udp"} {
		says("Remote system error", client, host, "1", network, "P:1") // row 64
		says("Remote system error", client, host, "1", network, "P:2") // not known
		says("Server can't decode arguments", client, host, "1", network, "R:4-1")
	}
	slave.Kill(t)
	o := run(t, nil, client, host, "1", "tcp", "R:1")
	require.Equal(t, outcome{"", "client: machine " + cluster.Addr(0) + " failed\n", 1}, o)

	master.Stop(t)
	says("Timed out", index, "-t", "1", host, "status")
	master.Kill(t)
	says("Remote system error - Connection refused", client, host, "2", "tcp", "P:1") // the portmapper has not noticed
	o = run(t, nil, client, host, "2", "udp", "P:1")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "RPC: Unable to receive; errno = Connection refused")
}
