package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"starfish/portmap"
)

// Portmapper is what a daemon has to do with the portmapper of its host.
type Portmapper int

const (
	// PortmapperAuto registers with the host's portmapper, and has a daemon that
	// serves one (Config.ServesPortmapper) do so where the host has none.
	PortmapperAuto Portmapper = iota
	// PortmapperOff registers with the host's, and never serves one.
	PortmapperOff
	// PortmapperNone leaves it alone: who calls knows the port.
	PortmapperNone
)

// ParsePortmapper reads "auto" (also "") and "off".
func ParsePortmapper(s string) (Portmapper, error) {
	switch s {
	case "", "auto":
		return PortmapperAuto, nil
	case "off":
		return PortmapperOff, nil
	}
	return 0, fmt.Errorf("portmap %q is neither auto nor off", s)
}

// entry is the daemon's entry at the portmapper, and our portmapper where the
// host has none.
type entry struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	up      chan struct{} // closed when clients can find the daemon
	mapper  context.CancelFunc
	mappers sync.WaitGroup
}

// leave removes the entry, so that nobody new comes.
func (e *entry) leave() {
	e.cancel()
	e.wg.Wait()
}

// close ends our portmapper, which calls in flight may still need.
func (e *entry) close() {
	e.leave()
	e.mapper()
	e.mappers.Wait()
}

// register sees to it that clients find the port at the host's portmapper.
func (n *Node) register(ctx context.Context) *entry {
	e := &entry{up: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	var kept, mapped context.Context
	kept, e.cancel = context.WithCancel(ctx)
	mapped, e.mapper = context.WithCancel(ctx)
	if n.cfg.Portmapper == PortmapperNone {
		close(e.up)
		return e
	}
	cfg := portmap.KeeperConfig{Registrations: n.registrations(), Logger: n.cfg.Logger}
	if n.shares() {
		cfg.SiblingAnswers = portmap.Answers // our own sockets are closed then
	}
	keeper := portmap.NewKeeper(cfg)
	switch {
	case !n.cfg.ServesPortmapper:
		e.keep(kept, keeper)
	case n.cfg.Portmapper == PortmapperOff:
		close(e.up) // whoever said off sees to the portmapper, now or later
		e.wg.Go(func() { keeper.Run(kept) })
	default:
		auto := portmap.NewAuto(portmap.AutoConfig{Listen: n.cfg.PortmapperListen, Logger: n.cfg.Logger})
		e.mappers.Go(func() { auto.Run(mapped) })
		e.wg.Go(func() { n.keepAuto(kept, e, auto, keeper) })
	}
	return e
}

// keep runs the keeper, and closes up when it has registered.
func (e *entry) keep(ctx context.Context, keeper *portmap.Keeper) {
	e.wg.Go(func() { keeper.Run(ctx) })
	e.wg.Go(func() {
		select {
		case <-keeper.Ready():
			close(e.up)
		case <-ctx.Done():
		}
	})
}

// keepAuto registers once it is decided which portmapper the host has. Without
// any the daemon is up as far as it can be.
func (n *Node) keepAuto(ctx context.Context, e *entry, auto *portmap.Auto, keeper *portmap.Keeper) {
	select {
	case <-auto.Ready():
	case <-ctx.Done():
		return
	}
	status := auto.Status()
	n.mu.Lock()
	n.mapper = status
	n.mu.Unlock()
	if status.Port != 0 {
		e.keep(ctx, keeper)
		return
	}
	n.cfg.Logger.Error("no portmapper: clients cannot find this "+n.cfg.Name, "message", status.Message)
	close(e.up)
	keeper.Run(ctx)
}

// registrations are all versions over every transport that is listened on. The
// address is a wildcard: a caller is told the one on which it asked, and several
// daemons of one host, each with an address of its own, share one entry.
func (n *Node) registrations() []portmap.Registration {
	var netids []string
	add := func(is func(netip.Addr) bool, suffix string) {
		if slices.ContainsFunc(n.socks.addrs, is) {
			netids = append(netids, "tcp"+suffix, "udp"+suffix)
		}
	}
	add(netip.Addr.Is4, "")
	add(netip.Addr.Is6, "6")
	var regs []portmap.Registration
	for _, vers := range n.cfg.Versions {
		for _, netid := range netids {
			regs = append(regs, portmap.Registration{Prog: n.cfg.Program, Vers: vers, Netid: netid, Addr: portmap.WildcardUaddr(netid, n.socks.port)})
		}
	}
	return regs
}

func (n *Node) shares() bool { return len(n.cfg.Shared) > 0 }

// checkSiblings refuses a port that is not that of the siblings on this host that
// live: the portmapper has one entry for all of them, so nobody would find the
// daemon with another one. Where there is no portmapper yet nobody can tell.
func (n *Node) checkSiblings(ctx context.Context) error {
	if !n.shares() || n.cfg.Portmapper == PortmapperNone {
		return nil
	}
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
	for _, reg := range n.registrations() {
		for _, old := range list {
			same := old.Prog == reg.Prog && old.Vers == reg.Vers && old.Netid == reg.Netid
			if !same || !slices.Contains(n.cfg.Shared, reg.Vers) || old.Addr == reg.Addr || !portmap.Answers(ctx, old) {
				continue
			}
			at, _ := portmap.ParseUaddr(old.Addr)
			own, _ := portmap.ParseUaddr(reg.Addr)
			return fmt.Errorf("%s: port %d: another %[1]s of this host is at port %d, and the portmapper has one entry for all of them: say --port %[3]d, or end the others first",
				n.cfg.Name, own.Port(), at.Port())
		}
	}
	return nil
}

const siblingsTimeout = 2 * time.Second
