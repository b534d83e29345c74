package slave

import (
	"context"
	"net"
	"net/netip"

	"starfish/node"
	"starfish/structs"
)

// body is where the slave is found: at its own address, which Run looks up, and
// those of Config.Listen. Slaves of one host share a port. A C handler serves
// version 1 alone, and has a port of its own.
func (s *Slave) body() node.Config {
	return node.Config{
		Name: "slave", Network: s.cfg.Network, Logger: s.log,
		Addrs: s.cfg.Listen, Port: s.cfg.Port, InUse: "another slave at this address? say --addr or --port",
		Server: s.srv, Program: structs.SLAVE_PROG, Versions: []uint32{structs.SLAVE_V1, structs.SLAVE_V2},
		Shared:     []uint32{structs.SLAVE_V2},
		Portmapper: s.cfg.Portmap,
		Settle:     s.cluster.settled, Patience: readyPatience,
		Drain: s.cfg.DrainTimeout,
	}
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
