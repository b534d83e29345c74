package portmap

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"starfish/rpc"
)

// version3 is rpcbind version 3 (RFC 1833 section 2.2.1).
type version3 struct{ rpcbind }

// RpcbprocCallit is not served: it lets anybody call programs in our name.
func (version3) RpcbprocCallit(context.Context, RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return RpcbRmtcallres{}, rpc.ErrProcUnavail
}

// version4 is rpcbind version 4 (RFC 1833 section 2.2.1).
type version4 struct{ rpcbind }

// RpcbprocBcast is not served, like CALLIT.
func (version4) RpcbprocBcast(context.Context, RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return RpcbRmtcallres{}, rpc.ErrProcUnavail
}

// RpcbprocIndirect is not served, like CALLIT.
func (version4) RpcbprocIndirect(context.Context, RpcbRmtcallargs) (RpcbRmtcallres, error) {
	return RpcbRmtcallres{}, rpc.ErrProcUnavail
}

// RpcbprocGetstat is not served.
func (version4) RpcbprocGetstat(context.Context) (RpcbStatByvers, error) {
	return RpcbStatByvers{}, rpc.ErrProcUnavail
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
	for _, r := range v.reg.all() {
		if r.Prog != arg.RProg || r.Vers != arg.RVers || familyOf(r.Netid) != family || family == "" {
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

// A taddr is a sockaddr of the host's own C library: the family in the host's
// byte order, port and address in network order.
const (
	afInet, sizeInet   = 2, 16  // struct sockaddr_in
	afInet6, sizeInet6 = 10, 28 // struct sockaddr_in6
)

// RpcbprocUaddr2taddr makes a sockaddr of a universal address; empty where it
// is none.
func (rpcbind) RpcbprocUaddr2taddr(_ context.Context, uaddr string) (Netbuf, error) {
	addr, err := ParseUaddr(uaddr)
	if err != nil {
		return Netbuf{}, nil
	}
	var buf []byte
	if addr.Addr().Is4() {
		buf = make([]byte, sizeInet)
		binary.NativeEndian.PutUint16(buf, afInet)
		copy(buf[4:], addr.Addr().AsSlice())
	} else {
		buf = make([]byte, sizeInet6)
		binary.NativeEndian.PutUint16(buf, afInet6)
		copy(buf[8:], addr.Addr().AsSlice())
	}
	binary.BigEndian.PutUint16(buf[2:], addr.Port())
	return Netbuf{Maxlen: uint32(len(buf)), Buf: buf}, nil
}

// RpcbprocTaddr2uaddr is the reverse; "" for what is no sockaddr.
func (rpcbind) RpcbprocTaddr2uaddr(_ context.Context, arg Netbuf) (string, error) {
	b := arg.Buf
	if len(b) < sizeInet {
		return "", nil
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == afInet:
		return Uaddr(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)), nil
	case family == afInet6 && len(b) >= sizeInet6:
		return Uaddr(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)), nil
	}
	return "", nil
}
