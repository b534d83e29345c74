// Package machine is the name of a machine: what clnt_create takes, a host name
// or an address without a port (machine_addr of structs.x). It is parsed once
// into one canonical spelling, so that names are compared with ==, and has one
// order, the same in all lists of all queries.
package machine

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// MaxName is the longest name in bytes: MAX_MACHINE_ADDR of structs.x.
const MaxName = 255

// ErrName is the kind of every error of Parse.
var ErrName = errors.New("no machine name")

// Name is a machine's name in its canonical spelling. Equal names are equal with
// ==; two names may still be of one host, which only a look-up can tell. The
// zero value names no machine.
type Name struct {
	text string
	ip   netip.Addr // invalid for a host name
}

// Parse reads a name. An address is spelled as netip spells it, an IPv4 address
// that is mapped into IPv6 as IPv4; a host name is in lower case and without the
// dot of the root. What others could not reach or dial is an error, which says
// what to write instead.
func Parse(s string) (Name, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return parseIP(s, ip)
	}
	host := lower(strings.TrimSuffix(s, "."))
	switch {
	case host == "":
		return Name{}, fmt.Errorf("%w: %q is empty", ErrName, s)
	case strings.HasPrefix(host, "."), strings.HasSuffix(host, "."), strings.Contains(host, ".."):
		return Name{}, fmt.Errorf("%w: %q has an empty part between dots", ErrName, s)
	case len(host) > MaxName:
		return Name{}, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrName, len(host), MaxName)
	case hasPort(s):
		return Name{}, fmt.Errorf("%w: %q has a port: leave it away, the host's portmapper knows it", ErrName, s)
	}
	digits := true // of an address, but no address: inet_aton(3) would take 127.1
	for _, c := range []byte(host) {
		switch {
		case c <= ' ' || c >= 0x7f || strings.IndexByte(`/\:%[]"'`, c) >= 0:
			return Name{}, fmt.Errorf("%w: %q is neither a host name nor an address", ErrName, s)
		case c != '.' && (c < '0' || c > '9'):
			digits = false
		}
	}
	if digits {
		return Name{}, fmt.Errorf("%w: %q is no complete address: write all of its parts, in decimal", ErrName, s)
	}
	return Name{text: host}, nil
}

// lower is the name in lower case, as DNS compares it: the letters of ASCII alone
// (RFC 4343), since others may become longer or no text at all.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func parseIP(s string, ip netip.Addr) (Name, error) {
	switch ip = ip.Unmap(); {
	case ip.Zone() != "":
		return Name{}, fmt.Errorf("%w: %q has a zone, which means something on one host alone: use another address", ErrName, s)
	case ip.IsUnspecified(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return Name{}, fmt.Errorf("%w: %s is no address that others can reach: name the host's own", ErrName, s)
	}
	return Name{text: ip.String(), ip: ip}, nil
}

// hasPort says that s is host:port or [address]:port.
func hasPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}

// FromAddr is the name of an address, as of a connection's other end.
func FromAddr(ip netip.Addr) Name {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() {
		return Name{}
	}
	return Name{text: ip.String(), ip: ip}
}

// MustParse is Parse for names that are written in the source; it panics on an error.
func MustParse(s string) Name {
	n, err := Parse(s)
	if err != nil {
		panic("machine: " + err.Error())
	}
	return n
}

// String is the canonical spelling; "" of the zero value.
func (n Name) String() string { return n.text }

// IsZero reports whether n names no machine.
func (n Name) IsZero() bool { return n == Name{} }

// Addr is the address, where the name is one.
func (n Name) Addr() (ip netip.Addr, ok bool) { return n.ip, n.ip.IsValid() }

// Compare is the global order of machines: addresses first and numerically, so
// that 127.0.0.9 stands before 127.0.0.10, then host names in byte order.
func Compare(a, b Name) int {
	switch aIP, bIP := a.ip.IsValid(), b.ip.IsValid(); {
	case aIP && bIP:
		return a.ip.Compare(b.ip)
	case aIP:
		return -1
	case bIP:
		return 1
	}
	return cmp.Compare(a.text, b.text)
}

// MarshalText writes the canonical spelling, for JSON and flags.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalText is Parse; an empty text is the zero value.
func (n *Name) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*n = Name{}
		return nil
	}
	*n, err = Parse(string(text))
	return err
}
