package portmap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"starfish/rpc"
)

// register enters the three versions of the portmapper into server.
func (s *Server) register(server *rpc.Server) {
	server.Register(PMAP_PROG, PMAP_VERS, guard{s, PMAP_VERS, DispatchPmapProgPmapVers(version2{s})})
	server.Register(RPCBPROG, RPCBVERS, guard{s, RPCBVERS, DispatchRpcbprogRpcbvers(version3{rpcbind{s, RPCBVERS}})})
	server.Register(RPCBPROG, RPCBVERS4, guard{s, RPCBVERS4, DispatchRpcbprogRpcbvers4(version4{rpcbind{s, RPCBVERS4}})})
}

// rpcbind is what versions 3 and 4 share (RFC 1833 section 2).
type rpcbind struct {
	s    *Server
	vers uint32
}

func (b rpcbind) RpcbprocSet(ctx context.Context, arg Rpcb) (bool, error) {
	return b.s.set(rpc.CallFromContext(ctx), b.vers, fromRpcb(arg))
}

func (b rpcbind) RpcbprocUnset(ctx context.Context, arg Rpcb) (bool, error) {
	var netids []string
	if arg.RNetid != "" {
		netids = []string{arg.RNetid}
	}
	return b.s.unset(rpc.CallFromContext(ctx), b.vers, arg.RProg, arg.RVers, netids...)
}

// RpcbprocGetaddr answers for the transport of the call, whatever r_netid
// says, as rpcbind does.
func (b rpcbind) RpcbprocGetaddr(ctx context.Context, arg Rpcb) (string, error) {
	return b.address(rpc.CallFromContext(ctx), arg, false), nil
}

func (b rpcbind) address(call *rpc.Call, arg Rpcb, exact bool) string {
	netid, local := transport(call)
	addr := ""
	if r, ok := b.s.reg.lookup(arg.RProg, arg.RVers, netid, exact); ok {
		addr = mergeUaddr(r.Addr, local)
	}
	b.s.stats.lookedUp(b.vers, arg.RProg, arg.RVers, netid, addr != "")
	return addr
}

func (b rpcbind) RpcbprocDump(context.Context) (RpcblistPtr, error) { return b.s.reg.dump().rpcb, nil }

// AppendRpcbprocDump answers with the list as it was written when it last changed.
func (b rpcbind) AppendRpcbprocDump(ctx context.Context, reply []byte) ([]byte, error) {
	d := b.s.reg.dump()
	return b.s.appendList(rpc.CallFromContext(ctx), reply, d.rpcbXDR, d.err)
}

// Their lists are written once, not for each call.
var (
	_ PmapProgPmapVersPmapprocDumpAppender  = version2{}
	_ RpcbprogRpcbversRpcbprocDumpAppender  = version3{}
	_ RpcbprogRpcbvers4RpcbprocDumpAppender = version4{}
)

// appendList appends a list in XDR, which costs one copy. It is complete or it is
// an error: where a datagram cannot carry it, and where too many long answers
// were given of late.
func (s *Server) appendList(call *rpc.Call, reply, list []byte, err error) ([]byte, error) {
	const header = 24
	switch {
	case err != nil:
		return nil, err
	case call.Network == "udp" && header+len(list) > MaxDatagram:
		if isLocal(call) {
			return nil, rpc.ErrSystem
		}
		return nil, rpc.ErrProcUnavail // over TCP a stranger gets it
	case !s.long.allow(len(list), time.Now()):
		s.cfg.Metrics.Refused(RefusedLong)
		return nil, fmt.Errorf("%w: too many long answers", rpc.ErrSystem)
	}
	return append(slices.Grow(reply, len(list)), list...), nil
}

// set registers r for the caller.
func (s *Server) set(call *rpc.Call, vers uint32, r Registration) (bool, error) {
	who, err := s.changer(call)
	if err != nil {
		return false, err
	}
	if !who.reserved && !s.cfg.Insecure && reservedPort(r.Addr) {
		s.cfg.Metrics.Refused(RefusedPort)
		s.cfg.Logger.Warn("registration of a port below 1024 refused: it takes uid 0 on the unix socket, or a source port below 1024",
			"prog", rpc.Program(r.Prog), "vers", r.Vers, "netid", r.Netid, "addr", r.Addr, "from", call.Remote, "uid", call.PeerUID)
		return false, nil
	}
	r.Owner = who.owner
	ok := s.reg.set(r, false)
	s.stats.changed(vers, RPCBPROC_SET, ok)
	s.cfg.Logger.Debug("set", "prog", rpc.Program(r.Prog), "vers", r.Vers, "netid", r.Netid, "addr", r.Addr, "owner", r.Owner, "ok", ok)
	return ok, nil
}

// unset removes registrations for the caller.
func (s *Server) unset(call *rpc.Call, vers, prog, progVers uint32, netids ...string) (bool, error) {
	who, err := s.changer(call)
	if err != nil {
		return false, err
	}
	ok := s.reg.unset(prog, progVers, who.owner, netids...)
	s.stats.changed(vers, RPCBPROC_UNSET, ok)
	s.cfg.Logger.Debug("unset", "prog", rpc.Program(prog), "vers", progVers, "netids", netids, "owner", who.owner, "ok", ok)
	return ok, nil
}

// caller is who changes the registry.
type caller struct {
	owner    string // of what it registers
	reserved bool   // may register ports below 1024
}

// changer tells who a caller is by what the kernel says of it, never by its own
// word. Callers on this host may change the registry, over loopback or the unix
// socket; for others the RFC has AUTH_TOOWEAK.
func (s *Server) changer(call *rpc.Call) (caller, error) {
	switch {
	case call.Network == "unix":
		return caller{ownerName(call.PeerUID), call.PeerUID == 0}, nil
	case !isLocal(call):
		s.cfg.Metrics.Refused(RefusedRemote)
		s.cfg.Logger.Warn("SET or UNSET from another host refused", "from", call.Remote)
		return caller{}, rpc.AuthError(rpc.AUTH_TOOWEAK)
	case addrPortOf(call.Remote).Port() < s.reserved:
		return caller{ownerSuperuser, true}, nil
	}
	return caller{owner: ownerUnknown}, nil
}

// ownerName is the owner of what a peer of the unix socket registers; its uid is
// negative where the kernel does not say it.
func ownerName(uid int) string {
	switch {
	case uid < 0:
		return ownerUnknown
	case uid == 0:
		return ownerSuperuser
	}
	return strconv.Itoa(uid)
}

// reservedPort tells whether a universal address has a port below 1024.
func reservedPort(uaddr string) bool {
	addr, err := ParseUaddr(uaddr)
	return err == nil && addr.Port() < ipportReserved
}

// ipportReserved is IPPORT_RESERVED: below it are the ports of the system.
const ipportReserved = 1024

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
func addrOf(a net.Addr) netip.Addr { return addrPortOf(a).Addr().Unmap() }

// addrPortOf is a TCP or UDP address, invalid for any other.
func addrPortOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// portOf is the port of a registration over TCP or UDP, else 0.
func portOf(r Registration) uint32 {
	addr, err := ParseUaddr(r.Addr)
	if err != nil {
		return 0
	}
	return uint32(addr.Port())
}
