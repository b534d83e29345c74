package portmap

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"starfish/rpc"
)

// Answers reports whether the program of reg is there: it makes a NULL call to
// its address, or where that is a wildcard to every address of this host where
// the kernel has a socket on its port. Only a clear no, a refused connection or
// an answer that there is no such program, counts as gone: a slow one is there.
func Answers(ctx context.Context, reg Registration) bool {
	addr, err := ParseUaddr(reg.Addr)
	if err != nil {
		return false
	}
	network := "tcp"
	if protoOf(strings.TrimSuffix(reg.Netid, "6")) == IPPROTO_UDP {
		network = "udp"
	}
	for _, at := range places(network, addr) {
		if answersNull(ctx, network, at, reg) {
			return true
		}
	}
	return false
}

func answersNull(ctx context.Context, network string, at netip.AddrPort, reg Registration) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	c, err := rpc.Dial(ctx, network, at.String(), rpc.ClientConfig{MaxReply: MaxRecord})
	if err == nil {
		defer c.Close()
		err = c.Call(ctx, reg.Prog, reg.Vers, 0, nil, nil)
	}
	var refused *rpc.ReplyError
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.As(err, &refused)
}

// places is where a registered address may be served: itself, or for a wildcard
// where sockets are; loopback where the kernel does not say.
func places(network string, addr netip.AddrPort) []netip.AddrPort {
	if !addr.Addr().IsUnspecified() {
		return []netip.AddrPort{addr}
	}
	var found []netip.AddrPort
	for _, table := range []string{network, network + "6"} {
		_ = readTable("/proc/net/"+table, func(fields []string) { // no table: nothing found
			at, ok := parseSocket(network, fields)
			if !ok || at.Port() != addr.Port() {
				return
			}
			ip := at.Addr()
			if any6 := ip == netip.IPv6Unspecified(); any6 && addr.Addr().Is4() || ip.IsUnspecified() && ip.Is4() == addr.Addr().Is4() {
				ip = loopbackOf(addr.Addr()) // a socket of :: may serve IPv4, too
			}
			if at = netip.AddrPortFrom(ip, at.Port()); ip.Is4() == addr.Addr().Is4() && !slices.Contains(found, at) {
				found = append(found, at)
			}
		})
	}
	if len(found) == 0 {
		found = append(found, netip.AddrPortFrom(loopbackOf(addr.Addr()), addr.Port()))
	}
	return found
}

func loopbackOf(ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return loopback4
	}
	return netip.IPv6Loopback()
}

// parseSocket reads a line of /proc/net/tcp or udp (proc(5)), "sl: address:port
// remote:port state ...", all in hex, the address as 32-bit words of the host's
// byte order. Of TCP it takes what listens.
func parseSocket(network string, fields []string) (netip.AddrPort, bool) {
	const stateListen = "0A"
	if len(fields) < 4 || network == "tcp" && fields[3] != stateListen {
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
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok
}
