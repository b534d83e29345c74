package master

import (
	"net/netip"
	"slices"

	"starfish/node"
	"starfish/structs"
)

// body is where the master is found: on loopback and at the addresses of
// Config.Listen, on one port.
func (m *Master) body() node.Config {
	v6 := netip.IPv6Loopback()
	addrs := append([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), v6}, m.cfg.Listen...)
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
	return node.Config{
		Name: "master", Network: m.cfg.Network, Logger: m.log,
		Addrs: addrs, Optional: []netip.Addr{v6}, Port: m.cfg.Port, InUse: "another master? say --port",
		Server: m.srv, Program: structs.MASTER_PROG, Versions: []uint32{structs.MASTER_V1, structs.MASTER_V2},
		Portmapper: m.cfg.Portmap, ServesPortmapper: true, PortmapperListen: m.cfg.Listen,
		Settle: m.health.LookAround,
		Drain:  m.cfg.DrainTimeout,
	}
}
