package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
)

// TestReason: what people read is the cause, not the packages on its way.
func TestReason(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	dial := fmt.Errorf("rpc: %w: %w", rpc.ErrNotSent, refused)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"None", nil, ""},
		{"Refused", &FailedError{Machine: "127.0.0.3", Err: fmt.Errorf("portmap: program 0x20b17001 version 1 at 127.0.0.3:20490: %w", dial)}, "connection refused"},
		{"Wrapped", fmt.Errorf("master: inventory of 127.0.0.3: %w", &FailedError{Machine: "127.0.0.3", Err: dial}), "connection refused"},
		{"NoPortmapper", fmt.Errorf("%w at 127.0.0.3:111: %w", portmap.ErrNoPortmapper, dial), "no portmapper answers: connection refused"},
		{"NotRegistered", &portmap.NotRegisteredError{Prog: 1, Vers: 1}, "not registered with its portmapper: it does not run, or not yet"},
		{"Silent", &FailedError{Machine: "a", Err: errSilent}, "no answer within the hop timeout"},
		{"Deadline", fmt.Errorf("rpc: call: %w", context.DeadlineExceeded), "no answer in time"},
		{"DeadlineOfASocket", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "no answer in time"},
		{"Canceled", fmt.Errorf("client: put 1007235: rpc: call: %w", context.Canceled), "interrupted"},
		{"Closed", fmt.Errorf("rpc: call: %w: EOF", rpc.ErrClosed), "the connection ended"},
		{"Reset", fmt.Errorf("rpc: call: %w: %w", rpc.ErrClosed, syscall.ECONNRESET), "connection reset by peer"},
		{"SystemErr", fmt.Errorf("rpc: call: %w", rpc.ErrSystem), "it failed (SYSTEM_ERR): its log says why"},
		{"OtherProgram", fmt.Errorf("rpc: call: %w", rpc.ErrProgUnavail), "another program answers there (PROG_UNAVAIL)"},
		{"OtherRelease", rpc.ErrProcUnavail, "it is of another release (PROC_UNAVAIL)"},
		{"Denied", rpc.AuthError(rpc.AUTH_TOOWEAK), "it denies the call (AUTH_ERROR: AUTH_TOOWEAK)"},
		{"Garbage", rpc.ErrGarbageArgs, "it does not understand the call (GARBAGE_ARGS)"},
		{"NoSuchHost", &net.DNSError{Name: "nowhere", Err: "no such host"}, `the host name "nowhere" cannot be found`},
		{"Other", errors.New("master: peer: a and b are one slave"), "a and b are one slave"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, Reason(c.err)) })
	}
}
