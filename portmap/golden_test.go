package portmap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rpc"
	"starfish/xdr"
)

// replyTimeout bounds the wait for one reply.
const replyTimeout = 10 * time.Second

// exchange is one recorded request and reply.
type exchange struct{ request, reply []byte }

func readGolden(t testing.TB, name string) exchange {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "golden", name))
	require.NoError(t, err)
	defer f.Close()
	var lines [][]byte
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case line == "" || line[0] == '#':
		case line == "(none)":
			lines = append(lines, nil)
		default:
			b, err := hex.DecodeString(line)
			require.NoError(t, err)
			lines = append(lines, b)
		}
	}
	require.NoError(t, scanner.Err())
	require.Len(t, lines, 2, "%s: one request and one reply", name)
	return exchange{lines[0], lines[1]}
}

// recorded is the registry as it was when the bytes were recorded; me is who
// the test is over the unix socket, in the place of root.
func recorded(me string) []Registration {
	const prog = 0x20000099
	return []Registration{
		{prog, 1, "udp", "0.0.0.0.249.47", me},
		{prog, 3, "udp", "0.0.0.0.249.47", me},
		{prog, 1, "tcp", "0.0.0.0.225.129", me},
		{prog, 3, "tcp", "0.0.0.0.225.129", me},
	}
}

// bench is a portmapper that says it has port 111 and listens elsewhere.
type bench struct {
	tcp, udp, unix string
	s              *Server
}

func newBench(t testing.TB, regs []Registration) bench {
	t.Helper()
	s, err := New(Config{SocketPath: DefaultSocket, Registrations: regs})
	require.NoError(t, err)
	s.port = DefaultPort
	s.registerOwn(map[string]bool{"tcp": true, "udp": true, "tcp6": true, "udp6": true}, true)
	server := rpc.NewServer(rpc.ServerConfig{MaxRecord: MaxRecord, MaxReply: MaxReply, CacheTime: s.cacheTime(), Logger: s.cfg.Logger})
	s.register(server)

	path := filepath.Join(t.TempDir(), "rpcbind.sock")
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	unix, err := net.Listen("unix", path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(tcp) })
	wg.Go(func() { _ = server.Serve(unix) })
	wg.Go(func() { _ = server.ServePacket(udp) })
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		wg.Wait()
	})
	return bench{tcp.Addr().String(), udp.LocalAddr().String(), path, s}
}

func (b bench) dial(t testing.TB, network string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, map[string]string{"tcp": b.tcp, "udp": b.udp, "unix": b.unix}[network])
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(replyTimeout)))
	return conn
}

// roundTrip sends the bytes of one request and reads those of one reply.
func (b bench) roundTrip(t testing.TB, network string, request []byte) []byte {
	t.Helper()
	conn := b.dial(t, network)
	_, err := conn.Write(request)
	require.NoError(t, err)
	return readReply(t, conn, network)
}

func readReply(t testing.TB, conn net.Conn, network string) []byte {
	t.Helper()
	if network == "udp" {
		buf := make([]byte, 1<<16)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return buf[:n]
	}
	head := make([]byte, 4)
	_, err := io.ReadFull(conn, head)
	require.NoError(t, err)
	mark := binary.BigEndian.Uint32(head)
	require.NotZero(t, mark&(1<<31), "one fragment")
	body := make([]byte, mark&^(1<<31))
	_, err = io.ReadFull(conn, body)
	require.NoError(t, err)
	return append(head, body...)
}

// Replies of ours that differ from rpcbind's, and why.
var differs = map[string]string{
	// rpcbind is silent over TCP too, where nobody broadcasts and a caller waits.
	"pmap_callit_v2_tcp.hex":   "8000001811223344000000010000000000000000" + "0000000000000003",
	"rpcb_callit_v3_tcp.hex":   "8000001811223344000000010000000000000000" + "0000000000000003",
	"rpcb_indirect_v4_tcp.hex": "8000001811223344000000010000000000000000" + "0000000000000003",
	// rpcbind reads past the end of the datagram: GARBAGE_ARGS, as over TCP.
	"pmap_getport_garbage_udp.hex": "11223344000000010000000000000000" + "0000000000000004",
}

// counted makes the counters what a recorded answer to GETSTAT shows, before
// the call that asked.
func counted(t testing.TB, s *stats, reply []byte) {
	t.Helper()
	var all RpcbStatByvers
	require.NoError(t, xdr.Unmarshal(reply[28:], &all)) // behind the mark and the header
	for i, a := range all {
		v := &s.byVers[i]
		v.procs, v.set, v.unset = a.Info, a.Setinfo, a.Unsetinfo
		for e := a.Addrinfo; e != nil; e = e.Next {
			v.lookups = slices.Insert(v.lookups, 0, lookupStat{e.Prog, e.Vers, e.Netid, e.Success, e.Failure})
		}
		for e := a.Rmtinfo; e != nil; e = e.Next {
			v.remoteCalls = slices.Insert(v.remoteCalls, 0, remoteStat{e.Prog, e.Vers, e.Proc, e.Netid, e.Success, e.Failure, e.Indirect})
		}
	}
	s.of(RPCBVERS4).procs[RPCBPROC_GETSTAT]--
}

// Registrations that a request of the recording found beside recorded().
func before(name, me string) []Registration {
	switch {
	case strings.HasPrefix(name, "pmap_set_v2_tcp"):
	case strings.HasPrefix(name, "pmap_set"), name == "rpcb_getaddr_after_pmap_set_tcp.hex":
		return []Registration{{0x20000333, 1, "tcp", "0.0.0.0.21.179", ownerUnknown}}
	case strings.HasPrefix(name, "pmap_unset"):
		return []Registration{{0x20000333, 1, "tcp", "0.0.0.0.21.179", ownerUnknown}}
	case name == "pmap_getport_after_rpcb_set_udp.hex", strings.HasPrefix(name, "rpcb_unset_v3"):
		return []Registration{{0x20000444, 1, "tcp", "127.0.0.1.21.179", me}}
	}
	return nil
}

func TestGoldenReplies(t *testing.T) {
	me := ownerName(os.Getuid())
	files, err := filepath.Glob("testdata/golden/*.hex")
	require.NoError(t, err)
	require.Greater(t, len(files), 90)
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".hex"), func(t *testing.T) {
			parts := strings.Split(strings.TrimSuffix(name, ".hex"), "_")
			network := parts[len(parts)-1]
			rec := readGolden(t, name)
			b := newBench(t, append(recorded(me), before(name, me)...))
			if strings.Contains(name, "getstat") {
				counted(t, &b.s.stats, rec.reply)
			}
			if len(rec.reply) == 0 && differs[name] == "" { // silent: the next call's answer comes first
				conn := b.dial(t, network)
				_, err := conn.Write(rec.request)
				require.NoError(t, err)
				null := request(PMAP_PROG, PMAP_VERS, 0)
				null[0] ^= 0xff
				_, err = conn.Write(null)
				require.NoError(t, err)
				require.Equal(t, null[:4], readReply(t, conn, network)[:4])
				return
			}
			got := b.roundTrip(t, network, rec.request)
			want := rec.reply
			switch {
			case strings.Contains(name, "gettime"):
				require.Len(t, got, len(want))
				now := int64(binary.BigEndian.Uint32(got[len(got)-4:]))
				require.InDelta(t, time.Now().Unix(), now, 5)
				got, want = got[:len(got)-4], want[:len(want)-4]
			case strings.Contains(name, "_dump_v") && os.Getuid() != 0 && !strings.Contains(name, "_v2_"):
				t.Skip("the owner of the recording is root")
			case differs[name] != "":
				want, err = hex.DecodeString(differs[name])
				require.NoError(t, err)
				require.NotEqual(t, rec.reply, got, "no difference to document")
			}
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
		})
	}
}

// request is a call without its record mark.
func request(prog, vers, proc uint32, args ...uint32) []byte {
	var b []byte
	for _, v := range append([]uint32{0x11223344, 0, 2, prog, vers, proc, 0, 0, 0, 0}, args...) {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func withMark(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(b))), b...)
}

// A length that promises more bytes than the call has is GARBAGE_ARGS, costs no
// memory, and the connection lives (CVE-2017-8779).
func TestHugeLengthsAreGarbage(t *testing.T) {
	b := newBench(t, nil)
	huge := request(PMAP_PROG, RPCBVERS4, RPCBPROC_GETADDR, 0x20000099, 1, 0x3fffffff)
	want := hex.EncodeToString([]byte{0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4})
	for _, network := range []string{"tcp", "unix", "udp"} {
		t.Run(network, func(t *testing.T) {
			conn := b.dial(t, network)
			call := huge
			if network != "udp" {
				call = withMark(call)
			}
			for range 1000 {
				_, err := conn.Write(call)
				require.NoError(t, err)
				got := readReply(t, conn, network)
				require.True(t, strings.HasSuffix(hex.EncodeToString(got), want))
			}
		})
	}
}

// A datagram never carries a part of the list.
func TestDumpTooLongForUDPIsAnError(t *testing.T) {
	var regs []Registration
	for i := range uint32(500) {
		regs = append(regs, Registration{0x20000000 + i, 1, "tcp", "0.0.0.0.8.1", ownerUnknown})
	}
	b := newBench(t, regs)
	for vers := uint32(PMAP_VERS); vers <= RPCBVERS4; vers++ {
		got := b.roundTrip(t, "udp", request(PMAP_PROG, vers, RPCBPROC_DUMP))
		require.Equal(t, []byte{0, 0, 0, 5}, got[len(got)-4:], "SYSTEM_ERR")
		whole := b.roundTrip(t, "tcp", withMark(request(PMAP_PROG, vers, RPCBPROC_DUMP)))
		require.Greater(t, len(whole), MaxDatagram)
	}
}

// The portmapper's bound on a record: what is longer ends the connection.
func TestLongRecordEndsTheConnection(t *testing.T) {
	b := newBench(t, nil)
	conn := b.dial(t, "tcp")
	_, err := conn.Write(binary.BigEndian.AppendUint32(nil, 1<<31|(MaxRecord+1)))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.True(t, errors.Is(err, io.EOF) || err != nil && !os.IsTimeout(err), "closed: %v", err)
}

// FuzzServer sends any bytes as a call over a stream: the portmapper answers or
// closes, and answers the next caller.
func FuzzServer(f *testing.F) {
	files, err := filepath.Glob("testdata/golden/*_tcp.hex")
	require.NoError(f, err)
	for _, path := range files {
		f.Add(readGolden(f, filepath.Base(path)).request[4:])
	}
	f.Add(request(PMAP_PROG, RPCBVERS4, RPCBPROC_GETADDR, 0x20000099, 1, 0x3fffffff))
	f.Add([]byte{})
	b := newBench(f, recorded(ownerUnknown))
	null := withMark(request(PMAP_PROG, PMAP_VERS, 0))
	f.Fuzz(func(t *testing.T, call []byte) {
		if len(call) > MaxRecord {
			return
		}
		conn := b.dial(t, "unix")
		_, err := conn.Write(withMark(call))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		reply, err := io.ReadAll(conn)
		require.False(t, os.IsTimeout(err), "neither answered nor closed")
		require.True(t, err != nil || len(reply) == 0 || len(reply) >= 24, "%x", reply)

		got := b.roundTrip(t, "unix", null)
		require.True(t, bytes.HasSuffix(got, []byte{0, 0, 0, 0}))
	})
}
