package rpc

import (
	"encoding/hex"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ours has the replies in which we differ from the recorded server, by the
// names of the recordings without their transport.
var ours = map[string]struct{ why, reply string }{
	"err_rpcvers_3": {"RFC 5531 section 9: MSG_DENIED, RPC_MISMATCH, versions 2 to 2; libtirpc says nothing and closes",
		"11223344 00000001 00000001 00000000 00000002 00000002"},
	"err_rpcvers_3_with_nonsense": {"the same: this one has RPC version 1",
		"11223344 00000001 00000001 00000000 00000002 00000002"},
	"err_cred_401_bytes": {"RFC 5531 section 9: MSG_DENIED, AUTH_ERROR, AUTH_BADCRED; libtirpc says nothing and closes",
		"11223344 00000001 00000001 00000001 00000001"},
	"err_svc_on_bool2": {"GARBAGE_ARGS: a bool is 0 or 1 (RFC 4506 section 4.4); libtirpc takes 2 for true",
		"11223344 00000001 00000000 00000000 00000000 00000004"},
	"err_garbage_args_short": {"GARBAGE_ARGS, over UDP too: libtirpc reads on behind the end of the datagram",
		"11223344 00000001 00000000 00000000 00000000 00000004"},
}

// recording is one request of testdata/golden, and its reply; nil for none.
type recording struct {
	name           string // without the transport
	network        string
	request, reply []byte
}

func readRecordings(t *testing.T) (all []recording) {
	files, err := filepath.Glob("testdata/golden/*.hex")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		base := strings.TrimSuffix(filepath.Base(f), ".hex")
		r := recording{}
		switch {
		case strings.HasSuffix(base, "_tcp"):
			r.name, r.network = strings.TrimSuffix(base, "_tcp"), "tcp"
		case strings.HasSuffix(base, "_udp"):
			r.name, r.network = strings.TrimSuffix(base, "_udp"), "udp"
		default:
			r.name, r.network = base, "tcp"
		}
		lines = lines[len(lines)-4:]
		r.request = unhex(t, lines[1])
		if lines[3] != "(none)" {
			r.reply = unhex(t, lines[3])
		}
		all = append(all, r)
	}
	require.Equal(t, 50, len(all), "recordings")
	return all
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err, "hex %q", s)
	return b
}

// record puts a mark before a message.
func record(message []byte) []byte {
	b := append(make([]byte, markLen), message...)
	putMark(b)
	return b
}

// TestGolden sends what the recorded server was sent, and compares the replies.
func TestGolden(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	addrs := map[string]string{}
	for _, network := range []string{"tcp", "udp", "unix"} {
		addrs[network] = s.listen(t, network)
	}
	for _, r := range readRecordings(t) {
		networks := []string{r.network}
		if r.network == "tcp" {
			networks = append(networks, "unix")
		}
		for _, network := range networks {
			t.Run(r.name+"/"+network, func(t *testing.T) {
				want := r.reply
				if o, ok := ours[r.name]; ok {
					want = unhex(t, o.reply)
					if network != "udp" {
						want = record(want)
					}
				}
				conn, err := net.Dial(network, addrs[network])
				require.NoError(t, err)
				defer conn.Close()
				_, err = conn.Write(r.request)
				require.NoError(t, err)
				if want != nil {
					require.Equal(t, want, readReplyBytes(t, conn))
					stillServed(t, conn)
				} else if network == "udp" {
					stillServed(t, conn) // and this is the first reply to come
				} else {
					_, err := conn.Read(make([]byte, 1))
					require.ErrorIs(t, err, io.EOF)
				}
			})
		}
	}
}

var nullCall = "55667788 00000000 00000002 20000099 00000001 00000000 00000000 00000000 00000000 00000000"
var nullReply = "55667788 00000001 00000000 00000000 00000000 00000000"

// stillServed makes a NULL call over conn.
func stillServed(t *testing.T, conn net.Conn) {
	t.Helper()
	call, want := unhex(t, nullCall), unhex(t, nullReply)
	if _, ok := conn.(*net.UDPConn); !ok {
		call, want = record(call), record(want)
	}
	_, err := conn.Write(call)
	require.NoError(t, err)
	require.Equal(t, want, readReplyBytes(t, conn))
}

// readReplyBytes reads one reply: a datagram, or a record of one fragment with
// its mark.
func readReplyBytes(t *testing.T, conn net.Conn) []byte {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, ok := conn.(*net.UDPConn); ok {
		b := make([]byte, 65536)
		n, err := conn.Read(b)
		require.NoError(t, err)
		return b[:n]
	}
	mark := make([]byte, markLen)
	_, err := io.ReadFull(conn, mark)
	require.NoError(t, err)
	require.Equal(t, byte(0x80), mark[0], "a last fragment of less than 16 MiB")
	b := make([]byte, int(mark[1])<<16|int(mark[2])<<8|int(mark[3]))
	_, err = io.ReadFull(conn, b)
	require.NoError(t, err)
	return append(mark, b...)
}
