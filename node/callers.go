package node

import (
	"context"
	"net/netip"

	"starfish/rpc"
)

// Callers are those who may change something: who calls from loopback, over a
// unix socket, or from one of the networks allowed. AUTH_SYS proves nothing, so it
// is not looked at.
type Callers struct{ rules []rpc.AccessRule }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// NewCallers are those of this host and those of allow.
func NewCallers(allow []netip.Prefix) Callers {
	rules := []rpc.AccessRule{{From: loopback}}
	if len(allow) > 0 { // no From matches everyone
		rules = append(rules, rpc.AccessRule{From: allow})
	}
	return Callers{rules}
}

// Allow tells whether the call of ctx is of one of them. One that was made within
// the process is.
func (c Callers) Allow(ctx context.Context) bool {
	call := rpc.CallFromContext(ctx)
	return call == nil || rpc.Access(c.rules, call) == rpc.AUTH_OK
}
