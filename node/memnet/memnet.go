// Package memnet is a network in memory: named hosts with addresses and ports,
// streams between them, and hosts that are cut off, stopped and healed. It has no
// timers and no descriptors, so that what is tested over it runs in the virtual
// time of testing/synctest.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"starfish/node"
)

const (
	firstPort = 32768 // of those that are drawn
	backlog   = 128   // connections that wait for Accept; more are refused
)

// Network is a network in memory. Close ends it.
type Network struct {
	mu     sync.Mutex
	hosts  map[netip.Addr]*Host
	names  map[string]*Host
	port   uint16            // drawn last
	ends   map[net.Conn]bool // the wires' ends of pipes
	closed chan struct{}
	wires  sync.WaitGroup
}

// New is a network without hosts.
func New() *Network {
	return &Network{hosts: map[netip.Addr]*Host{}, names: map[string]*Host{}, ends: map[net.Conn]bool{}, port: firstPort, closed: make(chan struct{})}
}

// Close ends all connections and listeners, and returns when nothing runs any
// more.
func (n *Network) Close() {
	n.mu.Lock()
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	for e := range n.ends {
		e.Close()
	}
	n.mu.Unlock()
	n.wires.Wait()
}

// Host is one machine of a Network. It is the node.Network of what runs on it.
type Host struct {
	net   *Network
	name  string
	addrs []netip.Addr

	// Guarded by net.mu.
	ports   map[netip.AddrPort]*listener
	cut     bool
	stopped bool
	change  chan struct{} // closed when one of the two has changed
}

var _ node.Network = (*Host)(nil)

// Host adds a machine with a name and addresses, on which others find it. Loopback
// is every host's own.
func (n *Network) Host(name string, addrs ...netip.Addr) *Host {
	h := &Host{net: n, name: name, addrs: addrs, ports: map[netip.AddrPort]*listener{}, change: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = h
	for _, a := range addrs {
		n.hosts[a] = h
	}
	return h
}

// Cut cuts the host off: whatever is sent to it or by it waits, and so do dials,
// as if packets were lost and sent again.
func (h *Host) Cut() { h.set(true, h.isStopped()) }

// Stop is SIGSTOP for what runs on the host: the kernel takes connections and
// data, and nothing is read or written.
func (h *Host) Stop() { h.set(h.isCut(), true) }

// Heal undoes Cut and Stop: what waited arrives.
func (h *Host) Heal() { h.set(false, false) }

func (h *Host) set(cut, stopped bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.cut, h.stopped = cut, stopped
	close(h.change)
	h.change = make(chan struct{})
}

func (h *Host) isCut() bool {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.cut
}

func (h *Host) isStopped() bool {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.stopped
}

// pass waits until none of hosts is in a state that blocks.
func (n *Network) pass(ctx context.Context, blocks func(*Host) bool, hosts ...*Host) error {
	for {
		var changed chan struct{}
		n.mu.Lock()
		for _, h := range hosts {
			if blocks(h) {
				changed = h.change
				break
			}
		}
		n.mu.Unlock()
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-n.closed:
			return net.ErrClosed
		}
	}
}

// find is the host at an address or of a name, as seen from h.
func (h *Host) find(host string) (*Host, netip.Addr, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	ip, err := netip.ParseAddr(host)
	if err != nil {
		to := h.net.names[host]
		if to == nil || len(to.addrs) == 0 {
			return nil, ip, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return to, to.addrs[0], nil
	}
	ip = ip.Unmap()
	if ip.IsLoopback() {
		return h, ip, nil
	}
	if to := h.net.hosts[ip]; to != nil {
		return to, ip, nil
	}
	return nil, ip, os.NewSyscallError("connect", unix.EHOSTUNREACH)
}

// own is the address of h on which it calls to.
func (h *Host) own(to netip.Addr) netip.Addr {
	if to.IsLoopback() {
		return to
	}
	for _, a := range h.addrs {
		if a.Is4() == to.Is4() {
			return a
		}
	}
	return netip.IPv4Unspecified()
}

// Dial connects over "tcp" to host:port. It waits while one of the two is cut
// off, and is refused where nobody listens.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: network, Err: err} }
	if !strings.HasPrefix(network, "tcp") {
		return fail(errors.ErrUnsupported)
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return fail(fmt.Errorf("port %q: %w", portText, err))
	}
	to, ip, err := h.find(host)
	if err != nil {
		return fail(err)
	}
	if err := h.net.pass(ctx, func(h *Host) bool { return h.cut }, h, to); err != nil {
		return fail(err)
	}
	local := netip.AddrPortFrom(h.own(ip), h.net.draw())
	c, err := h.net.connect(h, to, local, netip.AddrPortFrom(ip, uint16(port)))
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// draw is a port that nobody listens on.
func (n *Network) draw() uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.port++; n.port < firstPort {
		n.port = firstPort
	}
	return n.port
}

// ListenPacket is errors.ErrUnsupported: there are no datagrams here.
func (h *Host) ListenPacket(_ context.Context, network, _ string) (*net.UDPConn, error) {
	return nil, &net.OpError{Op: "listen", Net: network, Err: errors.ErrUnsupported}
}

// Listen listens over "tcp" at host:port; port 0 is a free one.
func (h *Host) Listen(_ context.Context, network, addr string) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) { return nil, &net.OpError{Op: "listen", Net: network, Err: err} }
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fail(err)
	}
	if !strings.HasPrefix(network, "tcp") {
		return fail(errors.ErrUnsupported)
	}
	if ip := at.Addr(); !ip.IsUnspecified() {
		if to, _, err := h.find(ip.String()); err != nil || to != h {
			return fail(os.NewSyscallError("bind", unix.EADDRNOTAVAIL))
		}
	}
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), h.net.draw())
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.ports[at] != nil {
		return fail(os.NewSyscallError("bind", unix.EADDRINUSE))
	}
	l := &listener{host: h, at: at, accept: make(chan *conn, backlog), done: make(chan struct{})}
	h.ports[at] = l
	return l, nil
}

// listening is the listener at an address, or at all of its family; net.mu is held.
func (h *Host) listening(at netip.AddrPort) *listener {
	if l := h.ports[at]; l != nil {
		return l
	}
	all := netip.IPv6Unspecified()
	if at.Addr().Is4() {
		all = netip.IPv4Unspecified()
	}
	return h.ports[netip.AddrPortFrom(all, at.Port())]
}

type listener struct {
	host   *Host
	at     netip.AddrPort
	accept chan *conn
	done   chan struct{}
	closed bool // guarded by net.mu
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
	case <-l.host.net.closed:
	case c := <-l.accept:
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Close refuses later dials, and ends the connections that nobody accepted.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	delete(l.host.ports, l.at)
	close(l.done)
	for {
		select {
		case c := <-l.accept:
			c.Close()
		default:
			return nil
		}
	}
}
