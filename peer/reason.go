package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"starfish/fault"
	"starfish/portmap"
	"starfish/rpc"
)

// Reason is why a call failed, in words for people: "connection refused" instead
// of the way that the error took through the packages. The whole error is for
// the log.
func Reason(err error) string {
	var (
		failed *FailedError
		reply  *rpc.ReplyError
		errno  syscall.Errno
		name   *net.DNSError
		timed  net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return Reason(failed.Err)
	case errors.Is(err, portmap.ErrNotRegistered):
		return "not registered with its portmapper: it does not run, or not yet"
	case errors.As(err, &reply):
		return replied(reply)
	case errors.As(err, &name):
		return fmt.Sprintf("the host name %q cannot be found", name.Name)
	}
	why := ""
	switch {
	case errors.As(err, &errno):
		why = errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		why = "no answer in time"
	case errors.Is(err, context.Canceled):
		why = "interrupted"
	case errors.Is(err, rpc.ErrClosed):
		why = "the connection ended"
	}
	switch {
	case errors.Is(err, portmap.ErrNoPortmapper) && why != "":
		return "no portmapper answers: " + why
	case why != "":
		return why
	}
	return Plain(err.Error())
}

// Plain is fault.Plain, for those who speak of calls.
func Plain(message string) string { return fault.Plain(message) }

// replied is what a reply without a result means.
func replied(e *rpc.ReplyError) string {
	switch {
	case errors.Is(e, rpc.ErrProgUnavail):
		return "another program answers there (" + e.Error() + ")"
	case errors.Is(e, rpc.ErrProgMismatch), errors.Is(e, rpc.ErrProcUnavail), errors.Is(e, rpc.ErrRPCMismatch):
		return "it is of another release (" + e.Error() + ")"
	case errors.Is(e, rpc.ErrGarbageArgs):
		return "it does not understand the call (" + e.Error() + ")"
	case errors.Is(e, rpc.ErrAuth):
		return "it denies the call (" + e.Error() + ")"
	}
	return "it failed (" + e.Error() + "): its log says why"
}
