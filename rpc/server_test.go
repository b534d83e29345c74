package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// message is a call with an empty credential.
func message(xid, proc uint32, args ...byte) []byte {
	return append(appendCall(nil, xid, testProg, 1, proc, OpaqueAuth{}, OpaqueAuth{}), args...)
}

func send(t *testing.T, conn net.Conn, b []byte) {
	t.Helper()
	_, err := conn.Write(b)
	require.NoError(t, err)
}

// dialRaw is a connection for literal bytes.
func dialRaw(t *testing.T, network, addr string) net.Conn {
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// xidOf is the xid of a reply record.
func xidOf(rec []byte) uint32 { return binary.BigEndian.Uint32(rec[markLen:]) }

// TestOutOfOrder: the calls of one connection are answered as they finish.
func TestOutOfOrder(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			s := newTestServer(t, ServerConfig{})
			conn := dialRaw(t, network, s.listen(t, network))
			send(t, conn, record(message(1, procBlock)))
			<-s.h.entered
			send(t, conn, record(message(2, procBlock)))
			<-s.h.entered
			send(t, conn, record(message(3, procNull)))
			require.EqualValues(t, 3, xidOf(readReplyBytes(t, conn)))
			send(t, conn, record(message(4, procCount, 0, 0, 0, 0)))
			require.EqualValues(t, 4, xidOf(readReplyBytes(t, conn)))
			s.h.release <- struct{}{}
			s.h.release <- struct{}{}
			got := xidOf(readReplyBytes(t, conn)) + xidOf(readReplyBytes(t, conn))
			require.EqualValues(t, 3, got, "calls 1 and 2")
		})
	}
}

// TestOneByteAtATime: a call that comes byte by byte is a call.
func TestOneByteAtATime(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	for _, b := range record(unhex(t, nullCall)) {
		send(t, conn, []byte{b})
	}
	require.Equal(t, record(unhex(t, nullReply)), readReplyBytes(t, conn))
}

// TestPipelined: many calls in one write are all answered.
func TestPipelined(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCallsPerConn: 4})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	const n = 3000
	want := map[uint32]int{}
	var all []byte
	for xid := range uint32(n) {
		proc, size := uint32(procBig), xid*97%1000
		switch xid % 100 {
		case 0, 1, 2:
			size = 90_000
		case 3, 4, 5, 6:
			proc, size = procNull, 0
		}
		want[xid] = markLen + acceptedLen + int(size)
		all = append(all, record(message(xid, proc, xdr.AppendUint32(nil, size)...))...)
	}
	go func() { _, _ = conn.Write(all) }()
	got := map[uint32]int{}
	for range n {
		rec := readReplyBytes(t, conn)
		got[xidOf(rec)] = len(rec)
	}
	require.Equal(t, want, got)
}

// TestNullAtTheBound: NULL counts as a call of its connection while it runs.
func TestNullAtTheBound(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCallsPerConn: 2})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	send(t, conn, record(message(1, procBlock)))
	<-s.h.entered
	for range 3 {
		stillServed(t, conn)
	}
	s.h.release <- struct{}{}
	require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
}

// TestHandlerErrors: what a handler does wrong is SYSTEM_ERR, its detail in the
// log, and the connection lives.
func TestHandlerErrors(t *testing.T) {
	var log syncBuffer
	s := newTestServer(t, ServerConfig{MaxRecord: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	bare := HandlerFunc(func(context.Context, *Call, *xdr.Decoder, []byte) ([]byte, error) {
		return []byte{0, 0, 0, 1}, nil
	})
	s.Register(testProg, 2, bare)
	for _, network := range []string{"tcp", "udp", "unix"} {
		c := dial(t, network, s.listen(t, network), ClientConfig{})
		for _, k := range []struct {
			name string
			vers uint32
			proc uint32
			args uint32
			err  error
			log  string
		}{
			{"Panic", 1, procPanic, 0, ErrSystem, "a handler's bug"},
			{"Error", 1, procFail, 0, ErrSystem, "the disk is full"},
			{"ErrorOfAnotherServer", 1, procRelay, 0, ErrSystem, "PROG_UNAVAIL"},
			{"NotAppended", 2, 1, 0, ErrSystem, "not appended"},
			{"TooLong", 1, procBig, 1 << 20, ErrSystem, "too long"},
			{"Denied", 1, procDenied, 0, AuthError(AUTH_TOOWEAK), ""},
			{"NoProcedure", 1, 999, 0, ErrProcUnavail, ""},
			{"NullAgain", 1, procNull, 0, nil, ""},
		} {
			t.Run(k.name+"/"+network, func(t *testing.T) {
				log.reset()
				err := c.Call(t.Context(), testProg, k.vers, k.proc, xdr.AppendFunc(func(b []byte) ([]byte, error) {
					return xdr.AppendUint32(b, k.args), nil
				}), nil)
				require.ErrorIs(t, err, k.err)
				require.Contains(t, log.String(), k.log)
				if k.log != "" {
					require.Contains(t, log.String(), "prog=0x", "as errors have it")
				}
			})
		}
	}
}

// TestPanicIsAShortErrorAndAStack: an operator sees what and where on one line,
// and then the calls that led there, each on its own.
func TestPanicIsAShortErrorAndAStack(t *testing.T) {
	var log syncBuffer
	s := newTestServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Register(0x20000777, 1, HandlerFunc(func(_ context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		defer func() { _ = c.XID }()
		var none []byte
		return append(b, none[c.Proc]), nil // index out of range: the runtime panics
	}))
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{})
	log.reset()
	require.ErrorIs(t, c.Call(t.Context(), 0x20000777, 1, 5, nil, nil), ErrSystem)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Greater(t, len(lines), 1)
	require.Regexp(t, `^time=\S+ level=ERROR msg="rpc: the handler panicked, its caller is told SYSTEM_ERR" `+
		`panic="runtime error: index out of range \[5\] with length 0" at=rpc/server_test.go:\d+ prog=0x20000777 vers=1 proc=5 remote=127.0.0.1:\d+$`, lines[0])
	for i, l := range lines[1:] {
		require.Regexp(t, fmt.Sprintf(`^time=\S+ level=ERROR msg="rpc: panic stack" frame=%d func=\S+ at=\S+:\d+$`, i), l)
		require.NotContains(t, l, "invoke", "ours is no part of it")
	}
	require.Contains(t, lines[1], "TestPanicIsAShortErrorAndAStack")
	for _, l := range lines {
		require.Less(t, len(l), 300)
	}
}

func TestProgramIsHexInEveryLog(t *testing.T) {
	var text, json strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "prog", Program(0x20b17000))
	slog.New(slog.NewJSONHandler(&json, nil)).Info("x", "prog", Program(0x20b17000))
	require.Contains(t, text.String(), "prog=0x20b17000")
	require.Contains(t, json.String(), `"prog":"0x20b17000"`)
}

// TestCallerGone: a call that nobody waits for any more is no fault to be logged.
func TestCallerGone(t *testing.T) {
	var log syncBuffer
	s := newTestServer(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	send(t, conn, record(message(1, procBlock)))
	<-s.h.entered
	send(t, conn, record([]byte{1})) // ends the connection
	require.ErrorIs(t, <-s.h.gone, context.Canceled)
	require.NoError(t, s.Close())
	require.NotContains(t, log.String(), "call failed")
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// TestCallOf: what a handler knows of its caller.
func TestCallOf(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	var got atomic.Pointer[Call]
	s.Register(7, 1, HandlerFunc(func(ctx context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		if CallFromContext(ctx) != c {
			return nil, errors.New("another call in the context")
		}
		got.Store(c)
		return b, nil
	}))
	cred, err := SysAuth(AuthsysParms{Machinename: "host", Uid: 5, Gids: []uint32{6, 7}})
	require.NoError(t, err)
	for _, network := range []string{"tcp", "udp", "unix"} {
		addr := s.listen(t, network)
		t.Run(network, func(t *testing.T) {
			c := dial(t, network, addr, ClientConfig{Cred: cred})
			require.NoError(t, c.Call(t.Context(), 7, 1, 3, nil, nil))
			call := got.Load()
			require.Equal(t, []uint32{7, 1, 3}, []uint32{call.Prog, call.Vers, call.Proc})
			require.Equal(t, cred, call.Cred)
			require.Equal(t, &AuthsysParms{Machinename: "host", Uid: 5, Gids: []uint32{6, 7}}, call.Sys)
			require.Equal(t, network, call.Network)
			require.Equal(t, addr, call.Local.String())
			uid := -1
			if network == "unix" {
				uid = os.Getuid()
			} else {
				require.Equal(t, c.LocalAddr().String(), call.Remote.String())
			}
			require.Equal(t, uid, call.PeerUID)
		})
	}
	require.Nil(t, CallFromContext(t.Context()))
}

// TestMaxCallsPerConn: beyond the bound nothing is read, and nothing is lost.
func TestMaxCallsPerConn(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCallsPerConn: 2})
	addr := s.listen(t, "tcp")
	conn := dialRaw(t, "tcp", addr)
	for xid := range uint32(5) {
		send(t, conn, record(message(xid, procBlock)))
	}
	for range 2 {
		<-s.h.entered
	}
	for range 3 {
		stillServed(t, dialRaw(t, "tcp", addr)) // somebody else, meanwhile
		require.Empty(t, s.h.entered)
		s.h.release <- struct{}{}
		readReplyBytes(t, conn)
		<-s.h.entered
	}
	s.h.release <- struct{}{}
	s.h.release <- struct{}{}
	readReplyBytes(t, conn)
	readReplyBytes(t, conn)
	stillServed(t, conn)
}

// TestMaxCalls: the bound is the server's, over all connections, and NULL is
// answered beyond it: a server that is busy is not a dead one.
func TestMaxCalls(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxCalls: 2})
	addr := s.listen(t, "tcp")
	var conns []net.Conn
	for range 3 {
		c := dialRaw(t, "tcp", addr)
		send(t, c, record(message(1, procBlock)))
		conns = append(conns, c)
	}
	<-s.h.entered
	<-s.h.entered
	stillServed(t, dialRaw(t, "tcp", addr))
	require.Empty(t, s.h.entered)
	for range 3 {
		s.h.release <- struct{}{}
	}
	<-s.h.entered
	for _, c := range conns {
		readReplyBytes(t, c)
	}
}

// TestMaxConns: at the bound the connection that is idle for longest makes room,
// and one with a call in flight does not.
func TestMaxConns(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxConns: 2})
	addr := s.listen(t, "tcp")
	busy := dialRaw(t, "tcp", addr)
	send(t, busy, record(message(1, procBlock)))
	<-s.h.entered
	idle := dialRaw(t, "tcp", addr)
	stillServed(t, idle)
	stillServed(t, dialRaw(t, "tcp", addr))
	_, err := idle.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	s.h.release <- struct{}{}
	require.EqualValues(t, 1, xidOf(readReplyBytes(t, busy)))
}

// flakyListener fails some times before it accepts.
type flakyListener struct {
	net.Listener
	errs []error
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.Listener.Accept()
}

// TestAcceptErrors: running out of descriptors is no end.
func TestAcceptErrors(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.run(t, func() error {
		return s.Serve(&flakyListener{l, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}})
	})
	stillServed(t, dialRaw(t, "tcp", l.Addr().String()))
}

// TestRegister: another version widens what PROG_MISMATCH says, and a handler
// can be replaced, while calls come in.
func TestRegister(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{})
	var re *ReplyError
	require.ErrorAs(t, c.Call(t.Context(), testProg, 2, 0, nil, nil), &re)
	require.Equal(t, []uint32{1, 3}, []uint32{re.Low, re.High})
	s.Register(testProg, 9, s.h)
	require.ErrorAs(t, c.Call(t.Context(), testProg, 2, 0, nil, nil), &re)
	require.Equal(t, []uint32{1, 9}, []uint32{re.Low, re.High})
	s.Register(testProg, 2, s.h)
	require.NoError(t, c.Call(t.Context(), testProg, 2, 0, nil, nil))
	require.ErrorIs(t, c.Call(t.Context(), testProg+1, 2, 0, nil, nil), ErrProgUnavail)
}
