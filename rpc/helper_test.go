package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program of the recorded C server: see testdata/README.md.
const (
	testProg = 0x20000099
	procNull = iota - 1
	procEcho
	procWalk
	procMulti
	procCount
)

// Procedures of ours, for what the C server does not do.
const (
	procBlock  = 100 + iota // until the test says so, or the context ends
	procPanic               //
	procFail                // an error of the handler's
	procBig                 // as many zero bytes as asked for
	procDenied              // AUTH_TOOWEAK
	procRelay               // the error of another server, handed on
	procCaller              // who called, from where
)

// node is the list that the C server echoes.
type node struct {
	addr string
	v    uint64
}

func readList(d *xdr.Decoder) (list []node) {
	for d.More() {
		list = append(list, node{d.String(1 << 20), d.Uint64()})
	}
	return list
}

func appendList(b []byte, list []node) []byte {
	for _, n := range list {
		b = xdr.AppendBool(b, true)
		b, _ = xdr.AppendString(b, n.addr, 1<<20)
		b = xdr.AppendUint64(b, n.v)
	}
	return xdr.AppendBool(b, false)
}

// testHandler is the C server's program, and our procedures.
type testHandler struct {
	entered chan *Call    // a call of procBlock began
	release chan struct{} // lets one go on
	gone    chan error    // the error of a procBlock call's context
}

func newTestHandler() *testHandler {
	return &testHandler{make(chan *Call, 1000), make(chan struct{}, 1000), make(chan error, 1000)}
}

func (h *testHandler) ServeRPC(ctx context.Context, call *Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	switch call.Proc {
	case procEcho:
		list := readList(args)
		if args.Err() != nil {
			return nil, ErrGarbageArgs
		}
		return appendList(reply, list), nil
	case procWalk:
		list, sum := readList(args), args.Uint64()
		if args.Err() != nil {
			return nil, ErrGarbageArgs
		}
		for _, n := range list {
			sum += n.v
		}
		return xdr.AppendString(xdr.AppendUint64(reply, sum), "", 255)
	case procMulti:
		n := args.Int32()
		n += int32(len(args.String(1<<20))) + int32(args.Uint64())
		if args.Err() != nil {
			return nil, ErrGarbageArgs
		}
		return xdr.AppendInt32(reply, n), nil
	case procCount:
		list := readList(args)
		if args.Err() != nil {
			return nil, ErrGarbageArgs
		}
		return xdr.AppendUint64(reply, uint64(len(list))), nil
	case procBlock:
		h.entered <- call
		select {
		case <-h.release:
			return xdr.AppendUint32(reply, call.XID), nil
		case <-ctx.Done():
			h.gone <- ctx.Err()
			return nil, ctx.Err()
		}
	case procPanic:
		panic("a handler's bug")
	case procFail:
		return nil, errors.New("the disk is full")
	case procBig:
		return append(reply, make([]byte, args.Uint32())...), nil
	case procDenied:
		return nil, AuthError(AUTH_TOOWEAK)
	case procRelay:
		return nil, &ReplyError{AcceptStat: PROG_UNAVAIL, remote: true}
	case procCaller:
		c := CallFromContext(ctx)
		reply, _ = xdr.AppendString(reply, c.Remote.String(), 255)
		return xdr.AppendString(reply, c.Local.String(), 255)
	}
	return nil, ErrProcUnavail
}

var quiet = slog.New(slog.DiscardHandler)

// testServer is a server of versions 1 and 3, and where it listens.
type testServer struct {
	*Server
	h *testHandler
}

func newTestServer(t testing.TB, cfg ServerConfig) *testServer {
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	s := &testServer{NewServer(cfg), newTestHandler()}
	s.Register(testProg, 1, s.h)
	s.Register(testProg, 3, s.h)
	t.Cleanup(func() {
		_ = s.Close()
		if n, m := s.records.used.Load(), s.replies.used.Load(); n != 0 || m != 0 {
			t.Errorf("%d bytes of records and %d of replies are counted for nobody", n, m)
		}
	})
	return s
}

// listen serves one more socket and returns its address.
func (s *testServer) listen(t testing.TB, network string) string {
	if network == "udp" {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		s.run(t, func() error { return s.ServePacket(c) })
		return c.LocalAddr().String()
	}
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	s.run(t, func() error { return s.Serve(l) })
	return l.Addr().String()
}

// run runs a Serve, which must end without an error when the test does.
func (s *testServer) run(t testing.TB, serve func() error) {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	t.Cleanup(func() {
		_ = s.Close()
		select {
		case err := <-ended:
			if !errors.Is(err, ErrClosed) { // a test may end before it begins
				require.NoError(t, err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve does not return")
		}
	})
}

func dial(t testing.TB, network, addr string, cfg ClientConfig) *Client {
	c, err := Dial(t.Context(), network, addr, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// call is Call to version 1 of the test program, with raw arguments and result.
func call(ctx context.Context, c Caller, proc uint32, args ...byte) ([]byte, error) {
	var out []byte
	err := c.Call(ctx, testProg, 1, proc,
		xdr.AppendFunc(func(b []byte) ([]byte, error) { return append(b, args...), nil }),
		xdr.DecodeFunc(func(d *xdr.Decoder) error { out = append(out, d.Rest()...); return nil }))
	return out, err
}
