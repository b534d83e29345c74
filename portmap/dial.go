package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"starfish/rpc"
)

// maxCached bounds a Resolver's memory of ports.
const maxCached = 4096

// Dial connects to a program on host as clnt_create does: it asks the
// portmapper on host for the port, over network ("tcp" or "udp"), and connects
// to host itself at that port, whichever address the portmapper names. Another
// portmapper than the one on port 111 is tried as Lookup says.
func Dial(ctx context.Context, network, host string, prog, vers uint32, cfg rpc.ClientConfig) (*rpc.Client, error) {
	return NewResolver().Dial(ctx, network, host, prog, vers, cfg)
}

// Lookup asks for the host:port of a program, with the program's host as it
// was asked for. The portmapper on port 111 of host is asked first; then the
// one that STARFISH_PORTMAP names ("port", on host, or "host:port"), else,
// where nobody listens on 111, the one on port 10111. Each is asked in version
// 4, 3 and 2.
func Lookup(ctx context.Context, network, host string, prog, vers uint32) (string, error) {
	return NewResolver().Lookup(ctx, network, host, prog, vers)
}

// A Resolver is Dial and Lookup with a memory of the ports that were found. A
// port that refuses a connection is looked up again. Over UDP nothing is
// refused at once: call Forget when a call fails.
type Resolver struct {
	mu    sync.Mutex
	ports map[lookupKey]string
}

type lookupKey struct {
	network, host string
	prog, vers    uint32
}

// NewResolver makes an empty Resolver.
func NewResolver() *Resolver { return &Resolver{ports: make(map[lookupKey]string)} }

// Lookup is the function Lookup, answered from memory where possible.
func (r *Resolver) Lookup(ctx context.Context, network, host string, prog, vers uint32) (string, error) {
	key := lookupKey{network, host, prog, vers}
	if addr, ok := r.cached(key); ok {
		return addr, nil
	}
	addr, err := lookup(ctx, key)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ports) >= maxCached {
		clear(r.ports)
	}
	r.ports[key] = addr
	return addr, nil
}

// Dial is the function Dial, with the port from memory where possible.
func (r *Resolver) Dial(ctx context.Context, network, host string, prog, vers uint32, cfg rpc.ClientConfig) (*rpc.Client, error) {
	_, remembered := r.cached(lookupKey{network, host, prog, vers})
	for {
		addr, err := r.Lookup(ctx, network, host, prog, vers)
		if err != nil {
			return nil, err
		}
		c, err := rpc.Dial(ctx, network, addr, cfg)
		if err == nil {
			return c, nil
		}
		r.Forget(network, host, prog, vers)
		if !remembered || ctx.Err() != nil {
			return nil, fmt.Errorf("portmap: program %#x version %d at %s: %w", prog, vers, addr, err)
		}
		remembered = false
	}
}

// Forget drops the port of a program from memory.
func (r *Resolver) Forget(network, host string, prog, vers uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ports, lookupKey{network, host, prog, vers})
}

func (r *Resolver) cached(key lookupKey) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	addr, ok := r.ports[key]
	return addr, ok
}

// lookup asks at the addresses of key.host in turn; the error is the first one's.
func lookup(ctx context.Context, key lookupKey) (string, error) {
	ips, err := resolve(ctx, key.host)
	if err != nil {
		return "", err
	}
	var first error
	for _, ip := range ips {
		addr, err := lookupAt(ctx, key, ip)
		if err == nil {
			return addr, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", first
}

// lookupAt asks the portmappers of ip in turn.
func lookupAt(ctx context.Context, key lookupKey, ip netip.Addr) (string, error) {
	addr, err := ask(ctx, key, ip, joinHostPort(ip.String(), strconv.Itoa(DefaultPort)))
	if err == nil {
		return addr, nil
	}
	next := ""
	if env := os.Getenv(PortmapEnv); env != "" {
		next = envAddr(env, ip.String())
	} else if refusedConn(err) {
		next = joinHostPort(ip.String(), strconv.Itoa(FallbackPort))
	}
	if next == "" || ctx.Err() != nil {
		return "", err
	}
	addr, err2 := ask(ctx, key, ip, next)
	switch {
	case err2 == nil:
		return addr, nil
	case errors.Is(err2, ErrNotRegistered) && !errors.Is(err, ErrNotRegistered):
		return "", err2 // it answers, which the first did not
	case errors.Is(err, ErrNotRegistered), os.Getenv(PortmapEnv) == "":
		return "", err
	}
	return "", errors.Join(err, err2)
}

// ask asks one portmapper.
func ask(ctx context.Context, key lookupKey, ip netip.Addr, portmapper string) (string, error) {
	c, err := Connect(ctx, key.network, portmapper, rpc.ClientConfig{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	netid := key.network
	if ip.Is6() {
		netid += "6"
	}
	uaddr, err := c.GetAddr(ctx, key.prog, key.vers, netid)
	if err != nil {
		return "", err
	}
	at, err := ParseUaddr(uaddr)
	if err != nil {
		return "", fmt.Errorf("portmap: %s answers %w", portmapper, err)
	}
	return joinHostPort(ip.String(), strconv.Itoa(int(at.Port()))), nil
}

// resolve is the addresses of host: those of IPv4 first, since clnt_create's tcp
// and udp mean IPv4.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("portmap: %w", err)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("portmap: host %q has no address", host)
	}
	var v4, v6 []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			v4 = append(v4, ip)
		} else {
			v6 = append(v6, ip)
		}
	}
	return append(v4, v6...), nil
}
