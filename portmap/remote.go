package portmap

import (
	"context"
	"fmt"
	"net/netip"

	"starfish/rpc"
	"starfish/xdr"
)

// A remoteCall is a call that a caller wants us to pass on: CALLIT, BCAST or
// INDIRECT (RFC 1833 sections 2.2.1 and 3.2).
type remoteCall struct {
	prog, vers, proc uint32
	args             []byte // in XDR
	indirect         bool   // INDIRECT: errors are answered too
}

// Programs that calls are not passed on to, since they trust this host's
// address, or who asks the portmapper: those that rpcbind refuses, and ours.
const (
	progNFS      = 100003
	progYP       = 100004
	progMount    = 100005
	progYPBind   = 100007
	progYPPasswd = 100009
	progRquota   = 100011
	progMaster   = 0x20b17000 // MASTER_PROG of structs.x: changes need loopback
	progSlave    = 0x20b17001 // SLAVE_PROG: or the master's address
	mountMnt     = 1
	mountUmnt    = 3
	ypMatch      = 3
	ypFirst      = 4
	ypNext       = 5
	ypAll        = 8
	ypBindSetDom = 2
)

// forbidden tells whether a call must not be passed on, to anybody. Procedure 0
// always may.
func (c remoteCall) forbidden() bool {
	if c.proc == 0 {
		return false
	}
	switch c.prog {
	case PMAP_PROG, progNFS, progYPPasswd, progRquota, progMaster, progSlave:
		return true
	case progMount:
		return c.proc == mountMnt || c.proc == mountUmnt
	case progYPBind:
		return c.proc == ypBindSetDom
	case progYP:
		return c.proc == ypAll || c.proc == ypMatch || c.proc == ypFirst || c.proc == ypNext
	}
	return false
}

// passOn passes a call on and returns where to, and its results. As with
// rpcbind, only calls over UDP are, and of what fails only INDIRECT learns.
func (s *Server) passOn(ctx context.Context, vers uint32, c remoteCall) (netip.AddrPort, []byte, error) {
	call := rpc.CallFromContext(ctx)
	if call.Network != "udp" {
		return netip.AddrPort{}, nil, rpc.ErrProcUnavail
	}
	if c.forbidden() {
		s.cfg.Metrics.Refused(RefusedForward)
		s.cfg.Logger.Warn("indirect call refused", "prog", rpc.Program(c.prog), "vers", c.vers, "proc", c.proc, "from", call.Remote)
		return netip.AddrPort{}, nil, rpc.AuthError(rpc.AUTH_TOOWEAK)
	}
	to, err := s.destination(call, vers, c)
	var results []byte
	if err == nil {
		results, err = s.forward(ctx, call, to, c)
	}
	return to, results, err
}

// destination is where the program of c is served: the address that its caller
// would be told. So a program does not take a stranger's call for one of this
// host, over loopback.
func (s *Server) destination(call *rpc.Call, vers uint32, c remoteCall) (netip.AddrPort, error) {
	netid, local := transport(call)
	r, ok := s.reg.lookup(c.prog, c.vers, netid, false)
	s.stats.passedOn(vers, c, netid, ok && r.Vers == c.vers)
	switch {
	case !ok:
		return netip.AddrPort{}, rpc.ErrProgUnavail
	case r.Vers != c.vers:
		low, high := s.reg.versions(c.prog, netid)
		return netip.AddrPort{}, &rpc.ReplyError{AcceptStat: rpc.PROG_MISMATCH, Low: low, High: high}
	case !s.cfg.RemoteCalls:
		s.cfg.Metrics.Refused(RefusedForward)
		return netip.AddrPort{}, fmt.Errorf("%w: remote calls are off", rpc.ErrSystem)
	}
	to, err := ParseUaddr(mergeUaddr(r.Addr, local))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", rpc.ErrSystem, err)
	}
	return to, nil
}

// forward makes the call. It is sent once.
func (s *Server) forward(ctx context.Context, call *rpc.Call, to netip.AddrPort, c remoteCall) ([]byte, error) {
	select {
	case s.forwards <- struct{}{}:
		defer func() { <-s.forwards }()
	default:
		return nil, fmt.Errorf("%w: %d calls are being passed on", rpc.ErrSystem, MaxForwards)
	}
	ctx, cancel := context.WithTimeout(ctx, ForwardTimeout)
	defer cancel()
	client, err := rpc.Dial(ctx, "udp", to.String(), rpc.ClientConfig{Cred: call.Cred, Retransmit: 2 * ForwardTimeout})
	if err == nil {
		defer client.Close()
		var results rawBytes
		if err = client.Call(ctx, c.prog, c.vers, c.proc, rawBytes(c.args), &results); err == nil {
			return results, nil
		}
	}
	// Its own refusal is not ours: %v keeps errors.As from finding it.
	return nil, fmt.Errorf("%w: call not passed on: %v", rpc.ErrSystem, err)
}

// rawBytes are arguments or results that stay as they are.
type rawBytes []byte

// AppendXDR appends the bytes.
func (r rawBytes) AppendXDR(b []byte) ([]byte, error) { return append(b, r...), nil }

// DecodeXDR takes all bytes that are left.
func (r *rawBytes) DecodeXDR(d *xdr.Decoder) error {
	*r = append(rawBytes(nil), d.Rest()...)
	return d.Err()
}
