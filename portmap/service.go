package portmap

import (
	"context"
	"net"
	"net/netip"

	"starfish/rpc"
)

// register enters the three versions of the portmapper into server.
func (s *Server) register(server *rpc.Server) {
	RegisterPmapProgPmapVers(server, version2{s.reg})
	b := rpcbind{s.reg}
	RegisterRpcbprogRpcbvers(server, version3{b})
	RegisterRpcbprogRpcbvers4(server, version4{b})
}

// rpcbind is what versions 3 and 4 share (RFC 1833 section 2).
type rpcbind struct{ reg *registry }

func (b rpcbind) RpcbprocSet(ctx context.Context, arg Rpcb) (bool, error) {
	call := rpc.CallFromContext(ctx)
	if err := mayChange(call); err != nil {
		return false, err
	}
	r := fromRpcb(arg)
	r.Owner = ownerName(call.PeerUID)
	return b.reg.set(r, false), nil
}

func (b rpcbind) RpcbprocUnset(ctx context.Context, arg Rpcb) (bool, error) {
	call := rpc.CallFromContext(ctx)
	if err := mayChange(call); err != nil {
		return false, err
	}
	owner := ownerName(call.PeerUID)
	if arg.RNetid == "" {
		return b.reg.unset(arg.RProg, arg.RVers, owner), nil
	}
	return b.reg.unset(arg.RProg, arg.RVers, owner, arg.RNetid), nil
}

// RpcbprocGetaddr answers for the transport of the call, whatever r_netid
// says, as rpcbind does.
func (b rpcbind) RpcbprocGetaddr(ctx context.Context, arg Rpcb) (string, error) {
	return b.address(rpc.CallFromContext(ctx), arg, false), nil
}

func (b rpcbind) address(call *rpc.Call, arg Rpcb, exact bool) string {
	netid, local := transport(call)
	r, ok := b.reg.lookup(arg.RProg, arg.RVers, netid, exact)
	if !ok {
		return ""
	}
	return mergeUaddr(r.Addr, local)
}

func (b rpcbind) RpcbprocDump(ctx context.Context) (RpcblistPtr, error) {
	var head RpcblistPtr
	tail := &head
	size := 28
	for _, r := range b.reg.all() {
		*tail = &RpList{RpcbMap: Rpcb{r.Prog, r.Vers, r.Netid, r.Addr, r.Owner}}
		tail = &(*tail).RpcbNext
		size += 24 + padded(r.Netid) + padded(r.Addr) + padded(r.Owner)
	}
	return head, fits(rpc.CallFromContext(ctx), size)
}

// mayChange lets callers on this host change the registry, over loopback or
// the unix socket; for others the RFC has AUTH_TOOWEAK.
func mayChange(call *rpc.Call) error {
	if call.Network == "unix" || addrOf(call.Remote).IsLoopback() {
		return nil
	}
	return rpc.AuthError(rpc.AUTH_TOOWEAK)
}

// transport is the netid of the call's transport, and the address on which
// the call arrived; none over the unix socket.
func transport(call *rpc.Call) (netid string, local netip.Addr) {
	if call.Network == "unix" {
		return "local", netip.Addr{}
	}
	local = addrOf(call.Local)
	if local.Is6() {
		return call.Network + "6", local
	}
	return call.Network, local
}

// addrOf is the IP of a TCP or UDP address, invalid for any other.
func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// portOf is the port of a registration over TCP or UDP, else 0.
func portOf(r Registration) uint32 {
	addr, err := ParseUaddr(r.Addr)
	if err != nil {
		return 0
	}
	return uint32(addr.Port())
}

// fits refuses an answer of size bytes where the transport cannot carry it: a
// list is complete or it is an error.
func fits(call *rpc.Call, size int) error {
	if call.Network == "udp" && size > MaxDatagram {
		return rpc.ErrSystem
	}
	return nil
}

// padded is the length of a string's bytes in XDR.
func padded(s string) int { return (len(s) + 3) &^ 3 }
