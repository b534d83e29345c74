package rpc

import (
	"context"
	"errors"
	"io"
	"time"
)

// Metrics is told what a server does, for counters and histograms. Its methods
// are called for each call, by several goroutines at once: they must be quick.
type Metrics interface {
	// Called is told of a call and its reply.
	Called(c *Call, r CallResult)
	// Connected is told of a stream connection that begins, 1, or ends, -1.
	Connected(network string, change int)
	// Dropped is told of what got no reply, and why: one of DropReasons.
	Dropped(network, reason string)
}

// CallResult is how a call ended.
type CallResult struct {
	Err     *ReplyError   // nil: success
	Took    time.Duration // of the handler
	In, Out int           // bytes of the call and the reply, without record marks
}

// The reasons for which a connection is closed, or a message gets no reply.
const (
	DropNotCall   = "not_call"  // a message that is no call
	DropRecord    = "record"    // marks that make no record, or a too long one
	DropStalled   = "stalled"   // no more came of a record, or was taken of a reply
	DropIdle      = "idle"      // no calls for IdleTimeout
	DropEvicted   = "evicted"   // others needed the room
	DropTLS       = "tls"       // the handshake failed
	DropBroken    = "broken"    // by the other side
	DropSilent    = "silent"    // a call whose handler says ErrNoReply
	DropDuplicate = "duplicate" // a call over UDP that was sent again: it got the reply of the first, or the first still runs
)

// DropReasons are all reasons that Metrics.Dropped is given.
var DropReasons = []string{DropNotCall, DropRecord, DropStalled, DropIdle, DropEvicted, DropTLS, DropBroken, DropSilent, DropDuplicate}

// dropReason says why a connection that ends with err is dropped.
func dropReason(err error, inRecord bool) string {
	switch {
	case errors.Is(err, ErrTLS):
		return DropTLS
	case errors.Is(err, errNotCall):
		return DropNotCall
	case errors.Is(err, ErrTooLong), errors.Is(err, ErrRecord), errors.Is(err, io.ErrUnexpectedEOF):
		return DropRecord
	case isTimeout(err) && inRecord:
		return DropStalled
	case isTimeout(err):
		return DropIdle
	}
	return DropBroken
}

// TraceFunc is called when a call begins, on the server before its handler runs
// and on the client before it is encoded. The call goes on with the context that
// it returns; done, unless nil, is told how it ended.
type TraceFunc func(ctx context.Context, prog, vers, proc uint32) (_ context.Context, done func(error))

// start calls f.
func (f TraceFunc) start(ctx context.Context, prog, vers, proc uint32) (context.Context, func(error)) {
	if f == nil {
		return ctx, nil
	}
	return f(ctx, prog, vers, proc)
}

// noMetrics is Metrics for nobody.
type noMetrics struct{}

func (noMetrics) Called(*Call, CallResult) {}
func (noMetrics) Connected(string, int)    {}
func (noMetrics) Dropped(string, string)   {}
