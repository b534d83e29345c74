package rpc

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// FuzzServerMessage: whatever comes, there is no answer or one that a client
// can read, to the same xid.
func FuzzServerMessage(f *testing.F) {
	for _, seed := range []string{
		nullCall, nullReply, "",
		"11223344 00000000 00000003",
		"11223344 00000000 00000002 20000099 00000002 00000000 00000000 00000000 00000000 00000000",
		"11223344 00000000 00000002 20000099 00000001 00000001 00000001 7fffffff",
		"11223344 00000000 00000002 20000099 00000001 00000001 00000000 00000000 00000000 00000000 00000001 00000001 61000000 00000000 00000007 00000000",
		"11223344 00000000 00000002 20000099 00000001 00000000 00000001 00000018 6b0c9211 00000002 766d0000 00000000 00000000 00000000 00000000 00000000",
		"11223344 00000000 00000002 20000099 00000001 00000003 00000000 00000000 00000000 00000000 00000000 7fffffff",
	} {
		f.Add(unhex(f, seed))
	}
	s := NewServer(ServerConfig{Logger: quiet, MaxRecord: 1 << 20})
	h := newTestHandler()
	quick := HandlerFunc(func(ctx context.Context, c *Call, d *xdr.Decoder, b []byte) ([]byte, error) {
		if c.Proc > procCount {
			return nil, ErrProcUnavail // those that block
		}
		return h.ServeRPC(ctx, c, d, b)
	})
	s.Register(testProg, 1, quick)
	s.Register(testProg, 3, quick)
	f.Fuzz(func(t *testing.T, in []byte) {
		ctx := &callContext{Context: t.Context()}
		d := xdr.NewDecoder(in)
		refusal := readCall(d, &ctx.call)
		if errors.Is(refusal, errNotCall) {
			return
		}
		handler, refusal := s.admit(ctx, refusal)
		reply := s.answer(ctx, handler, refusal, d, make([]byte, 0, 100))[markLen:]
		xid, ok := replyXID(reply)
		require.True(t, ok)
		require.Equal(t, in[:4], xdr.AppendUint32(nil, xid))
		rd := xdr.NewDecoder(reply)
		if err := readReply(rd, nil); err != nil {
			require.NotErrorIs(t, err, ErrBadReply)
			require.Zero(t, rd.Len())
		}
	})
}

// FuzzClientReply: whatever comes is a result, a refusal or ErrBadReply, and
// what can be read is what rpc_msg.x says.
func FuzzClientReply(f *testing.F) {
	for _, seed := range []string{
		nullReply, nullCall, "",
		"11223344 00000001 00000001 00000001 00000005",
		"11223344 00000001 00000001 00000000 00000002 00000002",
		"11223344 00000001 00000000 00000000 00000000 00000002 00000001 00000003",
		"11223344 00000001 00000000 00000007 00000008 5354415254544c53 00000000 0000002a",
		"11223344 00000001 00000000 00000000 00000191 00000000",
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if _, ok := replyXID(in); !ok {
			return
		}
		d := xdr.NewDecoder(in)
		err := readReply(d, nil)
		var re *ReplyError
		if errors.As(err, &re) {
			require.True(t, re.remote)
			require.NotEmpty(t, re.Error())
		} else if err != nil {
			require.ErrorIs(t, err, ErrBadReply)
		}
		require.ErrorIs(t, refusalFor(err), ErrSystem, "what one server says is not what the next one says")
	})
}
