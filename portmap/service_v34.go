package portmap

import (
	"context"
	"strings"
	"time"

	"starfish/rpc"
)

// version3 is rpcbind version 3 (RFC 1833 section 2.2.1).
type version3 struct{ rpcbind }

// version4 is rpcbind version 4 (RFC 1833 section 2.2.1).
type version4 struct{ rpcbind }

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
