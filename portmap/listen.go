package portmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
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
	port uint16
	tcp  []net.Listener
	udp  []*net.UDPConn
	ipv6 bool
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
	s, err := openAll(ctx, endpoints(listen, loopbackDevice), port)
	if errors.Is(err, errDevice) {
		s, err = openAll(ctx, endpoints(listen, ""), port)
	}
	if err != nil {
		return nil, fmt.Errorf("portmap: listen: %w", err)
	}
	return s, nil
}

func openAll(ctx context.Context, eps []endpoint, port uint16) (*sockets, error) {
	s := &sockets{port: port}
	for _, ep := range eps {
		err := s.open(ctx, ep)
		if err != nil && !ep.must && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // no IPv6 here
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.ipv6 = s.ipv6 || ep.addr.Is6()
	}
	return s, nil
}

// errDevice: the system does not let the socket be bound to an interface.
var errDevice = errors.New("cannot bind to the interface")

// open adds the TCP and the UDP socket of one endpoint.
func (s *sockets) open(ctx context.Context, ep endpoint) error {
	lc := net.ListenConfig{Control: bindToDevice(ep.device)}
	family := "4"
	if ep.addr.Is6() {
		family = "6"
	}
	ln, err := lc.Listen(ctx, "tcp"+family, s.hostPort(ep.addr))
	if err != nil {
		return err
	}
	if s.port == 0 {
		s.port = uint16(ln.Addr().(*net.TCPAddr).Port)
	}
	conn, err := lc.ListenPacket(ctx, "udp"+family, s.hostPort(ep.addr))
	if err != nil {
		ln.Close()
		return err
	}
	s.tcp = append(s.tcp, ln)
	s.udp = append(s.udp, conn.(*net.UDPConn))
	return nil
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

// socketFile is the unix socket and the file by which it is found.
type socketFile struct {
	net.Listener
	path string
	info fs.FileInfo // of the file that we made
}

// openSocketFile listens on path with mode 0666. A file that nobody listens
// on any more is replaced; a socket that answers is ErrInUse.
func openSocketFile(ctx context.Context, path string) (*socketFile, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("portmap: listen: %w", err)
	}
	// Ours to remove, and only while it is still ours: see Close.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &socketFile{Listener: ln, path: path}
	s.info, err = os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("portmap: socket file: %w", err)
	}
	return s, nil
}

// Close stops listening and removes the file, unless another process has put
// its own in its place.
func (s *socketFile) Close() error {
	if now, err := os.Lstat(s.path); err == nil && s.info != nil && os.SameFile(now, s.info) {
		os.Remove(s.path)
	}
	return s.Listener.Close()
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("portmap: socket file: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("portmap: %s is there and is no socket", path)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("portmap: socket file: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("portmap: stale socket file: %w", err)
	}
	return nil
}
