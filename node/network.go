package node

import (
	"context"
	"net"
)

// A Network is where sockets enter a daemon: that of the system, or one in memory
// (memnet), so that tests cut machines off and wait in virtual time.
type Network interface {
	Listen(ctx context.Context, network, addr string) (net.Listener, error)
	// ListenPacket is errors.ErrUnsupported on a network without datagrams.
	ListenPacket(ctx context.Context, network, addr string) (*net.UDPConn, error)
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
}

// System is the network of this host.
var System Network = system{}

type system struct{}

func (system) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, network, addr)
}

func (system) ListenPacket(ctx context.Context, network, addr string) (*net.UDPConn, error) {
	var lc net.ListenConfig
	c, err := lc.ListenPacket(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func (system) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}
