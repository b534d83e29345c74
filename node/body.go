package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"starfish/portmap"
	"starfish/rpc"
)

// Config says where a Node is found, and what it serves.
type Config struct {
	Name    string  // "master": begins its messages
	Network Network // nil: System
	Logger  *slog.Logger

	Addrs    []netip.Addr // to listen on; 0.0.0.0 or :: covers its family
	Optional []netip.Addr // those of them that a host may not have
	Port     int          // or AnyPort
	InUse    string       // what to do where the port is taken

	Server   *rpc.Server
	Program  uint32 // that Server answers, registered in each of Versions
	Versions []uint32
	Shared   []uint32 // those of them that several daemons of one host answer on one port; none: one daemon a host

	Portmapper       Portmapper
	ServesPortmapper bool         // with PortmapperAuto, where the host has none
	PortmapperListen []netip.Addr // where that one listens besides loopback

	// Settle does what is to be done between the registration and Ready; it may be
	// nil. Patience bounds the wait for both: the daemon is ready without them and
	// goes on trying. 0: as long as it takes.
	Settle   func(context.Context)
	Patience time.Duration

	Drain time.Duration // for calls in flight at the end
}

// Node is the body of a daemon: its sockets, its entry at the portmapper, its
// start and its end, in one order for all daemons.
type Node struct {
	cfg   Config
	ready chan struct{}

	mu     sync.Mutex
	socks  *sockets       // nil before Listen; then only read
	mapper portmap.Status // the host's portmapper
}

// New is a Node that does nothing yet.
func New(cfg Config) *Node {
	if cfg.Network == nil {
		cfg.Network = System
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Node{cfg: cfg, ready: make(chan struct{})}
}

// Ready is closed once the node is listening, registered and settled.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Addr is the first address that is listened on, nil before Listen.
func (n *Node) Addr() net.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.socks == nil {
		return nil
	}
	return n.socks.tcp[0].Addr()
}

// Owns reports whether a connection to ip, at the port of this node, comes to it.
// It is called from calls that are served, which come after Listen.
func (n *Node) Owns(ip netip.Addr) bool { return n.socks.owns(ip) }

// Portmapper says which portmapper the host has and what the user should know
// about it; zero before Ready, and where this node never serves one.
func (n *Node) Portmapper() portmap.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mapper
}

// Listen opens the sockets at addrs, besides Config.Addrs. Calls wait in them
// until Run.
func (n *Node) Listen(ctx context.Context, addrs ...netip.Addr) error {
	n.cfg.Addrs = append(addrs, n.cfg.Addrs...)
	socks, err := listen(ctx, &n.cfg)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.socks = socks
	n.mu.Unlock()
	if err := n.checkSiblings(ctx); err != nil {
		socks.close()
		return err
	}
	return nil
}

// Run serves what Listen opened until ctx ends or a socket fails: it registers,
// runs work beside the calls, and closes Ready. At the end it unregisters, lets the
// calls in flight end, and then ends work and its own portmapper.
func (n *Node) Run(ctx context.Context, work ...func(context.Context)) error {
	failed := make(chan error, len(n.socks.tcp)+len(n.socks.udp))
	var serving, working sync.WaitGroup
	for _, l := range n.socks.tcp {
		serving.Go(func() { failed <- n.cfg.Server.Serve(l) })
	}
	for _, c := range n.socks.udp {
		serving.Go(func() { failed <- n.cfg.Server.ServePacket(c) })
	}
	entry := n.register(ctx)
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, f := range work {
		working.Go(func() { f(bg) })
	}
	working.Go(func() { n.announce(bg, entry.up) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("%s: serve: %w", n.cfg.Name, err)
	}
	if !n.shares() {
		entry.leave()
	}
	n.drain()
	serving.Wait()
	stop()
	working.Wait()
	entry.close() // leaves a shared entry only now: who unsets it asks whether the port is still served
	return err
}

// drain lets the calls in flight end, and cuts off those that take too long.
func (n *Node) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Drain)
	defer cancel()
	if n.cfg.Server.Shutdown(ctx) != nil {
		n.cfg.Logger.Warn("calls in flight were cut off at shutdown")
		n.cfg.Server.Close()
	}
}

// announce closes Ready when all is up.
func (n *Node) announce(ctx context.Context, registered <-chan struct{}) {
	patience := ctx
	if n.cfg.Patience > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, n.cfg.Patience)
		defer cancel()
	}
	select {
	case <-registered:
	case <-patience.Done():
		if ctx.Err() == nil {
			n.cfg.Logger.Warn("no portmapper of this host has the " + n.cfg.Name + "'s port, so that nobody finds it: run a master, bin/portmap or rpcbind here; trying again")
		}
	}
	if n.cfg.Settle != nil {
		n.cfg.Settle(patience)
	}
	if ctx.Err() == nil {
		close(n.ready)
	}
}
