package cluster_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// TestOddPort: a slave with another port than the living ones of its host does
// not start, says which port to take, and leaves their entry alone. When they
// have gone it takes the entry over.
func TestOddPort(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	cluster.Start(t, "portmap")
	first := cluster.Start(t, "slave", "--addr", "127.0.0.2", "--data", t.TempDir())
	registered := func() (ports []uint16) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Wait)
		defer cancel()
		c, err := portmap.Local(ctx)
		require.NoError(t, err)
		defer c.Close()
		list, err := c.Dump(ctx)
		require.NoError(t, err)
		for _, r := range list {
			if r.Prog == structs.SLAVE_PROG {
				at, err := portmap.ParseUaddr(r.Addr)
				require.NoError(t, err)
				ports = append(ports, at.Port())
			}
		}
		return ports
	}
	same := func(port uint16) []uint16 { return []uint16{port, port, port, port} } // two versions, TCP and UDP
	require.Equal(t, same(20490), registered())

	odd := []string{"--addr", "127.0.0.3", "--port", "20491", "--data", t.TempDir()}
	p := cpeer.Start(t, exec.Command(cluster.Binary(t, "slave"), odd...))
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(t, cluster.Wait), &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, p.Output(), "say --port 20490")
	require.Equal(t, same(20490), registered())

	first.Kill(t) // its entry stays behind
	cluster.Start(t, "slave", odd...)
	require.Equal(t, same(20491), registered())
}
