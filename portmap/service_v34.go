package portmap

import (
	"context"
	"strings"
	"time"

	"starfish/rpc"
	"starfish/xdr"
)

// version3 is rpcbind version 3 (RFC 1833 section 2.2.1).
type version3 struct{ rpcbind }

// ServeRPC serves a call to version 3.
func (v version3) ServeRPC(ctx context.Context, call *rpc.Call, args *xdr.Decoder, b []byte) ([]byte, error) {
	switch call.Proc {
	case 0:
		return b, nil
	case RPCBPROC_SET:
		return serveRpcbprogRpcbversRpcbprocSet(ctx, v, args, b)
	case RPCBPROC_UNSET:
		return serveRpcbprogRpcbversRpcbprocUnset(ctx, v, args, b)
	case RPCBPROC_GETADDR:
		return serveRpcbprogRpcbversRpcbprocGetaddr(ctx, v, args, b)
	case RPCBPROC_DUMP:
		d := v.s.reg.dump()
		return v.s.appendList(call, b, d.rpcbXDR, d.err)
	case RPCBPROC_CALLIT:
		return serveRpcbprogRpcbversRpcbprocCallit(ctx, v, args, b)
	case RPCBPROC_GETTIME:
		return serveRpcbprogRpcbversRpcbprocGettime(ctx, v, args, b)
	case RPCBPROC_UADDR2TADDR:
		return serveRpcbprogRpcbversRpcbprocUaddr2taddr(ctx, v, args, b)
	case RPCBPROC_TADDR2UADDR:
		return serveRpcbprogRpcbversRpcbprocTaddr2uaddr(ctx, v, args, b)
	}
	return nil, rpc.ErrProcUnavail
}

// version4 is rpcbind version 4 (RFC 1833 section 2.2.1).
type version4 struct{ rpcbind }

// ServeRPC serves a call to version 4.
func (v version4) ServeRPC(ctx context.Context, call *rpc.Call, args *xdr.Decoder, b []byte) ([]byte, error) {
	switch call.Proc {
	case 0:
		return b, nil
	case RPCBPROC_SET:
		return serveRpcbprogRpcbvers4RpcbprocSet(ctx, v, args, b)
	case RPCBPROC_UNSET:
		return serveRpcbprogRpcbvers4RpcbprocUnset(ctx, v, args, b)
	case RPCBPROC_GETADDR:
		return serveRpcbprogRpcbvers4RpcbprocGetaddr(ctx, v, args, b)
	case RPCBPROC_DUMP:
		d := v.s.reg.dump()
		return v.s.appendList(call, b, d.rpcbXDR, d.err)
	case RPCBPROC_BCAST:
		return serveRpcbprogRpcbvers4RpcbprocBcast(ctx, v, args, b)
	case RPCBPROC_GETTIME:
		return serveRpcbprogRpcbvers4RpcbprocGettime(ctx, v, args, b)
	case RPCBPROC_UADDR2TADDR:
		return serveRpcbprogRpcbvers4RpcbprocUaddr2taddr(ctx, v, args, b)
	case RPCBPROC_TADDR2UADDR:
		return serveRpcbprogRpcbvers4RpcbprocTaddr2uaddr(ctx, v, args, b)
	case RPCBPROC_GETVERSADDR:
		return serveRpcbprogRpcbvers4RpcbprocGetversaddr(ctx, v, args, b)
	case RPCBPROC_INDIRECT:
		return serveRpcbprogRpcbvers4RpcbprocIndirect(ctx, v, args, b)
	case RPCBPROC_GETADDRLIST:
		return serveRpcbprogRpcbvers4RpcbprocGetaddrlist(ctx, v, args, b)
	case RPCBPROC_GETSTAT:
		return serveRpcbprogRpcbvers4RpcbprocGetstat(ctx, v, args, b)
	}
	return nil, rpc.ErrProcUnavail
}

// RpcbprocCallit passes a call on, or is silent.
func (b rpcbind) RpcbprocCallit(ctx context.Context, arg RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return b.passOn(ctx, arg, false)
}

// RpcbprocBcast is CALLIT by another name.
func (v version4) RpcbprocBcast(ctx context.Context, arg RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return v.passOn(ctx, arg, false)
}

// RpcbprocIndirect passes a call on, and answers errors too.
func (v version4) RpcbprocIndirect(ctx context.Context, arg RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return v.passOn(ctx, arg, true)
}

func (b rpcbind) passOn(ctx context.Context, arg RpcbRmtcallargs, indirect bool) (RpcbRmtcallres, error) {
	to, results, err := b.s.passOn(ctx, b.vers, remoteCall{arg.Prog, arg.Vers, arg.Proc, arg.Args, indirect})
	if err != nil {
		return RpcbRmtcallres{}, err
	}
	return RpcbRmtcallres{Addr: Uaddr(to), Results: results}, nil
}

// RpcbprocGetstat is the counters of stats.go.
func (v version4) RpcbprocGetstat(ctx context.Context) (RpcbStatByvers, error) {
	return v.s.stats.answer(), nil
}

// RpcbprocGetversaddr is GETADDR of this version and no other.
func (v version4) RpcbprocGetversaddr(ctx context.Context, arg Rpcb) (string, error) {
	return v.address(rpc.CallFromContext(ctx), arg, true), nil
}

// RpcbprocGetaddrlist lists the transports of the caller's protocol family
// over which this version of the program is served.
func (v version4) RpcbprocGetaddrlist(ctx context.Context, arg Rpcb) (RpcbEntryListPtr, error) {
	netid, local := transport(rpc.CallFromContext(ctx))
	family := familyOf(netid)
	var head RpcbEntryListPtr
	tail := &head
	for _, r := range v.s.reg.of(arg.RProg, arg.RVers) {
		if family == "" || familyOf(r.Netid) != family {
			continue
		}
		addr := mergeUaddr(r.Addr, local)
		if addr == "" {
			continue
		}
		semantics, proto := semanticsStream, "tcp"
		switch strings.ToLower(r.Netid) {
		case "udp", "udp6":
			semantics, proto = semanticsDatagram, "udp"
		case "local":
			proto = "-"
		}
		*tail = &RpcbEntryList{RpcbEntryMap: RpcbEntry{RMaddr: addr, RNcNetid: r.Netid,
			RNcSemantics: semantics, RNcProtofmly: family, RNcProto: proto}}
		tail = &(*tail).RpcbEntryNext
	}
	v.s.stats.lookedUp(v.vers, arg.RProg, arg.RVers, netid, head != nil)
	return head, nil
}

// Values of r_nc_semantics (RFC 1833 section 2.1).
const (
	semanticsDatagram uint32 = 1 // connectionless
	semanticsStream   uint32 = 3 // connection oriented, with graceful close
)

// familyOf is the protocol family of a netid as /etc/netconfig has it.
func familyOf(netid string) string {
	switch strings.ToLower(netid) {
	case "tcp", "udp":
		return "inet"
	case "tcp6", "udp6":
		return "inet6"
	case "local":
		return "loopback"
	}
	return ""
}

// RpcbprocGettime is the time of day here, in seconds since 1970.
func (rpcbind) RpcbprocGettime(context.Context) (uint32, error) {
	return uint32(time.Now().Unix()), nil
}
