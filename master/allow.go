package master

import (
	"context"
	"net"
	"net/netip"

	"starfish/fault"
	"starfish/rpc"
)

// mayChange says whether the caller may change the cluster: from loopback, over
// a unix socket, or from an address of Config.Allow. AUTH_SYS proves nothing, so
// it is not looked at.
func (m *Master) mayChange(ctx context.Context) bool {
	call := rpc.CallFromContext(ctx)
	if call == nil {
		return true // called within the process
	}
	if call.Network == "unix" {
		return true
	}
	addr, ok := ipOf(call.Remote)
	if !ok {
		return false
	}
	if addr.IsLoopback() {
		return true
	}
	for _, p := range m.cfg.Allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// denied logs a refused change and returns what to tell the caller.
func (m *Master) denied(ctx context.Context, what string) error {
	call := rpc.CallFromContext(ctx)
	m.log.Warn("change refused", "what", what, "from", call.Remote)
	return fault.New(fault.ErrDenied, "changes are taken from loopback and from --allow CIDR, not from %v", call.Remote)
}

func ipOf(a net.Addr) (netip.Addr, bool) {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	default:
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), ap.IsValid()
}
