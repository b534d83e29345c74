package slave

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"starfish/machine"
	"starfish/rpc"
	"starfish/structs"
)

// target is what a machine of a list is to this slave.
type target struct {
	own      bool
	outsider bool   // not of the cluster: never dialed
	dial     string // what to connect to
	static   bool   // serves version 1 alone: a C handler
}

// target says what a machine of a list is. Its address decides, not its
// spelling: what resolves to our own listener is ours, so nothing calls itself.
func (s *Slave) target(ctx context.Context, machine string) (target, error) {
	if machine == s.cfg.Addr {
		return target{own: true}, nil
	}
	ip, err := netip.ParseAddr(machine)
	ips := []netip.Addr{ip.Unmap()}
	if err != nil {
		ips = s.names.lookup(ctx, machine)
	}
	for _, ip := range ips {
		if s.node.Owns(ip) {
			return target{own: true}, nil
		}
	}
	if name, protocol, ok := s.member(ctx, machine, ips); ok {
		return target{dial: name, static: protocol == structs.SLAVE_V1}, nil
	}
	for _, ip := range ips {
		for _, p := range s.cfg.AllowMachine {
			if p.Contains(ip) {
				return s.allowed(ctx, machine, ip)
			}
		}
	}
	return target{outsider: true}, nil
}

// member finds a machine in the list of the cluster, which may have it under
// another name of the same address. What is dialed is the name in the list.
func (s *Slave) member(ctx context.Context, asked string, ips []netip.Addr) (name string, protocol uint32, ok bool) {
	list := *s.cluster.members.Load()
	if protocol, ok := list[machine.Canonical(asked)]; ok {
		return asked, protocol, true
	}
	for _, ip := range ips {
		if protocol, ok := list[ip.String()]; ok {
			return ip.String(), protocol, true
		}
	}
	for name, protocol := range list {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		for _, ip := range s.names.lookup(ctx, name) {
			if slices.Contains(ips, ip) {
				return name, protocol, true
			}
		}
	}
	return "", 0, false
}

// refreshedTarget is target, with the list of machines asked for again where
// the machine is not in it.
func (s *Slave) refreshedTarget(ctx context.Context, machine string) (target, error) {
	t, err := s.target(ctx, machine)
	if err == nil && t.outsider {
		s.cluster.refresh(ctx)
		t, err = s.target(ctx, machine)
	}
	return t, err
}

// allowed is the target of a machine of --allow-machine. It is dialed by the
// address that was compared, and asked what it serves: nobody else tells.
func (s *Slave) allowed(ctx context.Context, machine string, ip netip.Addr) (target, error) {
	t := target{dial: ip.String()}
	static, known := s.names.static(ip)
	if !known {
		err := s.pool.Call(ctx, t.dial, func(ctx context.Context, c rpc.Caller) error {
			return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V2, 0, nil, nil)
		})
		if static = errors.Is(err, rpc.ErrProgMismatch); err != nil && !static {
			return t, s.callFailed(ctx, machine, err)
		}
		s.names.setStatic(ip, static)
	}
	t.static = static
	return t, nil
}

// names remembers for a while what was found out about machines.
type names struct {
	mu      sync.Mutex
	ips     map[string]remembered[[]netip.Addr]
	statics map[netip.Addr]remembered[bool]
}

type remembered[T any] struct {
	value T
	until time.Time
}

const (
	maxRemembered = 4096
	rememberFor   = 10 * time.Second
)

func newNames() *names {
	return &names{ips: map[string]remembered[[]netip.Addr]{}, statics: map[netip.Addr]remembered[bool]{}}
}

// lookup resolves a host name; none where that fails.
func (n *names) lookup(ctx context.Context, host string) []netip.Addr {
	host = machine.Canonical(host)
	n.mu.Lock()
	r, ok := n.ips[host]
	n.mu.Unlock()
	if ok && time.Now().Before(r.until) {
		return r.value
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		ips = nil
	}
	if ctx.Err() == nil {
		remember(n, n.ips, host, ips)
	}
	return ips
}

func (n *names) static(ip netip.Addr) (static, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.statics[ip]
	return r.value, ok && time.Now().Before(r.until)
}

func (n *names) setStatic(ip netip.Addr, static bool) { remember(n, n.statics, ip, static) }

func remember[K comparable, V any](n *names, m map[K]remembered[V], k K, v V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(m) >= maxRemembered {
		clear(m)
	}
	m[k] = remembered[V]{v, time.Now().Add(rememberFor)}
}
