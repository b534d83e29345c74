package portmap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"starfish/rpc"
)

// How a reaper looks.
const (
	// DefaultReap is the time between two looks.
	DefaultReap = 30 * time.Second
	// reapLooks is how many looks in a row must find nobody behind a
	// registration before it is dropped: a service may be starting again.
	reapLooks = 3
)

// reaper drops the registrations of services on this host that are gone. It
// only looks: at which ports and paths the kernel has sockets. What it cannot
// tell is left alone, and so are other hosts' addresses and other transports.
type reaper struct {
	reg      *registry
	log      *slog.Logger
	interval time.Duration
	proc     string               // "/proc"
	missed   map[Registration]int // looks in a row that found nobody
}

// run looks until ctx ends.
func (p *reaper) run(ctx context.Context) {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := p.look()
		if err != nil && !failing {
			p.log.Warn("reap: cannot tell which services live", "err", err)
		}
		failing = err != nil
	}
}

// look looks once, and drops what was found dead often enough.
func (p *reaper) look() error {
	bound, err := readBound(p.proc)
	if err != nil {
		p.missed = nil
		return err
	}
	missed, dead := make(map[Registration]int), make(map[Registration]bool)
	for _, r := range p.reg.all() {
		if r.Prog == PMAP_PROG || bound.alive(r) {
			continue
		}
		if missed[r] = p.missed[r] + 1; missed[r] >= reapLooks {
			dead[r] = true
			delete(missed, r)
			p.log.Info("reap: nobody serves this any more", "prog", rpc.Program(r.Prog), "vers", r.Vers, "netid", r.Netid, "addr", r.Addr, "owner", r.Owner)
		}
	}
	p.missed = missed
	if len(dead) > 0 {
		p.reg.drop(dead)
	}
	return nil
}

// bound is what the kernel has sockets for.
type bound struct {
	tcp, udp map[uint16]bool // ports, whatever their address
	unix     map[string]bool // paths
	hosts    map[netip.Addr]bool
}

// alive tells whether a registration's service may be there.
func (b bound) alive(r Registration) bool {
	ports := b.tcp
	switch strings.ToLower(r.Netid) {
	case "udp", "udp6":
		ports = b.udp
	case "tcp", "tcp6":
	case "local", "unix":
		return b.unix[r.Addr] || !goneSocket(r.Addr)
	default:
		return true
	}
	addr, err := ParseUaddr(r.Addr)
	if err != nil {
		return true
	}
	host := addr.Addr().Unmap().WithZone("")
	return ports[addr.Port()] || !host.IsUnspecified() && !host.IsLoopback() && !b.hosts[host]
}

// goneSocket tells whether nobody listens at a path. The table of sockets does
// not show those of other network namespaces, so it asks.
func goneSocket(path string) bool {
	conn, err := net.DialTimeout("unix", path, aliveTimeout)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// readBound reads the tables of sockets under proc, and this host's addresses.
func readBound(proc string) (bound, error) {
	b := bound{tcp: make(map[uint16]bool), udp: make(map[uint16]bool), unix: make(map[string]bool), hosts: make(map[netip.Addr]bool)}
	const listening = "0A"
	err := errors.Join(
		readTable(proc+"/net/tcp", func(f []string) { addPort(b.tcp, f, listening) }),
		readTable(proc+"/net/udp", func(f []string) { addPort(b.udp, f, "") }),
		readTable(proc+"/net/unix", func(f []string) {
			if len(f) > 7 {
				b.unix[strings.Join(f[7:], " ")] = true
			}
		}),
		optional(readTable(proc+"/net/tcp6", func(f []string) { addPort(b.tcp, f, listening) })),
		optional(readTable(proc+"/net/udp6", func(f []string) { addPort(b.udp, f, "") })),
	)
	if err != nil {
		return bound{}, err
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return bound{}, fmt.Errorf("portmap: reap: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			b.hosts[p.Addr().Unmap().WithZone("")] = true
		}
	}
	return b, nil
}

// optional forgives a table that is not there: a host without IPv6.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// addPort adds the local port of a line of /proc/net/tcp or udp:
// "0: 0100007F:1F90 00000000:0000 0A ...".
func addPort(ports map[uint16]bool, fields []string, state string) {
	if len(fields) < 4 || state != "" && fields[3] != state {
		return
	}
	_, port, _ := strings.Cut(fields[1], ":")
	if n, err := strconv.ParseUint(port, 16, 16); err == nil {
		ports[uint16(n)] = true
	}
}

// readTable calls line with the fields of each line but the heading.
func readTable(path string, line func(fields []string)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("portmap: reap: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 0; ; n++ {
		text, err := r.ReadString('\n')
		if n > 0 && text != "" {
			line(strings.Fields(text))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("portmap: reap: %s: %w", path, err)
		}
	}
}
