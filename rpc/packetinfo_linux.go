package rpc

import (
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// specDst is the local address of an IPv4 datagram, ipi_spec_dst of ip(7): where
// it was sent to, and for a broadcast the address of the interface. nil where the
// control message has none.
func specDst(oob []byte) net.IP {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return nil
		}
		if h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo {
			ip := net.IP(slices.Clone(data[4:8]))
			if ip.IsUnspecified() {
				return nil
			}
			return ip
		}
		oob = rest
	}
	return nil
}
