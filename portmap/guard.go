package portmap

import (
	"context"
	"fmt"
	"time"

	"starfish/rpc"
	"starfish/xdr"
)

// Metrics receives what a Server counts, as it happens. Its methods are called
// concurrently, and must not block.
type Metrics interface {
	rpc.Metrics
	// Refused counts a call that was not served, by one of the Refused reasons.
	Refused(reason string)
}

// Reasons for which calls are refused, as Metrics gets them.
const (
	RefusedRate          = "rate"          // too many calls of one source
	RefusedAmplification = "amplification" // the answer over UDP would be too long for a stranger
	RefusedLong          = "long"          // too many long answers of late
	RefusedRemote        = "remote"        // SET or UNSET from another host
	RefusedPort          = "port"          // SET of a reserved port by who may not
	RefusedForward       = "forward"       // a CALLIT that is not passed on
)

// Reasons are all of them.
var Reasons = []string{RefusedRate, RefusedAmplification, RefusedLong, RefusedRemote, RefusedPort, RefusedForward}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) Called(*rpc.Call, rpc.CallResult) {}
func (noMetrics) Connected(string, int)            {}
func (noMetrics) Dropped(string, string)           {}
func (noMetrics) Refused(string)                   {}

// guard stands before a version of the portmapper: it counts the calls, and
// holds strangers to the bounds of limits.go.
type guard struct {
	s    *Server
	vers uint32
	next rpc.Handler
}

// ServeRPC serves a call. A CALLIT, under each of its names, that fails for
// whatever reason gets no answer over UDP: it was sent to many (RFC 1833 sections
// 2.2.1 and 3.2).
func (g guard) ServeRPC(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	answer, err := g.serve(ctx, call, args, reply)
	if err != nil && call.Proc == RPCBPROC_CALLIT && call.Network == "udp" {
		return nil, fmt.Errorf("%w: %w", rpc.ErrNoReply, err)
	}
	return answer, err
}

// serve serves a call, unless its source calls too often, or gets more from
// us than it sent.
func (g guard) serve(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	size := args.Offset() + args.Len()
	stranger := !isLocal(call)
	if l := g.limiterOf(call); stranger && l != nil && !l.allow(addrOf(call.Remote), time.Now()) {
		g.s.cfg.Metrics.Refused(RefusedRate)
		return nil, rpc.ErrSystem // 24 bytes, less than any call has
	}
	g.s.stats.called(g.vers, call.Proc)
	if g.s.calls.Enabled(ctx, g.s.callLevel) {
		g.s.calls.Log(ctx, g.s.callLevel, "call", "vers", g.vers, "proc", ProcName(g.vers, call.Proc),
			"from", call.Remote, "network", call.Network, "uid", call.PeerUID)
	}
	before := len(reply)
	answer, err := g.next.ServeRPC(ctx, call, args, reply)
	const header = 24
	if err == nil && stranger && call.Network == "udp" && header+len(answer)-before > MaxAmplification*size {
		g.s.cfg.Metrics.Refused(RefusedAmplification)
		return nil, rpc.ErrProcUnavail // a stranger can ask over TCP
	}
	return answer, err
}

// limiterOf is what bounds the calls of a source: few of those that are answered
// at length or passed on, many look-ups, which gain nobody anything.
func (g guard) limiterOf(call *rpc.Call) *limiter {
	long := call.Proc == RPCBPROC_DUMP
	if g.vers == RPCBVERS4 {
		long = long || call.Proc == RPCBPROC_GETSTAT || call.Proc == RPCBPROC_INDIRECT ||
			call.Proc == RPCBPROC_GETADDRLIST && call.Network == "udp"
	}
	if long || call.Proc == RPCBPROC_CALLIT {
		return g.s.limiter
	}
	return g.s.lookups
}

// isLocal tells whether a call comes from this host: over the unix socket, or
// from a loopback address.
func isLocal(call *rpc.Call) bool {
	return call.Network == "unix" || addrOf(call.Remote).IsLoopback()
}

// procNames are the procedures of versions 3 and 4 by their numbers; those of
// version 2 have the same numbers, and two other names.
var procNames = []string{"NULL", "SET", "UNSET", "GETADDR", "DUMP", "CALLIT", "GETTIME", "UADDR2TADDR", "TADDR2UADDR",
	"GETVERSADDR", "INDIRECT", "GETADDRLIST", "GETSTAT"}

// ProcName names a procedure of a version of the portmapper: "GETADDR". It is
// "other" where there is no such procedure.
func ProcName(vers, proc uint32) string {
	switch {
	case vers < PMAP_VERS || vers > RPCBVERS4 || proc > highest[vers-PMAP_VERS]:
		return "other"
	case vers == PMAP_VERS && proc == PMAPPROC_GETPORT:
		return "GETPORT"
	case vers == RPCBVERS4 && proc == RPCBPROC_BCAST:
		return "BCAST"
	}
	return procNames[proc]
}
