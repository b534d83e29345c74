package peer

import (
	"errors"
	"fmt"

	"starfish/rpc"
)

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("peer: pool is closed")

// errSilent is why a machine is blamed that took too long.
var errSilent = errors.New("no answer within the hop timeout")

// FailedError blames a machine: it is dead, it hangs, or what it answers is no
// reply. A machine that refuses a call is not blamed (*rpc.ReplyError), nor one
// that is merely slow.
type FailedError struct {
	Machine string
	Err     error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("peer: %s failed: %v", e.Machine, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// lost reports whether err is the end of the connection: nothing else is known
// of the call, and another connection may bring it.
func lost(err error) bool { return errors.Is(err, rpc.ErrClosed) }
