package slave

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// registrations are both versions over every transport that is listened on. The
// address is a wildcard: several slaves of one host, each with an address of its
// own, share one entry.
func registrations(s *sockets) []portmap.Registration {
	var netids []string
	if slices.ContainsFunc(s.addrs, netip.Addr.Is4) {
		netids = append(netids, "tcp", "udp")
	}
	if slices.ContainsFunc(s.addrs, netip.Addr.Is6) {
		netids = append(netids, "tcp6", "udp6")
	}
	var regs []portmap.Registration
	for _, vers := range []uint32{structs.SLAVE_V1, structs.SLAVE_V2} {
		for _, netid := range netids {
			regs = append(regs, portmap.Registration{Prog: structs.SLAVE_PROG, Vers: vers, Netid: netid, Addr: portmap.WildcardUaddr(netid, s.port)})
		}
	}
	return regs
}

const siblingTimeout = 300 * time.Millisecond

// siblingAnswers reports whether another slave of this host serves the port of
// reg: then the entry stays. Our own sockets are closed when it is asked.
func siblingAnswers(ctx context.Context, reg portmap.Registration) bool {
	at, err := portmap.ParseUaddr(reg.Addr)
	if err != nil {
		return false
	}
	for _, sibling := range listeners(at.Port(), at.Addr().Is4()) {
		if answersNull(ctx, sibling, reg.Vers) {
			return true
		}
	}
	return false
}

func answersNull(ctx context.Context, at netip.AddrPort, vers uint32) bool {
	ctx, cancel := context.WithTimeout(ctx, siblingTimeout)
	defer cancel()
	c, err := rpc.Dial(ctx, "tcp", at.String(), rpc.ClientConfig{})
	if err != nil {
		return false
	}
	defer c.Close()
	return c.Call(ctx, structs.SLAVE_PROG, vers, 0, nil, nil) == nil
}

// listeners returns who listens on a TCP port of this host, by /proc/net/tcp
// (proc(5)); none where there is no such file.
func listeners(port uint16, v4 bool) []netip.AddrPort {
	name, any := "/proc/net/tcp", netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if !v4 {
		name, any = "/proc/net/tcp6", netip.IPv6Loopback()
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []netip.AddrPort
	for lines := bufio.NewScanner(f); lines.Scan(); {
		at, ok := parseListener(lines.Text())
		if !ok || at.Port() != port {
			continue
		}
		if at.Addr().IsUnspecified() {
			at = netip.AddrPortFrom(any, port)
		}
		found = append(found, at)
	}
	return found
}

// parseListener reads a line "sl: address:port remote:port state ...", all in
// hex, the address as 32-bit words of the host's byte order.
func parseListener(line string) (netip.AddrPort, bool) {
	const stateListen = "0A"
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != stateListen {
		return netip.AddrPort{}, false
	}
	addr, port, _ := strings.Cut(fields[1], ":")
	raw, err := hex.DecodeString(addr)
	n, perr := strconv.ParseUint(port, 16, 16)
	if err != nil || perr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for w := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(w, binary.BigEndian.Uint32(w))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip, uint16(n)), ok
}
