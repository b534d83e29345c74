package portmap

import (
	"context"

	"starfish/rpc"
)

// version2 is the portmapper of RFC 1833 section 3: a view of the registry
// that shows TCP and UDP over IPv4 as protocol and port.
type version2 struct{ s *Server }

// AppendPmapprocDump answers with the list as it was written when it last changed.
func (v version2) AppendPmapprocDump(ctx context.Context, reply []byte) ([]byte, error) {
	d := v.s.reg.dump()
	return v.s.appendList(rpc.CallFromContext(ctx), reply, d.pmapXDR, d.err)
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
