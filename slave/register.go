package slave

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"starfish/portmap"
	"starfish/structs"
)

// registrations are both versions over every transport that is listened on. The
// address is a wildcard: several slaves of one host, each with an address of its
// own, share one entry.
func registrations(s *sockets) []portmap.Registration {
	var netids []string
	if slices.ContainsFunc(s.addrs, netip.Addr.Is4) {
		netids = append(netids, "tcp", "udp")
	}
	if slices.ContainsFunc(s.addrs, netip.Addr.Is6) {
		netids = append(netids, "tcp6", "udp6")
	}
	var regs []portmap.Registration
	for _, vers := range []uint32{structs.SLAVE_V1, structs.SLAVE_V2} {
		for _, netid := range netids {
			regs = append(regs, portmap.Registration{Prog: structs.SLAVE_PROG, Vers: vers, Netid: netid, Addr: portmap.WildcardUaddr(netid, s.port)})
		}
	}
	return regs
}

// checkSiblings refuses a port that is not that of the slaves of this host that
// live: the portmapper has one entry for all of them, so nobody would find the
// slave with another one. Where there is no portmapper yet nobody can tell.
func checkSiblings(ctx context.Context, regs []portmap.Registration) error {
	ctx, cancel := context.WithTimeout(ctx, siblingsTimeout)
	defer cancel()
	c, err := portmap.Local(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	list, err := c.Dump(ctx)
	if err != nil {
		return nil
	}
	for _, reg := range regs {
		for _, old := range list {
			same := old.Prog == reg.Prog && old.Vers == reg.Vers && old.Netid == reg.Netid
			if !same || reg.Vers == structs.SLAVE_V1 || old.Addr == reg.Addr || !portmap.Answers(ctx, old) {
				continue // a C handler serves version 1 alone, and has a port of its own
			}
			at, _ := portmap.ParseUaddr(old.Addr)
			own, _ := portmap.ParseUaddr(reg.Addr)
			return fmt.Errorf("slave: port %d: another slave of this host is at port %d, and the portmapper has one entry for all of them: say --port %d, or end the others first",
				own.Port(), at.Port(), at.Port())
		}
	}
	return nil
}

const siblingsTimeout = 2 * time.Second
