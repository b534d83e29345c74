package slave

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are a TCP and a UDP socket for each address, all on one port.
type sockets struct {
	tcp   []net.Listener
	udp   []*net.UDPConn
	addrs []netip.Addr
	port  uint16
	host  hostAddrs
}

func (s *sockets) close() {
	for _, l := range s.tcp {
		l.Close()
	}
	for _, c := range s.udp {
		c.Close()
	}
}

const anyPortTries = 20 // a port that is free for TCP may be taken for UDP

// listen opens the sockets for the slave's own address and those of listen.
func listen(ctx context.Context, addr string, more []netip.Addr, port int) (*sockets, error) {
	own, err := lookup(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("slave: the slave's own address: %w", err)
	}
	addrs := distinct(append(own, more...))
	tries := 1
	if port == AnyPort {
		tries, port = anyPortTries, 0
	}
	for ; ; tries-- {
		s := &sockets{addrs: addrs, port: uint16(port)}
		for _, a := range addrs {
			if err = s.open(ctx, a); err != nil {
				break
			}
		}
		if err == nil {
			return s, nil
		}
		s.close()
		if tries == 1 || !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		err = fmt.Errorf("%w: another slave at this address? say --addr or --port", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: the address is not one of this host", err)
	}
	return nil, fmt.Errorf("slave: listen: %w", err)
}

func (s *sockets) open(ctx context.Context, a netip.Addr) error {
	var lc net.ListenConfig
	family := "4"
	if a.Is6() {
		family = "6"
	}
	l, err := lc.Listen(ctx, "tcp"+family, netip.AddrPortFrom(a, s.port).String())
	if err != nil {
		return err
	}
	s.tcp = append(s.tcp, l)
	s.port = uint16(l.Addr().(*net.TCPAddr).Port)
	c, err := lc.ListenPacket(ctx, "udp"+family, netip.AddrPortFrom(a, s.port).String())
	if err != nil {
		return err
	}
	s.udp = append(s.udp, c.(*net.UDPConn))
	return nil
}

// distinct drops what is there twice, or covered by 0.0.0.0 or ::.
func distinct(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		all := netip.IPv4Unspecified()
		if a.Is6() {
			all = netip.IPv6Unspecified()
		}
		if !slices.Contains(out, a) && (a == all || !slices.Contains(addrs, all)) {
			out = append(out, a)
		}
	}
	return out
}

// owns reports whether a connection to ip, at our port, would come to us.
func (s *sockets) owns(ip netip.Addr) bool {
	for _, a := range s.addrs {
		if a == ip || a.IsUnspecified() && a.Is4() == ip.Is4() && s.host.has(ip) {
			return true
		}
	}
	return false
}

// hostAddrs are the addresses of this host, read again now and then.
type hostAddrs struct {
	mu    sync.Mutex
	addrs []netip.Addr
	until time.Time
}

func (h *hostAddrs) has(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().After(h.until) {
		h.addrs, h.until = nil, time.Now().Add(rememberFor)
		all, _ := net.InterfaceAddrs() // without them we know loopback
		for _, a := range all {
			if n, ok := a.(*net.IPNet); ok {
				own, _ := netip.AddrFromSlice(n.IP)
				h.addrs = append(h.addrs, own.Unmap())
			}
		}
	}
	return slices.Contains(h.addrs, ip)
}

// lookup returns the addresses of a host, which may be an address itself.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return ips, err
}

// ipOf is the IP address of a network address.
func ipOf(a net.Addr) (netip.Addr, bool) {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return ap.Addr().Unmap().WithZone(""), ap.IsValid()
}
