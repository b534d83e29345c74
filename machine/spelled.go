package machine

import (
	"cmp"
	"net/netip"
	"strings"
)

// Canonical is the spelling in which names are compared that came as text: that of
// Parse, or the text itself where it is no name.
func Canonical(s string) string {
	if n, err := Parse(s); err == nil {
		return n.String()
	}
	return s
}

// CompareSpelled is Compare for names as they are spelled, of which two may be of
// one machine: those are told apart by their bytes.
func CompareSpelled(a, b string) int {
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(ipA.Compare(ipB), strings.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}
