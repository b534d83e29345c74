package rpc

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// AccessRule is a line of an access list. It matches a call where each of its
// fields does; one that is zero matches every call.
type AccessRule struct {
	Prog, Vers uint32   // 0: any
	Procs      []uint32 // 0, which does nothing, has to be named as any other

	// From is the caller's address. A caller over a unix socket is on this host, and
	// matches what 127.0.0.1 or ::1 does.
	From []netip.Prefix

	// UIDs is the caller's user: over a unix socket the one that the kernel knows,
	// else the one in the AUTH_SYS credential, which is worth as much as the hosts
	// in From are trusted.
	UIDs []uint32

	Deny AuthStat // what the call is denied with, AUTH_TOOWEAK as a rule; AUTH_OK, which is zero: it is allowed
}

// Access looks a call up in an access list: it is what the first rule says that
// matches, AUTH_OK for allowed, and AUTH_TOOWEAK where none does. It is for servers
// whose refusal is a result of their own; ServerConfig.Access refuses by itself.
func Access(rules []AccessRule, c *Call) AuthStat {
	addrs := callerAddrs(c)
	for i := range rules {
		if r := &rules[i]; r.matches(c, addrs) {
			return r.Deny
		}
	}
	return AUTH_TOOWEAK
}

// access looks c up in the access list, and logs who is denied.
func (s *Server) access(c *Call) AuthStat {
	if len(s.cfg.Access) == 0 {
		return AUTH_OK
	}
	stat := Access(s.cfg.Access, c)
	if stat == AUTH_OK {
		return AUTH_OK
	}
	if more, ok := s.deniedLog.next(); ok {
		s.log.Warn("rpc: call denied by the access list", "stat", stat, "prog", Program(c.Prog), "vers", c.Vers, "proc", c.Proc,
			"remote", c.Remote, "uid", callerUID(c), "more", more)
	}
	return stat
}

func (r *AccessRule) matches(c *Call, addrs []netip.Addr) bool {
	if r.Prog != 0 && r.Prog != c.Prog || r.Vers != 0 && r.Vers != c.Vers {
		return false
	}
	if len(r.Procs) > 0 && !slices.Contains(r.Procs, c.Proc) {
		return false
	}
	if len(r.From) > 0 && !slices.ContainsFunc(addrs, r.within) {
		return false
	}
	if len(r.UIDs) > 0 {
		uid := callerUID(c)
		return uid >= 0 && slices.Contains(r.UIDs, uint32(uid))
	}
	return true
}

func (r *AccessRule) within(a netip.Addr) bool {
	return slices.ContainsFunc(r.From, func(p netip.Prefix) bool { return p.Contains(a) })
}

var localAddrs = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}

// callerAddrs returns the addresses of which a rule must have one.
func callerAddrs(c *Call) []netip.Addr {
	var a netip.Addr
	switch r := c.Remote.(type) {
	case *net.TCPAddr:
		a = r.AddrPort().Addr()
	case *net.UDPAddr:
		a = r.AddrPort().Addr()
	case *net.UnixAddr:
		return localAddrs
	default:
		return nil
	}
	return []netip.Addr{a.Unmap().WithZone("")}
}

// callerUID returns the caller's user, -1 where nothing is said of it.
func callerUID(c *Call) int64 {
	switch {
	case c.PeerUID >= 0:
		return int64(c.PeerUID)
	case c.Network == "unix" || c.Sys == nil:
		return -1
	}
	return int64(c.Sys.Uid)
}

// logPace lets a line a second through, so that strangers do not fill the log.
type logPace struct {
	last atomic.Int64 // Unix seconds
	kept atomic.Uint64
}

// next reports whether a line is to be written, and how many were not since the
// last one.
func (p *logPace) next() (kept uint64, ok bool) {
	now := time.Now().Unix()
	last := p.last.Load()
	if now == last || !p.last.CompareAndSwap(last, now) {
		p.kept.Add(1)
		return 0, false
	}
	return p.kept.Swap(0), true
}
