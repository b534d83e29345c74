package rpc

import (
	"context"
	"crypto/tls"
	"net"

	"starfish/xdr"
)

// Call is one call as the server received it.
type Call struct {
	XID, Prog, Vers, Proc uint32

	Cred, Verf OpaqueAuth
	Sys        *AuthsysParms        // the credential where it is AUTH_SYS, else nil; a label, never a proof
	Principal  any                  // what an Authenticator found
	Network    string               // "tcp", "udp" or "unix"
	Remote     net.Addr             // the caller
	Local      net.Addr             // the address that the call was sent to, also over UDP
	TLS        *tls.ConnectionState // nil without TLS; see Peer
	PeerUID    int                  // of the process at the other end of a unix socket, as the kernel says; else -1
}

// Handler answers the calls of one version of a program, several at a time.
//
// args is what stands behind the call's header. The result is appended to reply,
// which already holds room for the reply's header: the whole slice is returned,
// or nil for a void result. Neither may be kept, but what args.Opaque and
// args.String returned may. Bytes that are left in args are nobody's business.
//
// What an error becomes is said at ErrProgUnavail and its siblings; a panic is
// answered as ErrSystem; ErrNoReply is not answered. Procedure 0 does nothing and is answered by the server
// where the handler returns ErrProcUnavail for it. It does not count for MaxCalls,
// so that a busy server still shows that it lives; a handler must not block in it.
//
// ctx ends when the connection breaks or the server closes. A caller that has
// only sent its last call and closed that direction is still answered, and from
// here one that went away in an orderly way looks the same.
type Handler interface {
	ServeRPC(ctx context.Context, call *Call, args *xdr.Decoder, reply []byte) ([]byte, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, call *Call, args *xdr.Decoder, reply []byte) ([]byte, error)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, call *Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	return f(ctx, call, args, reply)
}

type callKey struct{}

// callContext is the context of one call, and the call.
type callContext struct {
	context.Context
	call    Call
	verf    OpaqueAuth  // of the reply
	refused *ReplyError // the reply, where it is a refusal
}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// CallFromContext returns the call that ctx was made for, nil if none.
func CallFromContext(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
