package portmap

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"strings"

	"starfish/rpc"
)

// A taddr is a sockaddr of the host's own C library: the family in the host's
// byte order, port and address in network order.
const (
	afUnix, sizeUnix   = 1, 110 // struct sockaddr_un, less its path where that is shorter
	afInet, sizeInet   = 2, 16  // struct sockaddr_in
	afInet6, sizeInet6 = 10, 28 // struct sockaddr_in6
)

// RpcbprocUaddr2taddr makes a sockaddr of a universal address of the transport
// of the call; empty where it is none.
func (rpcbind) RpcbprocUaddr2taddr(ctx context.Context, uaddr string) (Netbuf, error) {
	netid, _ := transport(rpc.CallFromContext(ctx))
	if family := familyOf(netid); family == "loopback" {
		return unixTaddr(uaddr), nil
	}
	addr, err := ParseUaddr(uaddr)
	if err != nil || addr.Addr().Is6() != strings.HasSuffix(netid, "6") {
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

// unixTaddr makes a sockaddr of a path.
func unixTaddr(path string) Netbuf {
	if !strings.HasPrefix(path, "/") || len(path) > sizeUnix-3 {
		return Netbuf{}
	}
	buf := binary.NativeEndian.AppendUint16(nil, afUnix)
	return Netbuf{Maxlen: sizeUnix, Buf: append(buf, path...)}
}

// RpcbprocTaddr2uaddr is the reverse; "" for what is no sockaddr.
func (rpcbind) RpcbprocTaddr2uaddr(_ context.Context, arg Netbuf) (string, error) {
	b := arg.Buf
	if len(b) < 2 {
		return "", nil
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == afInet && len(b) >= sizeInet:
		return Uaddr(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))), nil
	case family == afInet6 && len(b) >= sizeInet6:
		return Uaddr(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))), nil
	case family == afUnix && len(b) <= sizeUnix:
		path, _, _ := bytes.Cut(b[2:], []byte{0})
		return string(path), nil
	}
	return "", nil
}
