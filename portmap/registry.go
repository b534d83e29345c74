package portmap

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Owners of registrations, as rpcbind writes them into r_owner. Any other
// owner is a uid in decimal.
const (
	ownerSuperuser = "superuser" // uid 0 over the unix socket, or a reserved source port
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
	size    int                  // bytes of a list of all in XDR
	dumps   atomic.Pointer[dump] // nil after a change
	changed chan struct{}        // has a token after a change
}

// dump is the registrations as DUMP answers them, as lists and in XDR. It is
// shared by all answers and never changed.
type dump struct {
	rpcb    RpcblistPtr
	pmap    PmaplistPtr
	rpcbXDR []byte
	pmapXDR []byte
	err     error // why there is no XDR
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
	return &registry{byNetid: make(map[netidKey][]*entry), changed: make(chan struct{}, 1)}
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
	size := sizeOf(m)
	if len(r.order) >= MaxRegistrations || r.size+size > MaxListBytes {
		return false
	}
	e := &entry{m, own}
	r.order = append(r.order, e)
	r.byNetid[key] = append(r.byNetid[key], e)
	r.size += size
	r.touch()
	return true
}

// touch notes a change; r.mu is held.
func (r *registry) touch() {
	r.dumps.Store(nil)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// sizeOf is the length of m in a list of versions 3 and 4.
func sizeOf(m Registration) int {
	return 24 + padded(m.Netid) + padded(m.Addr) + padded(m.Owner)
}

// padded is the length of a string's bytes in XDR.
func padded(s string) int { return (len(s) + 3) &^ 3 }

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
	r.remove(matches)
	return true
}

// remove removes what matches; r.mu is held.
func (r *registry) remove(matches func(*entry) bool) {
	before := len(r.order)
	for _, e := range r.order {
		if !matches(e) {
			continue
		}
		r.size -= sizeOf(e.Registration)
		key := keyOf(e.Prog, e.Netid)
		if left := slices.DeleteFunc(r.byNetid[key], matches); len(left) > 0 {
			r.byNetid[key] = left
		} else {
			delete(r.byNetid, key)
		}
	}
	r.order = slices.DeleteFunc(r.order, matches)
	if len(r.order) != before {
		r.touch()
	}
}

// drop removes those of the registrations that are still there as they are,
// whoever owns them, but none of the portmapper's own.
func (r *registry) drop(dead map[Registration]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(func(e *entry) bool { return !e.own && dead[e.Registration] })
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

// versions is the lowest and the highest version of prog over netid, 0 where
// there is none.
func (r *registry) versions(prog uint32, netid string) (low, high uint32) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i, e := range r.byNetid[keyOf(prog, netid)] {
		if i == 0 {
			low, high = e.Vers, e.Vers
		}
		low, high = min(low, e.Vers), max(high, e.Vers)
	}
	return low, high
}

// len is the number of registrations, the portmapper's own included.
func (r *registry) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.order)
}

// dump is the answers to DUMP.
func (r *registry) dump() *dump {
	if d := r.dumps.Load(); d != nil {
		return d
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	d := &dump{}
	rpcb, pmap := &d.rpcb, &d.pmap
	for _, e := range r.order {
		m := e.Registration
		*rpcb = &RpList{RpcbMap: Rpcb{m.Prog, m.Vers, m.Netid, m.Addr, m.Owner}}
		rpcb = &(*rpcb).RpcbNext
		if proto := protoOf(m.Netid); proto != 0 {
			*pmap = &Pmaplist{Map: Mapping{m.Prog, m.Vers, proto, portOf(m)}}
			pmap = &(*pmap).Next
		}
	}
	var err1, err2 error
	d.rpcbXDR, err1 = AppendRpcblistPtr(make([]byte, 0, 4+r.size), d.rpcb)
	d.pmapXDR, err2 = AppendPmaplistPtr(nil, d.pmap)
	d.err = errors.Join(err1, err2)
	r.dumps.Store(d) // while no change can come between
	return d
}

// of lists the registrations of a version of a program in their order.
func (r *registry) of(prog, vers uint32) []Registration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []Registration
	for _, e := range r.order {
		if e.Prog == prog && e.Vers == vers {
			list = append(list, e.Registration)
		}
	}
	return list
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
