package master

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"starfish/portmap"
	"starfish/structs"
)

// sockets are a TCP and a UDP socket for each address, all on one port.
type sockets struct {
	tcp  []net.Listener
	udp  []*net.UDPConn
	port uint16
	ipv6 bool
}

func (s *sockets) close() {
	for _, l := range s.tcp {
		l.Close()
	}
	for _, c := range s.udp {
		c.Close()
	}
}

// addresses are 127.0.0.1, ::1 and those of listen; 0.0.0.0 or :: stands for all
// of its family.
func addresses(listen []netip.Addr) []netip.Addr {
	v4, v6 := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, []netip.Addr{netip.IPv6Loopback()}
	seen := map[netip.Addr]bool{v4[0]: true, v6[0]: true}
	all4, all6 := false, false
	for _, a := range listen {
		a = a.Unmap()
		if seen[a] {
			continue
		}
		seen[a] = true
		if a.Is4() {
			v4, all4 = append(v4, a), all4 || a.IsUnspecified()
		} else {
			v6, all6 = append(v6, a), all6 || a.IsUnspecified()
		}
	}
	if all4 {
		v4 = []netip.Addr{netip.IPv4Unspecified()}
	}
	if all6 {
		v6 = []netip.Addr{netip.IPv6Unspecified()}
	}
	return append(v4, v6...)
}

const anyPortTries = 20 // a port that is free for TCP may be taken for UDP

func listen(ctx context.Context, addrs []netip.Addr, port int) (*sockets, error) {
	tries := 1
	if port == AnyPort {
		tries, port = anyPortTries, 0
	}
	var err error
	for range tries {
		var s *sockets
		if s, err = listenPort(ctx, addresses(addrs), uint16(port)); err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return s, err
		}
	}
	return nil, fmt.Errorf("%w: another master? say --port", err)
}

func listenPort(ctx context.Context, addrs []netip.Addr, port uint16) (*sockets, error) {
	s := &sockets{port: port}
	for _, a := range addrs {
		err := s.open(ctx, a)
		if a == netip.IPv6Loopback() && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // no IPv6 here
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("master: listen: %w", err)
		}
	}
	return s, nil
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
	s.ipv6 = s.ipv6 || a.Is6()
	return nil
}

// door is the master's entry at the portmapper, and our portmapper where the
// host has none.
type door struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	up      <-chan struct{}
	mapper  context.CancelFunc
	mappers sync.WaitGroup
}

// ready is closed when clients can find the master.
func (d *door) ready() <-chan struct{} { return d.up }

// leave removes the entry, so that nobody new comes.
func (d *door) leave() {
	d.cancel()
	d.wg.Wait()
}

// close ends our portmapper, which calls in flight may still need.
func (d *door) close() {
	d.mapper()
	d.mappers.Wait()
}

// register sees to it that clients find the port at the host's portmapper.
func (m *Master) register(ctx context.Context, s *sockets) *door {
	d := &door{}
	ctx = context.WithoutCancel(ctx)
	var kept, mapped context.Context
	kept, d.cancel = context.WithCancel(ctx)
	mapped, d.mapper = context.WithCancel(ctx)
	if m.cfg.unregistered {
		d.up = closed
		return d
	}
	keeper := portmap.NewKeeper(portmap.KeeperConfig{Registrations: registrations(s), Logger: m.log})
	if m.cfg.Portmap == "off" {
		d.up = closed
		d.wg.Go(func() { keeper.Run(kept) })
		return d
	}
	auto := portmap.NewAuto(portmap.AutoConfig{Listen: m.cfg.Listen, Logger: m.log})
	d.mappers.Go(func() { auto.Run(mapped) })
	up := make(chan struct{})
	d.up = up
	d.wg.Go(func() {
		select {
		case <-auto.Ready():
		case <-kept.Done():
			return
		}
		status := auto.Status()
		m.mu.Lock()
		m.mapper = status
		m.mu.Unlock()
		if status.Port == 0 {
			m.log.Error("no portmapper: clients cannot find this master", "message", status.Message)
			close(up)
		} else {
			d.wg.Go(func() {
				select {
				case <-keeper.Ready():
					close(up)
				case <-kept.Done():
				}
			})
		}
		keeper.Run(kept)
	})
	return d
}

var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// registrations are both versions over every transport that is listened on, the
// loopback of each included. The address is a wildcard: a caller is told the one
// on which it asked.
func registrations(s *sockets) []portmap.Registration {
	netids := []string{"tcp", "udp"}
	if s.ipv6 {
		netids = append(netids, "tcp6", "udp6")
	}
	var regs []portmap.Registration
	for _, vers := range []uint32{structs.MASTER_V1, structs.MASTER_V2} {
		for _, netid := range netids {
			regs = append(regs, portmap.Registration{Prog: structs.MASTER_PROG, Vers: vers, Netid: netid, Addr: portmap.WildcardUaddr(netid, s.port)})
		}
	}
	return regs
}
