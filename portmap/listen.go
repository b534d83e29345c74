package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopbackDevice is the interface to which the default sockets are bound.
const loopbackDevice = "lo"

// anyPortTries bounds the search for a port that is free for TCP and for UDP.
const anyPortTries = 20

// endpoint is one address to serve, for TCP and for UDP.
type endpoint struct {
	addr   netip.Addr
	device string // bound to this interface only; "" for none
	must   bool   // also where the host has no such address
}

// sockets are the open sockets of a server.
type sockets struct {
	port   uint16
	tcp    []net.Listener
	udp    []*net.UDPConn
	netids map[string]bool // what they serve: "tcp", "udp", "tcp6", "udp6"

	inherited map[string]bool // of netids: what was opened for us
	without   func(error)     // told of a socket that cannot be had; nil: that is an error
}

func (s *sockets) close() {
	for _, ln := range s.tcp {
		ln.Close()
	}
	for _, conn := range s.udp {
		conn.Close()
	}
}

// endpoints lists what to serve: every loopback address, and the addresses of
// listen. Loopback is a wildcard socket bound to the interface lo, so that
// 127.0.0.2 and the like answer too; the further addresses are bound to their
// own interface, since a wildcard of lo and an address of no interface exclude
// each other. 0.0.0.0 or :: among listen covers all of its family. Without lo
// (""), it is 127.0.0.1 and the loopback addresses of listen.
func endpoints(listen []netip.Addr, lo string) []endpoint {
	v4 := []endpoint{{addr: netip.IPv4Unspecified(), device: lo, must: true}}
	if lo == "" {
		v4[0].addr = loopback4
	}
	v6 := []endpoint{{addr: netip.IPv6Loopback()}}
	all4, all6 := false, false
	for _, addr := range listen {
		addr = addr.Unmap()
		switch {
		case addr.IsUnspecified() && addr.Is4():
			all4 = true
		case addr.IsUnspecified():
			all6 = true
		case addr.IsLoopback() && (addr.Is6() || lo != "" || addr == loopback4):
		case addr.Is4():
			if device := deviceOf(addr, lo); lo == "" || device != lo { // else the wildcard has it
				v4 = append(v4, endpoint{addr, device, true})
			}
		default:
			v6 = append(v6, endpoint{addr, "", true})
		}
	}
	if all4 {
		v4 = []endpoint{{addr: netip.IPv4Unspecified(), must: true}}
	}
	if all6 {
		v6 = []endpoint{{addr: netip.IPv6Unspecified(), must: true}}
	}
	return append(v4, v6...)
}

// loopback4 is what remains of loopback where sockets cannot be bound to lo.
var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// deviceOf is the interface that has addr; "" where none has, and where sockets
// are not bound to interfaces.
func deviceOf(addr netip.Addr, lo string) string {
	if lo == "" {
		return ""
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, itf := range ifs {
		addrs, err := itf.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == addr {
				return itf.Name
			}
		}
	}
	return ""
}

// openSockets opens TCP and UDP sockets on every endpoint. A negative port
// takes any that is free.
func openSockets(ctx context.Context, listen []netip.Addr, port int) (*sockets, error) {
	if port >= 0 {
		return openPort(ctx, listen, uint16(port))
	}
	var err error
	for range anyPortTries {
		var s *sockets
		if s, err = openPort(ctx, listen, 0); err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return s, err
		}
	}
	return nil, err
}

func openPort(ctx context.Context, listen []netip.Addr, port uint16) (*sockets, error) {
	s := &sockets{port: port}
	return s, s.openAll(ctx, listen)
}

// openAll opens what is missing on s.port. On an error s is closed.
func (s *sockets) openAll(ctx context.Context, listen []netip.Addr) error {
	err := s.openEndpoints(ctx, endpoints(listen, loopbackDevice))
	if errors.Is(err, errDevice) {
		err = s.openEndpoints(ctx, endpoints(listen, ""))
	}
	if err != nil {
		s.close()
		return fmt.Errorf("portmap: listen: %w", err)
	}
	return nil
}

func (s *sockets) openEndpoints(ctx context.Context, eps []endpoint) error {
	port, tcp, udp := s.port, len(s.tcp), len(s.udp)
	for _, ep := range eps {
		err := s.open(ctx, ep)
		if err != nil && !ep.must && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // no IPv6 here
		}
		if err != nil {
			opened := sockets{tcp: s.tcp[tcp:], udp: s.udp[udp:]}
			opened.close()
			s.port, s.tcp, s.udp = port, s.tcp[:tcp], s.udp[:udp]
			return err
		}
	}
	return nil
}

// errDevice: the system does not let the socket be bound to an interface.
var errDevice = errors.New("cannot bind to the interface")

// open adds the TCP and the UDP socket of one endpoint, where they were not
// inherited.
func (s *sockets) open(ctx context.Context, ep endpoint) error {
	lc := net.ListenConfig{Control: bindToDevice(ep.device)}
	family, suffix := "4", ""
	if ep.addr.Is6() {
		family, suffix = "6", "6"
	}
	if !s.inherited["tcp"+suffix] {
		ln, err := lc.Listen(ctx, "tcp"+family, s.hostPort(ep.addr))
		if err == nil {
			s.addTCP(ln, "tcp"+suffix)
		} else if err := s.tolerate(err); err != nil {
			return err
		}
	}
	if !s.inherited["udp"+suffix] {
		conn, err := lc.ListenPacket(ctx, "udp"+family, s.hostPort(ep.addr))
		if err == nil {
			s.addUDP(conn.(*net.UDPConn), "udp"+suffix)
		} else if err := s.tolerate(err); err != nil {
			return err
		}
	}
	return nil
}

// tolerate makes an error of a socket a thing to tell, where others serve.
func (s *sockets) tolerate(err error) error {
	if s.without == nil || errors.Is(err, errDevice) {
		return err
	}
	s.without(err)
	return nil
}

func (s *sockets) addTCP(ln net.Listener, netids ...string) {
	boundSend(ln)
	s.tcp = append(s.tcp, ln)
	s.add(ln.Addr(), netids)
}

// boundSend bounds what the kernel takes of answers that a caller does not take:
// the connections of a listener have its send buffer.
func boundSend(ln net.Listener) {
	if c, ok := ln.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) })
		}
	}
}

func (s *sockets) addUDP(conn *net.UDPConn, netids ...string) {
	s.udp = append(s.udp, conn)
	s.add(conn.LocalAddr(), netids)
}

func (s *sockets) add(addr net.Addr, netids []string) {
	if s.port == 0 {
		s.port = addrPortOf(addr).Port()
	}
	if s.netids == nil {
		s.netids = make(map[string]bool)
	}
	for _, netid := range netids {
		s.netids[netid] = true
	}
}

func (s *sockets) hostPort(addr netip.Addr) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(int(s.port)))
}

// bindToDevice sets SO_BINDTODEVICE before bind. It needs no privilege since
// Linux 5.7.
func bindToDevice(device string) func(network, address string, c syscall.RawConn) error {
	if device == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var sockErr error
		err := c.Control(func(fd uintptr) { sockErr = unix.BindToDevice(int(fd), device) })
		if err := errors.Join(err, sockErr); err != nil {
			return fmt.Errorf("%w %s: %w", errDevice, device, err)
		}
		return nil
	}
}
