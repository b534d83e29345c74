package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// AnyPort as a port listens on a free one of the system's choice.
const AnyPort = -1

const anyPortTries = 20 // a port that is free for TCP may be taken for UDP

// sockets are a TCP and a UDP socket for each address, all on one port.
type sockets struct {
	tcp   []net.Listener
	udp   []*net.UDPConn
	addrs []netip.Addr // that were opened
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

// listen opens the sockets of cfg.
func listen(ctx context.Context, cfg *Config) (*sockets, error) {
	tries, port := 1, cfg.Port
	if port == AnyPort {
		tries, port = anyPortTries, 0
	}
	var err error
	for range tries {
		s := &sockets{port: uint16(port)}
		if err = s.openAll(ctx, cfg); err == nil {
			return s, nil
		}
		s.close()
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		err = fmt.Errorf("%w: %s", err, cfg.InUse)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: the address is not one of this host", err)
	}
	return nil, fmt.Errorf("%s: listen: %w", cfg.Name, err)
}

func (s *sockets) openAll(ctx context.Context, cfg *Config) error {
	for _, a := range distinct(cfg.Addrs) {
		err := s.open(ctx, cfg.Network, a)
		if slices.Contains(cfg.Optional, a) && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // no IPv6 here
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sockets) open(ctx context.Context, n Network, a netip.Addr) error {
	family := "4"
	if a.Is6() {
		family = "6"
	}
	l, err := n.Listen(ctx, "tcp"+family, s.hostPort(a))
	if err != nil {
		return err
	}
	s.tcp = append(s.tcp, l)
	s.port = uint16(l.Addr().(*net.TCPAddr).Port)
	s.addrs = append(s.addrs, a)
	c, err := n.ListenPacket(ctx, "udp"+family, s.hostPort(a))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil // a network without datagrams
	case err != nil:
		return err
	}
	s.udp = append(s.udp, c)
	return nil
}

func (s *sockets) hostPort(a netip.Addr) string {
	return net.JoinHostPort(a.String(), strconv.Itoa(int(s.port)))
}

// distinct drops what is there twice, or covered by 0.0.0.0 or ::.
func distinct(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	has := func(list []netip.Addr, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(b netip.Addr) bool { return b.Unmap() == a })
	}
	for _, a := range addrs {
		a = a.Unmap()
		all := netip.IPv4Unspecified()
		if a.Is6() {
			all = netip.IPv6Unspecified()
		}
		if !has(out, a) && (a == all || !has(addrs, all)) {
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

// rememberFor is how long the addresses of the host are taken for the same.
const rememberFor = 10 * time.Second

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
