package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"starfish/xdr"
)

// packetConn is one UDP socket of a server. A crew serves it: what is said of
// streamConn holds here too, except that each datagram is a call of its own.
type packetConn struct {
	s    *Server
	uc   *net.UDPConn
	crew crew
	info packetInfo
	gone chan struct{} // closed when the crew has left

	mu       sync.Mutex
	draining bool
	err      error // why reading ended

	buf []byte // these belong to who has the crew's turn
	oob []byte
}

// datagram says where a call came from and went to.
type datagram struct {
	from netip.AddrPort
	oob  []byte   // control message that makes the reply leave from the address asked; nil: the socket has but one
	to   net.Addr // the address asked
}

// ServePacket answers the calls that come to c, and closes c. It returns nil
// when the server was shut down or closed, else what is wrong with c. Replies
// leave from the address that the call was sent to, also where c listens on all
// addresses.
func (s *Server) ServePacket(c *net.UDPConn) error {
	p := &packetConn{s: s, uc: c, gone: make(chan struct{}), buf: make([]byte, maxDatagram), oob: make([]byte, 128)}
	defer p.close()
	if err := p.info.enable(c); err != nil {
		return fmt.Errorf("rpc: serve packets of %v: %w", c.LocalAddr(), err)
	}
	p.crew = crew{max: s.cfg.MaxCallsPerConn, maxHeld: s.cfg.MaxRecord, look: &s.look, work: p.work, left: func() { close(p.gone) }}
	if err := s.enter(p); err != nil {
		return err
	}
	defer s.leave(p)
	s.log.Info("rpc: serving", "network", "udp", "addr", c.LocalAddr())
	p.crew.start()
	<-p.gone
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *packetConn) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	_ = p.uc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed socket, which reads no more anyway
}

func (p *packetConn) close() { _ = p.uc.Close() } // closed twice, it says so

func (p *packetConn) work() {
	var d xdr.Decoder
	for p.crew.take() {
		for p.serveNext(&d) {
		}
	}
}

// serveNext serves one datagram; false when the turn to read is lost.
func (p *packetConn) serveNext(d *xdr.Decoder) bool {
	req := getBuffer()
	defer func() { // after d, which may have let results live on in the datagram
		if !d.Alias {
			req.free()
		}
		*d = xdr.Decoder{}
	}()
	n, oobn, from, err := p.read()
	if err != nil {
		p.readEnded(err)
		return false
	}
	req.b = append(req.b, p.buf[:n]...)
	d.Reset(req.b)
	ctx := &callContext{Context: p.s.ctx}
	refusal := readCall(d, &ctx.call)
	if refusal == errNotCall {
		p.s.cfg.Metrics.Dropped("udp", DropNotCall)
		return true // it is no business of the other callers
	}
	dg := p.info.parse(p.oob[:oobn], p.uc.LocalAddr(), from)
	ctx.call.Network, ctx.call.PeerUID = "udp", -1
	ctx.call.Remote, ctx.call.Local = net.UDPAddrFromAddrPort(from), dg.to
	h, refusal := p.s.admit(ctx, refusal)

	var cached *cachedCall
	if needsSlot(ctx, refusal) {
		if p.s.cfg.CacheTime > 0 {
			var again []byte
			if cached, again = p.s.cache.begin(p, from, ctx.call.XID, req.b); cached == nil {
				p.s.cfg.Metrics.Dropped("udp", DropDuplicate)
				if again != nil {
					p.write(again, &ctx.call, dg)
				}
				return true
			}
		}
		if !p.s.acquire(func() {}) {
			p.readEnded(net.ErrClosed)
			return false
		}
		defer p.s.release()
	}
	p.crew.pass(n)
	begin := time.Now()
	reply := getBuffer()
	answer := p.s.answer(ctx, h, refusal, d, reply.b)
	took := time.Since(begin)
	p.crew.ran(took, 0)
	var body []byte
	if answer != nil {
		reply.b = answer
		if body = answer[markLen:]; len(body) > maxDatagram {
			body = p.tooLong(body, &ctx.call)
		}
	}
	if cached != nil { // before it is sent: who has it may ask again at once
		p.s.cache.end(cached, body)
	}
	if answer == nil {
		p.s.cfg.Metrics.Dropped("udp", DropSilent)
	} else {
		sent := p.write(body, &ctx.call, dg)
		p.s.cfg.Metrics.Called(&ctx.call, CallResult{ctx.refused, took, n, sent})
	}
	reply.free()
	p.crew.done(1, n)
	return p.crew.retake()
}

// read reads a datagram into p.buf and p.oob. The errors of single datagrams
// are not the socket's.
func (p *packetConn) read() (n, oobn int, from netip.AddrPort, err error) {
	var backoff time.Duration
	for {
		n, oobn, _, from, err = p.uc.ReadMsgUDPAddrPort(p.buf, p.oob)
		if err == nil || errors.Is(err, net.ErrClosed) {
			return n, oobn, from, err
		}
		p.mu.Lock()
		draining := p.draining
		p.mu.Unlock()
		if draining {
			return 0, 0, from, errDraining
		}
		p.s.log.Debug("rpc: datagram not read", "err", err)
		backoff = min(max(2*backoff, minAcceptBackoff), maxAcceptBackoff)
		select {
		case <-time.After(backoff):
		case <-p.s.ctx.Done():
		}
	}
}

func (p *packetConn) readEnded(err error) {
	p.mu.Lock()
	if !p.draining && p.s.ctx.Err() == nil {
		p.err = fmt.Errorf("rpc: read packet: %w", err)
	}
	p.mu.Unlock()
	p.crew.over()
}

// tooLong is ErrSystem in the place of a reply that fits into no datagram.
func (p *packetConn) tooLong(b []byte, c *Call) []byte {
	p.s.log.Warn("rpc: reply too long for a datagram, use tcp", "bytes", len(b), "prog", Program(c.Prog), "vers", c.Vers, "proc", c.Proc, "remote", c.Remote)
	return appendRefusal(nil, c.XID, OpaqueAuth{}, &ReplyError{AcceptStat: SYSTEM_ERR})
}

// write sends a reply, or ErrSystem where the network has it fit into no
// datagram, and returns how many bytes it sent.
func (p *packetConn) write(b []byte, c *Call, dg datagram) int {
	_, _, err := p.uc.WriteMsgUDPAddrPort(b, dg.oob, dg.from)
	if (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENETUNREACH)) && dg.oob != nil { // a broadcast address is nowhere to send from
		dg.oob = nil
		_, _, err = p.uc.WriteMsgUDPAddrPort(b, nil, dg.from)
	}
	if errors.Is(err, syscall.EMSGSIZE) {
		b = p.tooLong(b, c)
		_, _, err = p.uc.WriteMsgUDPAddrPort(b, dg.oob, dg.from)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		p.s.log.Debug("rpc: reply not sent", "err", err, "remote", c.Remote)
	}
	return len(b)
}

// packetInfo asks a socket that listens on all addresses which of them each
// datagram was sent to; of one that was sent to many hosts, at which it came in.
type packetInfo struct{ v4, v6 bool }

func (i *packetInfo) enable(c *net.UDPConn) error {
	la, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok || !la.IP.IsUnspecified() {
		return nil
	}
	if la.IP.To4() != nil {
		i.v4 = true
		return ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	}
	i.v6 = true
	return ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
}

// interfaceAddr is an IPv6 address of an interface, of the scope asked for; nil
// where it has none.
func interfaceAddr(ifIndex int, linkLocal bool) net.IP {
	ifi, err := net.InterfaceByIndex(ifIndex)
	if err != nil {
		return nil
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() == linkLocal {
			return n.IP
		}
	}
	return nil
}

// parse reads the control message of a datagram.
func (i *packetInfo) parse(oob []byte, local net.Addr, from netip.AddrPort) datagram {
	dg := datagram{from: from, to: local}
	la, ok := local.(*net.UDPAddr)
	if !ok {
		return dg
	}
	var to net.IP
	var ifIndex int
	if i.v4 {
		var in ipv4.ControlMessage
		if in.Parse(oob) == nil {
			to = in.Dst
		}
	} else if i.v6 {
		var in ipv6.ControlMessage
		if in.Parse(oob) == nil {
			to, ifIndex = in.Dst, in.IfIndex
		}
	}
	if ip := specDst(oob); ip != nil {
		to = ip // of a broadcast, the address of the interface that it came in on
	}
	if to.IsMulticast() {
		to = interfaceAddr(ifIndex, from.Addr().IsLinkLocalUnicast())
	}
	if to == nil || to.Equal(net.IPv4bcast) {
		return dg
	}
	addr := &net.UDPAddr{IP: to, Port: la.Port}
	dg.to = addr
	if to.To4() != nil { // also on a socket of both families
		dg.oob = (&ipv4.ControlMessage{Src: to}).Marshal()
		return dg
	}
	out := ipv6.ControlMessage{Src: to}
	if to.IsLinkLocalUnicast() {
		out.IfIndex = ifIndex
		if ifi, err := net.InterfaceByIndex(ifIndex); err == nil {
			addr.Zone = ifi.Name
		}
	}
	dg.oob = out.Marshal()
	return dg
}
