package portmap

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tables are files as under /proc/net: a listener on 8080, a connection on
// 9090, a UDP socket on 53, a unix socket.
func tables(t *testing.T) string {
	proc := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(proc, "net"), 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(proc, "net", name), []byte(text), 0o600))
	}
	write("tcp", `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:2382 0100007F:8B6A 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
`)
	write("tcp6", "heading\n   0: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A rest\n")
	write("udp", "heading\n  80: 00000000:0035 00000000:0000 07 rest\n")
	write("unix", "heading\n0: 00000002 00000000 00010000 0001 01 77 /run/here.sock\n1: 00000002 00000000 00000000 0002 01 78\n")
	return proc
}

func TestBound(t *testing.T) {
	b, err := readBound(tables(t))
	require.NoError(t, err)
	for _, c := range []struct {
		netid, addr string
		alive       bool
	}{
		{"tcp", "0.0.0.0.31.144", true},
		{"tcp6", "::.31.145", true},
		{"tcp", "0.0.0.0.31.145", true}, // a listener on :: may serve both
		{"tcp", "0.0.0.0.35.130", false},
		{"tcp", "127.0.0.1.35.130", false},
		{"tcp", "192.0.2.7.35.130", true}, // another host's
		{"udp", "0.0.0.0.0.53", true},
		{"UDP", "0.0.0.0.31.144", false},
		{"udp6", "::.31.144", false},
		{"local", "/run/here.sock", true},
		{"local", "/nowhere/gone.sock", false},
		{"sctp", "0.0.0.0.1.1", true},
		{"bogus", "x", true},
	} {
		require.Equal(t, c.alive, b.alive(Registration{Prog: 7, Vers: 1, Netid: c.netid, Addr: c.addr}), "%s %s", c.netid, c.addr)
	}
	own := netip.MustParseAddr("127.0.0.1")
	require.True(t, b.hosts[own])

	_, err = readBound(t.TempDir())
	require.Error(t, err, "no tables")
}

func TestReaper(t *testing.T) {
	proc := tables(t)
	listen := func(ports ...int) {
		text := "heading\n"
		for _, port := range ports {
			text += fmt.Sprintf("0: 00000000:%04X 00000000:0000 0A rest\n", port)
		}
		require.NoError(t, os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte(text), 0o600))
	}
	reg := newRegistry()
	reg.set(Registration{PMAP_PROG, 4, "tcp", "0.0.0.0.0.1", ownerSuperuser}, true)
	at := func(port uint16) Registration {
		r := Registration{testProg, uint32(port), "tcp", WildcardUaddr("tcp", port), "1000"}
		require.True(t, reg.set(r, false))
		return r
	}
	alive, dead, back := at(20001), at(20002), at(20003)
	p := &reaper{reg: reg, log: slog.New(slog.DiscardHandler), proc: proc}
	listen(20001)
	for range reapLooks - 1 {
		require.NoError(t, p.look())
	}
	require.Equal(t, 4, reg.len(), "not yet")
	listen(20001, 20003)
	require.NoError(t, p.look())
	require.Equal(t, 3, reg.len())
	require.NotContains(t, reg.all(), dead)
	require.Contains(t, reg.all(), back, "it was starting again")

	// Where nothing can be told nothing is dropped, and counting starts anew.
	listen(20001)
	require.NoError(t, p.look())
	require.NoError(t, p.look())
	p.proc = t.TempDir()
	require.Error(t, p.look())
	p.proc = proc
	require.NoError(t, p.look())
	require.NoError(t, p.look())
	require.Contains(t, reg.all(), back)
	require.NoError(t, p.look())
	require.NotContains(t, reg.all(), back)
	require.Contains(t, reg.all(), alive)
}

func TestServerReaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "service.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	r := Registration{testProg, 1, "local", path, "1000"}
	s, _ := start(t, Config{Port: -1, Reap: 5 * time.Millisecond, Registrations: []Registration{r}})
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	require.Eventually(t, func() bool { return !knows(s, r) }, peerTimeout, time.Millisecond)
	require.NotZero(t, s.Registrations())
}
