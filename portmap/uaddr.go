package portmap

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Uaddr writes an address as a universal address (RFC 5665 section 5.2.3.3):
// the host, then the port's high and low byte in decimal, all separated by
// dots. 127.0.0.1:111 is "127.0.0.1.0.111", [::1]:2049 is "::1.8.1".
func Uaddr(addr netip.AddrPort) string {
	port := addr.Port()
	return fmt.Sprintf("%s.%d.%d", addr.Addr(), port>>8, port&0xff)
}

// ParseUaddr reads a universal address of TCP or UDP over IPv4 or IPv6.
func ParseUaddr(s string) (netip.AddrPort, error) {
	rest, low, ok1 := cutLast(s)
	host, high, ok2 := cutLast(rest)
	hi, err1 := strconv.ParseUint(high, 10, 8)
	lo, err2 := strconv.ParseUint(low, 10, 8)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %q", ErrUaddr, s)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %q", ErrUaddr, s)
	}
	return netip.AddrPortFrom(addr, uint16(hi<<8|lo)), nil
}

// WildcardUaddr is the universal address by which a service that listens on
// every address of netid ("tcp", "udp", "tcp6", "udp6") registers: a caller is
// told the address on which it asked the portmapper.
func WildcardUaddr(netid string, port uint16) string {
	host := netip.IPv4Unspecified()
	if strings.HasSuffix(netid, "6") {
		host = netip.IPv6Unspecified()
	}
	return Uaddr(netip.AddrPortFrom(host, port))
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// mergeUaddr is the address that a caller is told: stored itself, or, where
// its host is a wildcard, the same port on local, the address on which the
// caller reached the portmapper. "" where the two do not belong together.
func mergeUaddr(stored string, local netip.Addr) string {
	addr, err := ParseUaddr(stored)
	if err != nil || !addr.Addr().IsUnspecified() {
		return stored
	}
	local = local.Unmap()
	if !local.IsValid() || local.Is4() != addr.Addr().Is4() {
		return ""
	}
	return Uaddr(netip.AddrPortFrom(local.WithZone(""), addr.Port()))
}
