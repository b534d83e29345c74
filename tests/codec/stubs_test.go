package codec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/rpc"
	"starfish/tests/codec/differ"
	"starfish/tests/codec/sample"
	"starfish/xdr"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The foreign client never ends it.
		goleak.IgnoreAnyFunction("github.com/willscott/go-nfs-client/nfs.(*Target).cleanupCache"))
}

// errHandler is an error of the handler's own: the caller learns no more than
// that the server failed.
var errHandler = errors.New("the handler's own")

// first and second serve the two versions of the program of sample.x.
type first struct{ taken chan sample.Basics }
type second struct{}

func (first) SampleNull(context.Context) error { return nil }

func (h first) SampleTake(_ context.Context, arg sample.Basics) error {
	h.taken <- arg
	return nil
}

func (first) SampleGive(context.Context) (sample.Arrays, error) {
	return sample.Arrays{Name: "given", Sums: [8]int64{-1}}, nil
}

func (first) SampleList(_ context.Context, arg sample.ItemList) (sample.ItemList, error) {
	var back sample.ItemList
	for ; arg != nil; arg = arg.Next {
		back = &sample.Item{Name: arg.Name, Next: back}
	}
	return back, nil
}

func (first) SampleEcho(_ context.Context, arg string) (string, error) { return arg, nil }
func (first) SampleNot(_ context.Context, arg bool) (bool, error)      { return !arg, nil }

func (first) SampleLabel(_ context.Context, arg sample.Label) (sample.Label, error) {
	return arg + arg, nil // too long for a label where arg is longer than 4
}

func (first) SampleColor(_ context.Context, arg sample.Color) (sample.Color, error) {
	if arg == sample.DARK {
		return 0, errHandler
	}
	return arg, nil
}

func (second) SampleCount(_ context.Context, arg sample.Number) (sample.Number, error) {
	return arg + 1, nil
}

func (second) SampleUnion(_ context.Context, arg sample.ByEnum) (sample.ByEnum, error) {
	return arg, nil
}

func (second) SampleJoin(_ context.Context, a sample.Label, b sample.ItemList, c int64) (sample.Text, error) {
	return sample.Text(fmt.Sprint(a, b.Name, c)), nil
}

// serve starts a server of both versions and returns a client of it.
func serve(t *testing.T, h first) *rpc.Client {
	t.Helper()
	s := rpc.NewServer(rpc.ServerConfig{})
	sample.RegisterSampleProgSampleV1(s, h)
	sample.RegisterSampleProgSampleV2(s, second{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c, err := rpc.Dial(t.Context(), "tcp", ln.Addr().String(), rpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		select {
		case <-served:
		case <-time.After(10 * time.Second):
			t.Error("the server does not end")
		}
	})
	return c
}

func TestStubs(t *testing.T) {
	h := first{taken: make(chan sample.Basics, 1)}
	conn := serve(t, h)
	ctx := t.Context()
	c := sample.NewSampleProgSampleV1Client(conn)
	require.NoError(t, c.SampleNull(ctx))

	basics := sample.Basics{A: -1, E: 1 << 63, F: 0.5, H: true, I: sample.DARK, L: 7}
	require.NoError(t, c.SampleTake(ctx, basics))
	require.Equal(t, basics, <-h.taken)

	arrays, err := c.SampleGive(ctx)
	require.NoError(t, err)
	require.Equal(t, sample.Arrays{Name: "given", Sums: [8]int64{-1}}, arrays)

	list, err := c.SampleList(ctx, &sample.Item{Name: "a", Next: &sample.Item{Name: "b"}})
	require.NoError(t, err)
	require.Equal(t, &sample.Item{Name: "b", Next: &sample.Item{Name: "a"}}, list)
	list, err = c.SampleList(ctx, nil)
	require.NoError(t, err)
	require.Nil(t, list)

	long := strings.Repeat("long", 10_000)
	text, err := c.SampleEcho(ctx, long)
	require.NoError(t, err)
	require.Equal(t, long, text)

	yes, err := c.SampleNot(ctx, false)
	require.NoError(t, err)
	require.True(t, yes)

	color, err := c.SampleColor(ctx, sample.BLUE)
	require.NoError(t, err)
	require.Equal(t, sample.BLUE, color)

	v2 := sample.NewSampleProgSampleV2Client(conn)
	n, err := v2.SampleCount(ctx, 41)
	require.NoError(t, err)
	require.Equal(t, sample.Number(42), n)
	for range 20 {
		v, _ := random(t, rand.New(rand.NewPCG(15, 16)), differ.Of[sample.ByEnum]("by_enum"))
		want := reflect.ValueOf(v).Elem().Interface().(sample.ByEnum)
		got, err := v2.SampleUnion(ctx, want)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	joined, err := v2.SampleJoin(ctx, "label", &sample.Item{Name: "item"}, -9)
	require.NoError(t, err)
	require.Equal(t, sample.Text("labelitem-9"), joined)
}

// written answers with bytes that are there already.
type written struct{ first }

var _ sample.SampleProgSampleV1SampleListAppender = written{}

func (written) AppendSampleList(_ context.Context, arg sample.ItemList, reply []byte) ([]byte, error) {
	if arg == nil {
		return reply, errHandler
	}
	return append(reply, words(1, 1, 'w'<<24, 0)...), nil
}

func TestHandlerThatWritesItsResult(t *testing.T) {
	s := rpc.NewServer(rpc.ServerConfig{})
	s.Register(sample.SAMPLE_PROG, sample.SAMPLE_V1, sample.DispatchSampleProgSampleV1(written{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	conn, err := rpc.Dial(t.Context(), "tcp", ln.Addr().String(), rpc.ClientConfig{})
	require.NoError(t, err)
	c := sample.NewSampleProgSampleV1Client(conn)
	list, err := c.SampleList(t.Context(), &sample.Item{Name: "a"})
	require.NoError(t, err)
	require.Equal(t, &sample.Item{Name: "w"}, list)
	_, err = c.SampleList(t.Context(), nil)
	require.ErrorIs(t, err, rpc.ErrSystem)
	text, err := c.SampleEcho(t.Context(), "others as before")
	require.NoError(t, err)
	require.Equal(t, "others as before", text)
	require.NoError(t, conn.Close())
	require.NoError(t, s.Close())
	require.NoError(t, <-served)
}

func TestStubsRefuse(t *testing.T) {
	conn := serve(t, first{})
	ctx := t.Context()
	c := sample.NewSampleProgSampleV1Client(conn)

	_, err := c.SampleColor(ctx, sample.DARK)
	require.ErrorIs(t, err, rpc.ErrSystem)
	require.NotContains(t, err.Error(), errHandler.Error())
	_, err = c.SampleLabel(ctx, "longer")
	require.ErrorIs(t, err, rpc.ErrSystem, "a result that cannot be encoded")
	_, err = c.SampleLabel(ctx, "much longer")
	require.ErrorIs(t, err, xdr.ErrTooLong, "arguments that cannot be encoded are not sent")
	_, err = c.SampleColor(ctx, 77)
	require.ErrorIs(t, err, xdr.ErrEnum)

	word := func(n uint32) xdr.Appender {
		return xdr.AppendFunc(func(b []byte) ([]byte, error) { return xdr.AppendUint32(b, n), nil })
	}
	call := func(vers, proc uint32, args xdr.Appender) error {
		return conn.Call(ctx, sample.SAMPLE_PROG, vers, proc, args, nil)
	}
	require.ErrorIs(t, call(1, sample.SAMPLE_COLOR, word(77)), rpc.ErrGarbageArgs)
	require.ErrorIs(t, call(1, sample.SAMPLE_COLOR, nil), rpc.ErrGarbageArgs)
	require.ErrorIs(t, call(1, sample.SAMPLE_NOT, word(2)), rpc.ErrGarbageArgs)
	require.ErrorIs(t, call(1, sample.SAMPLE_ECHO, word(1<<31)), rpc.ErrGarbageArgs)
	require.ErrorIs(t, call(2, sample.SAMPLE_JOIN, word(0)), rpc.ErrGarbageArgs)
	require.ErrorIs(t, call(1, sample.SAMPLE_COUNT, word(1)), rpc.ErrProcUnavail)
	require.ErrorIs(t, call(2, sample.SAMPLE_ECHO, word(1)), rpc.ErrProcUnavail)
	require.ErrorIs(t, call(3, 0, nil), rpc.ErrProgMismatch)
	require.NoError(t, call(2, 0, nil), "procedure 0 is answered, declared or not")
	require.NoError(t, call(1, sample.SAMPLE_NULL, word(1)), "more arguments than declared, as libtirpc takes them")
}
