package peer

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/node/memnet"
	"starfish/rpc"
	"starfish/structs"
	"starfish/xdr"
)

const workPort = ":20490"

// virtual runs f with a pool on one host and machines a and b, in virtual time.
// What runs there works for as long as the call's argument says, in milliseconds.
func virtual(t *testing.T, cfg Config, f func(t *testing.T, p *Pool, a, b *memnet.Host)) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		defer n.Close()
		caller := n.Host("caller", netip.MustParseAddr("10.0.0.1"))
		slow := rpc.HandlerFunc(func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
			if call.Proc == 0 {
				return reply, nil
			}
			select {
			case <-time.After(time.Duration(args.Uint64()) * time.Millisecond):
			case <-ctx.Done():
			}
			return xdr.AppendUint64(reply, 1), nil
		})
		var hosts []*memnet.Host
		for i, name := range []string{"a", "b"} {
			h := n.Host(name, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}))
			l, err := h.Listen(t.Context(), "tcp", "0.0.0.0"+workPort)
			require.NoError(t, err)
			s := rpc.NewServer(rpc.ServerConfig{})
			s.Register(structs.SLAVE_PROG, structs.SLAVE_V1, slow)
			served := make(chan struct{})
			go func() { defer close(served); s.Serve(l) }()
			defer func() { s.Close(); <-served }()
			hosts = append(hosts, h)
		}
		cfg.Dial = func(ctx context.Context, machine string, _ uint32) (*rpc.Client, error) {
			c, err := caller.Dial(ctx, "tcp", machine+workPort)
			if err != nil {
				return nil, err
			}
			return rpc.NewClient(c, rpc.ClientConfig{Timeout: 48 * time.Hour}), nil
		}
		p := New(cfg)
		defer p.Close()
		f(t, p, hosts[0], hosts[1])
	})
}

// busy is a call that takes d.
func busy(d time.Duration) func(context.Context, rpc.Caller) error {
	return func(ctx context.Context, c rpc.Caller) error {
		return c.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V1, 1, number(d.Milliseconds()), new(number))
	}
}

// TestVirtualBlame: a machine that is cut off, or stopped, is blamed within the
// hop timeout, to the nanosecond; one that works for minutes beside it is not.
func TestVirtualBlame(t *testing.T) {
	for name, hurt := range map[string]func(*memnet.Host){"cut off": (*memnet.Host).Cut, "stopped": (*memnet.Host).Stop} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Config{HopTimeout: time.Second}, func(t *testing.T, p *Pool, a, b *memnet.Host) {
				require.NoError(t, p.Call(t.Context(), "a", busy(0)))
				slow := make(chan error, 1)
				begin := time.Now()
				go func() { slow <- p.Call(t.Context(), "b", busy(5*time.Minute)) }()

				hurt(a)
				requireBlames(t, p.Call(t.Context(), "a", busy(0)), "a")
				require.LessOrEqual(t, time.Since(begin), time.Second, "over the connection that was there")
				second := time.Now()
				requireBlames(t, p.Call(t.Context(), "a", busy(0)), "a")
				require.LessOrEqual(t, time.Since(second), time.Second, "over a new one")

				require.NoError(t, <-slow, "slow is not dead")
				require.Equal(t, 5*time.Minute, time.Since(begin))

				a.Heal()
				require.NoError(t, p.Call(t.Context(), "a", busy(0)), "it is back")
			})
		})
	}
}

// TestVirtualCutWhileItWorks: a machine that goes away in the middle of a long call
// is blamed a hop timeout later, whenever that is.
func TestVirtualCutWhileItWorks(t *testing.T) {
	virtual(t, Config{HopTimeout: time.Second}, func(t *testing.T, p *Pool, a, _ *memnet.Host) {
		for _, after := range []time.Duration{10 * time.Millisecond, 700 * time.Millisecond, time.Hour + time.Millisecond} {
			begin := time.Now()
			time.AfterFunc(after, a.Cut)
			requireBlames(t, p.Call(t.Context(), "a", busy(24*time.Hour)), "a")
			require.Less(t, time.Since(begin), after+time.Second+time.Millisecond)
			require.Greater(t, time.Since(begin), after)
			a.Heal()
		}
	})
}

// TestVirtualDeadline: a caller whose own time is over blames nobody.
func TestVirtualDeadline(t *testing.T) {
	virtual(t, Config{HopTimeout: time.Second}, func(t *testing.T, p *Pool, _, _ *memnet.Host) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := p.Call(ctx, "a", busy(time.Hour))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, errors.As(err, new(*FailedError)))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}
