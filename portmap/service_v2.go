package portmap

import (
	"context"

	"starfish/rpc"
	"starfish/xdr"
)

// version2 is the portmapper of RFC 1833 section 3: a view of the registry
// that shows TCP and UDP over IPv4 as protocol and port.
type version2 struct{ s *Server }

// ServeRPC serves a call to version 2.
func (v version2) ServeRPC(ctx context.Context, call *rpc.Call, args *xdr.Decoder, b []byte) ([]byte, error) {
	switch call.Proc {
	case PMAPPROC_NULL:
		return b, nil
	case PMAPPROC_SET:
		return servePmapProgPmapVersPmapprocSet(ctx, v, args, b)
	case PMAPPROC_UNSET:
		return servePmapProgPmapVersPmapprocUnset(ctx, v, args, b)
	case PMAPPROC_GETPORT:
		return servePmapProgPmapVersPmapprocGetport(ctx, v, args, b)
	case PMAPPROC_DUMP:
		d := v.s.reg.dump()
		return v.s.appendList(call, b, d.pmapXDR, d.err)
	case PMAPPROC_CALLIT:
		return servePmapProgPmapVersPmapprocCallit(ctx, v, args, b)
	}
	return nil, rpc.ErrProcUnavail
}

func (v version2) PmapprocNull(context.Context) error { return nil }

func (v version2) PmapprocSet(ctx context.Context, arg Mapping) (bool, error) {
	netid, addr := netidOf(arg.Prot), ""
	if netid != "" && arg.Port <= 65535 {
		addr = WildcardUaddr(netid, uint16(arg.Port))
	}
	return v.s.set(rpc.CallFromContext(ctx), PMAP_VERS, Registration{Prog: arg.Prog, Vers: arg.Vers, Netid: netid, Addr: addr})
}

// PmapprocUnset removes both transports: the protocol and port are ignored
// (RFC 1833 section 3.2).
func (v version2) PmapprocUnset(ctx context.Context, arg Mapping) (bool, error) {
	return v.s.unset(rpc.CallFromContext(ctx), PMAP_VERS, arg.Prog, arg.Vers, "tcp", "udp")
}

func (v version2) PmapprocGetport(_ context.Context, arg Mapping) (uint32, error) {
	netid, port := netidOf(arg.Prot), uint32(0)
	if netid == "" {
		return 0, nil // not counted either
	}
	if r, ok := v.s.reg.lookup(arg.Prog, arg.Vers, netid, false); ok {
		port = portOf(r)
	}
	v.s.stats.lookedUp(PMAP_VERS, arg.Prog, arg.Vers, netid, port != 0)
	return port, nil
}

func (v version2) PmapprocDump(context.Context) (PmaplistPtr, error) { return v.s.reg.dump().pmap, nil }

func (v version2) PmapprocCallit(ctx context.Context, arg CallArgs) (CallResult, error) {
	to, results, err := v.s.passOn(ctx, PMAP_VERS, remoteCall{prog: arg.Prog, vers: arg.Vers, proc: arg.Proc, args: arg.Args})
	return CallResult{Port: uint32(to.Port()), Res: results}, err
}
