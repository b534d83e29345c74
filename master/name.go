package master

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"starfish/machine"
)

// nameOf returns the name under which the machine has joined, which may be
// another spelling, or addr where it is new. With look a host name and the
// address that it stands for are found out to be one machine: a C handler runs
// one call at a time, and one that has two names would be called twice at once.
func (m *Master) nameOf(ctx context.Context, addr string, look bool) (string, error) {
	snap := m.cat.Snapshot()
	if _, known := snap.Slave(addr); known {
		return addr, nil
	}
	slaves := snap.Slaves()
	for _, s := range slaves {
		if machine.Canonical(s.Addr) == machine.Canonical(addr) {
			return s.Addr, nil
		}
	}
	if !look {
		return addr, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ips := m.ips(ctx, addr)
	same := make([]bool, len(slaves))
	var g errgroup.Group
	g.SetLimit(16)
	for i, s := range slaves {
		g.Go(func() error {
			same[i] = slices.ContainsFunc(m.ips(ctx, s.Addr), func(ip netip.Addr) bool { return slices.Contains(ips, ip) })
			return nil
		})
	}
	_ = g.Wait() // none fails
	if i := slices.Index(same, true); i >= 0 {
		return "", fmt.Errorf("that machine has joined as %s: call it so", slaves[i].Addr)
	}
	return addr, nil
}

const lookTimeout = time.Second // for the host names of a cluster

// ips are the addresses of a machine; none where its name is not found.
func (m *Master) ips(ctx context.Context, addr string) []netip.Addr {
	if ip, err := netip.ParseAddr(addr); err == nil {
		return []netip.Addr{ip.Unmap()}
	}
	ips, err := m.cfg.lookup(ctx, addr)
	if err != nil {
		return nil
	}
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return ips
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
