package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"starfish/portmap"
	"starfish/rpc"
)

// askTimeout bounds one question to the portmapper of this host.
const askTimeout = 2 * time.Second

// loAddrs are addresses that were added to the loopback interface.
type loAddrs struct{ added []string }

// needsLoAddrs tells whether the portmapper on port 111, when it is asked at
// one of the addresses, names another: Debian's rpcbind names an address that
// the interface has, and so sends C clients of every slave to 127.0.0.1.
func needsLoAddrs(ctx context.Context, addrs []netip.Addr) bool {
	for _, a := range addrs {
		if named, err := namedBy(ctx, a); err == nil && named != a {
			return true
		}
	}
	return false
}

// namedBy is the address that the portmapper of host a gives for itself.
func namedBy(ctx context.Context, a netip.Addr) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := portmap.Connect(ctx, "tcp", net.JoinHostPort(a.String(), fmt.Sprint(portmap.DefaultPort)), rpc.ClientConfig{})
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	uaddr, err := c.GetAddr(ctx, portmap.PMAP_PROG, portmap.PMAP_VERS, "tcp")
	if err != nil {
		return netip.Addr{}, err
	}
	at, err := portmap.ParseUaddr(uaddr)
	return at.Addr(), err
}

// loCommands are the commands that give lo the addresses.
func loCommands(addrs []netip.Addr) string {
	lines := make([]string, len(addrs))
	for i, a := range addrs {
		lines[i] = fmt.Sprintf("sudo ip addr add %s/8 dev lo", a)
	}
	return strings.Join(lines, "; ")
}

// add gives lo the addresses that it has not got.
func (l *loAddrs) add(ctx context.Context, addrs []netip.Addr) error {
	has, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, a := range has {
		if ip, ok := a.(*net.IPNet); ok {
			present[ip.IP.String()] = true
		}
	}
	for _, a := range addrs {
		if present[a.String()] {
			continue
		}
		if err := ip(ctx, "add", a.String()); err != nil {
			return errors.Join(err, l.remove(ctx))
		}
		l.added = append(l.added, a.String())
	}
	return nil
}

// remove takes away what add gave.
func (l *loAddrs) remove(ctx context.Context) error {
	var errs []error
	for _, a := range l.added {
		errs = append(errs, ip(ctx, "del", a))
	}
	l.added = nil
	return errors.Join(errs...)
}

func ip(ctx context.Context, what, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	path, err := exec.LookPath("ip")
	if err != nil {
		for _, p := range []string{"/usr/sbin/ip", "/sbin/ip"} { // not in everyone's PATH
			if _, statErr := os.Stat(p); statErr == nil {
				path, err = p, nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("ip addr %s %s dev lo: %w", what, addr, err)
	}
	if out, err := exec.CommandContext(ctx, path, "addr", what, addr+"/8", "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("ip addr %s %s/8 dev lo: %w: %s", what, addr, err, strings.TrimSpace(string(out)))
	}
	return nil
}
