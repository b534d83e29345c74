package portmap

import (
	"context"

	"starfish/rpc"
)

// version2 is the portmapper of RFC 1833 section 3: a view of the registry
// that shows TCP and UDP over IPv4 as protocol and port.
type version2 struct{ reg *registry }

func (v version2) PmapprocNull(context.Context) error { return nil }

func (v version2) PmapprocSet(ctx context.Context, arg Mapping) (bool, error) {
	call := rpc.CallFromContext(ctx)
	if err := mayChange(call); err != nil {
		return false, err
	}
	netid := netidOf(arg.Prot)
	if netid == "" || arg.Port > 65535 {
		return false, nil
	}
	return v.reg.set(Registration{arg.Prog, arg.Vers, netid, WildcardUaddr(netid, uint16(arg.Port)), ownerName(call.PeerUID)}, false), nil
}

// PmapprocUnset removes both transports: the protocol and port are ignored
// (RFC 1833 section 3.2).
func (v version2) PmapprocUnset(ctx context.Context, arg Mapping) (bool, error) {
	call := rpc.CallFromContext(ctx)
	if err := mayChange(call); err != nil {
		return false, err
	}
	return v.reg.unset(arg.Prog, arg.Vers, ownerName(call.PeerUID), "tcp", "udp"), nil
}

func (v version2) PmapprocGetport(_ context.Context, arg Mapping) (uint32, error) {
	r, ok := v.reg.lookup(arg.Prog, arg.Vers, netidOf(arg.Prot), false)
	if !ok {
		return 0, nil
	}
	return portOf(r), nil
}

func (v version2) PmapprocDump(ctx context.Context) (PmaplistPtr, error) {
	var head PmaplistPtr
	tail := &head
	size := 28
	for _, r := range v.reg.all() {
		if proto := protoOf(r.Netid); proto != 0 {
			*tail = &Pmaplist{Map: Mapping{r.Prog, r.Vers, proto, portOf(r)}}
			tail = &(*tail).Next
			size += 20
		}
	}
	return head, fits(rpc.CallFromContext(ctx), size)
}

// PmapprocCallit is not served.
func (v version2) PmapprocCallit(context.Context, CallArgs) (CallResult, error) {
	return CallResult{}, rpc.ErrProcUnavail
}
