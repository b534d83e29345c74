package memnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// conn is one end of a connection.
type conn struct {
	net.Conn // its half of a pipe; the other half is the wire's
	local    net.Addr
	remote   net.Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// connect makes a connection between two hosts and hands it to who listens.
func (n *Network) connect(from, to *Host, local, remote netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := to.listening(remote)
	if l == nil || len(l.accept) == cap(l.accept) {
		return nil, os.NewSyscallError("connect", unix.ECONNREFUSED)
	}
	select {
	case <-n.closed:
		return nil, net.ErrClosed
	default:
	}
	ours, near := net.Pipe()
	theirs, far := net.Pipe()
	n.ends[near], n.ends[far] = true, true
	n.carry(near, far, from, to)
	n.carry(far, near, to, from)
	dialed := &conn{ours, net.TCPAddrFromAddrPort(local), net.TCPAddrFromAddrPort(remote)}
	l.accept <- &conn{theirs, dialed.remote, dialed.local} // has room, and n.mu is held
	return dialed, nil
}

// carry takes to one end what is written to the other, for as long as the hosts
// let it pass. What waits is kept without a bound, so that nobody who writes
// waits for virtual time in a mutex, where it would stand still.
func (n *Network) carry(in, out net.Conn, from, to *Host) {
	var (
		mu   sync.Mutex
		kept []byte
		over bool
		wake = make(chan struct{}, 1)
	)
	n.wires.Go(func() {
		for b := make([]byte, 64<<10); ; {
			size, err := in.Read(b)
			mu.Lock()
			kept, over = append(kept, b[:size]...), err != nil
			mu.Unlock()
			select {
			case wake <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	})
	n.wires.Go(func() {
		defer n.hangUp(in, out)
		for range wake {
			if n.pass(context.Background(), func(h *Host) bool { return h.cut || h.stopped }, from, to) != nil {
				return
			}
			mu.Lock()
			b, end := kept, over
			kept = nil
			mu.Unlock()
			if len(b) > 0 { // nothing written is something read
				if _, err := out.Write(b); err != nil {
					return
				}
			}
			if end {
				return
			}
		}
	})
}

// hangUp ends a connection: each side reads what has arrived, and then its end.
func (n *Network) hangUp(ends ...net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range ends {
		delete(n.ends, e)
		e.Close()
	}
}
