package portmap

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// asker makes the same look-up again and again over one socket.
type asker struct {
	conn    net.Conn
	r       *bufio.Reader
	network string
	request []byte
	want    []byte // the answer behind its xid
	buf     []byte
}

// newAsker asks for the address of a program; host is where the portmapper is.
func newAsker(t testing.TB, network string, host *netns.Host, prog uint32) *asker {
	t.Helper()
	a := &asker{network: network, buf: make([]byte, 1<<16)}
	require.NoError(t, host.Do(func() (err error) {
		a.conn, err = net.Dial(network, "127.0.0.1:111")
		return err
	}))
	t.Cleanup(func() { a.conn.Close() })
	a.r = bufio.NewReader(a.conn)
	args, err := portmap.Rpcb{RProg: prog, RVers: 1, RNetid: network, RAddr: "127.0.0.1.0.111", ROwner: "libtirpc"}.AppendXDR(call(4, 3))
	require.NoError(t, err)
	a.request = args
	if network == "tcp" {
		a.request = append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(args))), args...)
	}
	got, err := a.ask()
	require.NoError(t, err)
	require.Contains(t, string(got), "127.0.0.1.80.", "the program is registered")
	a.want = slices.Clone(got)
	return a
}

func (a *asker) ask() ([]byte, error) {
	if err := a.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := a.conn.Write(a.request); err != nil {
		return nil, err
	}
	if a.network == "udp" {
		n, err := a.conn.Read(a.buf)
		return a.buf[:n], err
	}
	if _, err := io.ReadFull(a.r, a.buf[:4]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(a.buf) &^ (1 << 31)
	_, err := io.ReadFull(a.r, a.buf[:min(int(n), len(a.buf))])
	return a.buf[:n], err
}

// round is the median time of some look-ups, each of which was checked.
func (a *asker) round(t testing.TB, n int) time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		got, err := a.ask()
		times[i] = time.Since(start)
		require.NoError(t, err)
		require.Equal(t, a.want, got)
	}
	slices.Sort(times)
	return times[n/2]
}

// fill registers programs at a host's portmapper, the last one being last.
func fill(t testing.TB, host *netns.Host, n int) (last uint32) {
	t.Helper()
	var conn net.Conn
	require.NoError(t, host.Do(func() (err error) {
		conn, err = net.Dial("tcp", "127.0.0.1:111")
		return err
	}))
	client := rpc.NewClient(conn, rpc.ClientConfig{})
	defer client.Close()
	c := portmap.NewRpcbprogRpcbvers4Client(client)
	for i := range n {
		last = 0x20000000 + uint32(i/2)
		netid := []string{"tcp", "udp"}[i%2]
		ok, err := c.RpcbprocSet(context.Background(), portmap.Rpcb{RProg: last, RVers: 1, RNetid: netid,
			RAddr: fmt.Sprintf("0.0.0.0.80.%d", i%256)})
		require.NoError(t, err)
		require.True(t, ok)
	}
	return last
}

// With 10,000 registrations each look-up has the same answer as with few. How
// fast it comes is told beside rpcbind with 10, and not asserted: that depends
// on what else the machine does. Both run at the same time and are asked in turn.
func TestLookupsAmongMany(t *testing.T) {
	if !enter(t) {
		return
	}
	mine, theirs := netns.NewHost(t, "ours"), netns.NewHost(t, "rpcbind")
	cpeer.Start(t, mine.Command(program("portmap"))).WaitFor(t, "portmap ready", timeout)
	cpeer.Start(t, theirs.Command(cpeer.Tool(t, "rpcbind"), "-f"))
	eventually(t, func() error {
		return theirs.Do(func() error {
			conn, err := net.Dial("tcp", "127.0.0.1:111")
			if err == nil {
				conn.Close()
			}
			return err
		})
	})
	lastMine, lastTheirs := fill(t, mine, 10_000), fill(t, theirs, 10)
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			a, b := newAsker(t, network, mine, lastMine), newAsker(t, network, theirs, lastTheirs)
			const rounds, each = 5, 400
			var ours, other []time.Duration
			for range rounds {
				ours = append(ours, a.round(t, each))
				other = append(other, b.round(t, each))
			}
			slices.Sort(ours)
			slices.Sort(other)
			x, y := ours[rounds/2], other[rounds/2]
			t.Logf("GETADDR over %s, median: ours with 10,000 registrations %v, rpcbind with 10 %v (%.2f)", network, x, y, float64(x)/float64(y))
		})
	}
}
