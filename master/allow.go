package master

import (
	"context"

	"starfish/fault"
	"starfish/rpc"
)

// denied logs a refused change and returns what to tell the caller.
func (m *Master) denied(ctx context.Context, what string) error {
	call := rpc.CallFromContext(ctx)
	m.log.Warn("change refused", "what", what, "from", call.Remote)
	return fault.New(fault.ErrDenied, "changes are taken from loopback and from --allow CIDR, not from %v", call.Remote)
}
