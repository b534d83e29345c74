package portmap

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of the registry: what one host can make the portmapper remember.
const (
	MaxRegistrations = 65536 // registrations
	MaxNetid         = 32    // bytes of a netid
	MaxUaddr         = 255   // bytes of a universal address
)

// Owners of registrations, as rpcbind writes them into r_owner. Any other
// owner is a uid in decimal.
const (
	ownerSuperuser = "superuser" // uid 0 over the unix socket
	ownerUnknown   = "unknown"   // over TCP and UDP
)

// A Registration tells where a version of a program is served over
// one transport (the struct rpcb of RFC 1833 section 2.1).
type Registration struct {
	Prog, Vers uint32
	Netid      string // "tcp", "udp", "tcp6", "udp6", "local"
	Addr       string // universal address; a path for "local"
	Owner      string // of a registration that was read; SET ignores it
}

// registry holds registrations with rpcbind's rules. Order is that of
// registration, which DUMP shows.
type registry struct {
	mu      sync.RWMutex
	order   []*entry
	byNetid map[netidKey][]*entry
}

type entry struct {
	Registration
	own bool // the portmapper's own: nobody unsets it
}

type netidKey struct {
	prog  uint32
	netid string // lower case
}

func newRegistry() *registry {
	return &registry{byNetid: make(map[netidKey][]*entry)}
}

func keyOf(prog uint32, netid string) netidKey {
	return netidKey{prog, strings.ToLower(netid)}
}

// set adds m. It is true as well where the same address is registered already
// (whoever registered it), and false where another address is, where the
// address is none, and where a bound is reached.
func (r *registry) set(m Registration, own bool) bool {
	if !storable(m) {
		return false
	}
	key := keyOf(m.Prog, m.Netid)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.byNetid[key] {
		if e.Vers == m.Vers {
			return e.Addr == m.Addr
		}
	}
	if len(r.order) >= MaxRegistrations {
		return false
	}
	e := &entry{m, own}
	r.order = append(r.order, e)
	r.byNetid[key] = append(r.byNetid[key], e)
	return true
}

// storable tells whether m is within bounds and, for the netids of TCP and
// UDP, has an address. Other netids are stored as they come, as rpcbind does.
func storable(m Registration) bool {
	if m.Addr == "" || len(m.Addr) > MaxUaddr || m.Netid == "" || len(m.Netid) > MaxNetid {
		return false
	}
	switch strings.ToLower(m.Netid) {
	case "tcp", "udp":
		addr, err := ParseUaddr(m.Addr)
		return err == nil && addr.Addr().Is4()
	case "tcp6", "udp6":
		addr, err := ParseUaddr(m.Addr)
		return err == nil && addr.Addr().Is6()
	}
	return true
}

// unset removes the registrations of prog and vers with one of netids, or with
// any where none is given. Nothing registered is success; a registration of
// another owner refuses the whole.
func (r *registry) unset(prog, vers uint32, owner string, netids ...string) bool {
	matches := func(e *entry) bool {
		return e.Prog == prog && e.Vers == vers && (len(netids) == 0 ||
			slices.ContainsFunc(netids, func(n string) bool { return strings.EqualFold(n, e.Netid) }))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	foreign := func(e *entry) bool {
		return matches(e) && (e.own || owner != ownerSuperuser && owner != e.Owner)
	}
	if slices.ContainsFunc(r.order, foreign) {
		return false
	}
	for _, e := range r.order {
		if !matches(e) {
			continue
		}
		key := keyOf(e.Prog, e.Netid)
		if left := slices.DeleteFunc(r.byNetid[key], matches); len(left) > 0 {
			r.byNetid[key] = left
		} else {
			delete(r.byNetid, key)
		}
	}
	r.order = slices.DeleteFunc(r.order, matches)
	return true
}

// lookup finds the registration of prog over netid: that of vers, else the
// last of another version, which lets a client learn from the server's
// PROG_MISMATCH which versions there are. exact leaves that out.
func (r *registry) lookup(prog, vers uint32, netid string, exact bool) (Registration, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	entries := r.byNetid[keyOf(prog, netid)]
	for _, e := range entries {
		if e.Vers == vers {
			return e.Registration, true
		}
	}
	if exact || len(entries) == 0 {
		return Registration{}, false
	}
	return entries[len(entries)-1].Registration, true
}

// all lists the registrations in their order.
func (r *registry) all() []Registration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Registration, len(r.order))
	for i, e := range r.order {
		list[i] = e.Registration
	}
	return list
}

// ownerName is the owner of what a caller registers: never its own word.
// uid is the unix socket's peer, negative over TCP and UDP.
func ownerName(uid int) string {
	switch {
	case uid < 0:
		return ownerUnknown
	case uid == 0:
		return ownerSuperuser
	default:
		return strconv.Itoa(uid)
	}
}

// netidOf is version 2's protocol number as a netid, "" where there is none.
func netidOf(proto uint32) string {
	switch proto {
	case IPPROTO_TCP:
		return "tcp"
	case IPPROTO_UDP:
		return "udp"
	}
	return ""
}

// protoOf is the reverse of netidOf; 0 for what version 2 cannot show.
func protoOf(netid string) uint32 {
	switch strings.ToLower(netid) {
	case "tcp":
		return IPPROTO_TCP
	case "udp":
		return IPPROTO_UDP
	}
	return 0
}
