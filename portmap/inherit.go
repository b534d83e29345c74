package portmap

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// adopt takes sockets that were opened for us: by systemd, as a socket unit
// says. file is the unix socket among them, nil for none. The files are closed;
// on an error s and file are too.
func (s *sockets) adopt(files []*os.File) (file net.Listener, err error) {
	var errs []error
	for _, f := range files {
		ln, err := s.adoptOne(f)
		if err != nil {
			errs = append(errs, fmt.Errorf("portmap: inherited socket %s: %w", f.Name(), err))
		}
		if ln != nil {
			file = ln
		}
		f.Close() // we have a duplicate
	}
	if err := errors.Join(errs...); err != nil {
		s.close()
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	s.inherited = make(map[string]bool)
	for netid := range s.netids {
		s.inherited[netid] = true
	}
	return file, nil
}

// adoptOne adds a socket of TCP or UDP to s, and returns one of a unix stream.
func (s *sockets) adoptOne(f *os.File) (net.Listener, error) {
	fd := int(f.Fd())
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("no socket: %w", err)
	}
	if kind == unix.SOCK_DGRAM {
		conn, err := net.FilePacketConn(f)
		if err != nil {
			return nil, err
		}
		uc, ok := conn.(*net.UDPConn)
		if !ok {
			conn.Close()
			return nil, errors.New("neither TCP, UDP nor a unix stream")
		}
		if err := s.samePort(uc.LocalAddr()); err != nil {
			uc.Close()
			return nil, err
		}
		s.addUDP(uc, netidsOf(fd, "udp", uc.LocalAddr())...)
		return nil, nil
	}
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
		return nil, errors.New("does not listen: with systemd, Accept=no is wanted")
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	switch ln.(type) {
	case *net.UnixListener:
		return ln, nil
	case *net.TCPListener:
		if err := s.samePort(ln.Addr()); err != nil {
			ln.Close()
			return nil, err
		}
		s.addTCP(ln, netidsOf(fd, "tcp", ln.Addr())...)
		return nil, nil
	}
	ln.Close()
	return nil, errors.New("neither TCP, UDP nor a unix stream")
}

// samePort holds all inherited sockets to one port: we register with it.
func (s *sockets) samePort(addr net.Addr) error {
	if port := addrPortOf(addr).Port(); len(s.netids) > 0 && port != s.port {
		return fmt.Errorf("has port %d, another has %d", port, s.port)
	}
	s.port = addrPortOf(addr).Port()
	return nil
}

// netidsOf is what a socket serves: both families where it listens on :: for
// both.
func netidsOf(fd int, netid string, addr net.Addr) []string {
	ip := addrPortOf(addr).Addr()
	if ip.Unmap().Is4() {
		return []string{netid}
	}
	only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	if ip.IsUnspecified() && err == nil && only == 0 {
		return []string{netid + "6", netid}
	}
	return []string{netid + "6"}
}
