package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// poolServer is the far end of a pool: each dial gives it a connection.
type poolServer struct {
	dials   int
	refuse  error // the next dials fail with it
	arrived chan net.Conn
}

// pooled runs f in a bubble with a pool of pipes.
func pooled(t *testing.T, cfg PoolConfig, f func(t *testing.T, p *Pool, s *poolServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &poolServer{arrived: make(chan net.Conn, 100)}
		p := NewPool(func(context.Context) (*Client, error) {
			s.dials++
			if s.refuse != nil {
				return nil, s.refuse
			}
			near, far := net.Pipe()
			s.arrived <- far
			return NewClient(near, ClientConfig{}), nil
		}, cfg)
		defer p.Close()
		f(t, p, s)
	})
}

// begun makes a call of the pool in the background.
func begun(ctx context.Context, p *Pool) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Call(ctx, testProg, 1, procEcho, nil, nil) }()
	return done
}

func TestPoolReconnects(t *testing.T) {
	answer := func(t *testing.T, far net.Conn) { send(t, far, record(success(nextCall(t, far)))) }
	lost := func(t *testing.T, far net.Conn) { nextCall(t, far); _ = far.Close() }
	t.Run("IdleConnectionEnded", func(t *testing.T) {
		pooled(t, PoolConfig{}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			far := <-s.arrived
			answer(t, far)
			require.NoError(t, <-done)
			_ = far.Close()
			synctest.Wait()
			done = begun(t.Context(), p)
			answer(t, <-s.arrived)
			require.NoError(t, <-done)
			require.Equal(t, 2, s.dials)
		})
	})
	t.Run("HalfSent", func(t *testing.T) {
		pooled(t, PoolConfig{}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			far := <-s.arrived
			_, err := io.ReadFull(far, make([]byte, 10))
			require.NoError(t, err)
			_ = far.Close()
			answer(t, <-s.arrived)
			require.NoError(t, <-done)
		})
	})
	t.Run("Sent", func(t *testing.T) {
		pooled(t, PoolConfig{}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			lost(t, <-s.arrived)
			err := <-done
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, ErrNotSent)
			require.Equal(t, 1, s.dials)
		})
	})
	idempotent := func(_, _, proc uint32) bool { return proc == procEcho }
	t.Run("SentAndIdempotent", func(t *testing.T) {
		pooled(t, PoolConfig{}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(Idempotent(t.Context()), p)
			lost(t, <-s.arrived)
			answer(t, <-s.arrived)
			require.NoError(t, <-done)
		})
		pooled(t, PoolConfig{Idempotent: idempotent}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			lost(t, <-s.arrived)
			answer(t, <-s.arrived)
			require.NoError(t, <-done)
		})
	})
	t.Run("NotForEver", func(t *testing.T) {
		pooled(t, PoolConfig{Idempotent: idempotent}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			for range maxTries {
				lost(t, <-s.arrived)
			}
			require.ErrorIs(t, <-done, ErrClosed)
			require.Equal(t, maxTries, s.dials)
		})
	})
	t.Run("Refused", func(t *testing.T) {
		pooled(t, PoolConfig{Idempotent: idempotent}, func(t *testing.T, p *Pool, s *poolServer) {
			done := begun(t.Context(), p)
			far := <-s.arrived
			send(t, far, record(appendRefusal(nil, nextCall(t, far), OpaqueAuth{}, &ReplyError{AcceptStat: SYSTEM_ERR})))
			require.ErrorIs(t, <-done, ErrSystem, "it is an answer")
			require.Equal(t, 1, s.dials)
		})
	})
}

// TestPoolSize: connections come with the calls in flight, up to Size.
func TestPoolSize(t *testing.T) {
	pooled(t, PoolConfig{Size: 3, PerConn: 2}, func(t *testing.T, p *Pool, s *poolServer) {
		var far []net.Conn
		for range 20 {
			begun(t.Context(), p)
			synctest.Wait()
		}
		require.Equal(t, 3, s.dials)
		for range 3 {
			far = append(far, <-s.arrived)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			require.InDelta(t, 20/3, c.calls, 1, "all have about as many")
		}
		for _, c := range far {
			require.NoError(t, c.Close())
		}
	})
}

// TestPoolBackoff: where nobody listens, calls fail at once and dials are few.
func TestPoolBackoff(t *testing.T) {
	pooled(t, PoolConfig{Backoff: time.Second}, func(t *testing.T, p *Pool, s *poolServer) {
		s.refuse = errors.New("nobody there")
		begin := time.Now()
		for time.Since(begin) < 60*time.Second {
			err := <-begun(t.Context(), p)
			require.ErrorIs(t, err, s.refuse)
			require.ErrorIs(t, err, ErrNotSent)
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, s.dials, 3+60/5+1) // after 0, 1, 3, 7 s, then every 5
		s.refuse = nil
		time.Sleep(MaxDialBackoff)
		done := begun(t.Context(), p)
		far := <-s.arrived
		send(t, far, record(success(nextCall(t, far))))
		require.NoError(t, <-done)
	})
}

// TestPoolDialIsNobodysOwn: the call for which a dial was begun may give up, and
// the next has its connection.
func TestPoolDialIsNobodysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, dials := make(chan struct{}), 0
		p := NewPool(func(ctx context.Context) (*Client, error) {
			dials++
			<-begin
			near, far := net.Pipe()
			go func() { send(t, far, record(success(nextCall(t, far)))) }()
			return NewClient(near, ClientConfig{}), ctx.Err()
		}, PoolConfig{})
		defer p.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := <-begun(ctx, p)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNotSent)
		done := begun(t.Context(), p)
		close(begin)
		require.NoError(t, <-done)
		require.Equal(t, 1, dials)
	})
}

// TestPoolClose ends what waits, and what is dialed.
func TestPoolClose(t *testing.T) {
	pooled(t, PoolConfig{}, func(t *testing.T, p *Pool, s *poolServer) {
		done := begun(t.Context(), p)
		nextCall(t, <-s.arrived)
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-done, ErrClosed)
		require.ErrorIs(t, <-begun(t.Context(), p), ErrClosed)
		require.NoError(t, p.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(func(ctx context.Context) (*Client, error) { <-ctx.Done(); return nil, ctx.Err() }, PoolConfig{})
		done := begun(t.Context(), p)
		synctest.Wait()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-done, ErrNotSent)
	})
}

// TestPoolServerRestarts: callers of a server that is stopped and started again
// get answers, or errors that say what is known, and each answered call ran.
func TestPoolServerRestarts(t *testing.T) {
	first := newTestServer(t, ServerConfig{})
	addr := first.listen(t, "unix") // a client of a port that nobody has may get it for itself
	p := NewPool(func(ctx context.Context) (*Client, error) { return Dial(ctx, "unix", addr, ClientConfig{}) },
		PoolConfig{Backoff: time.Millisecond, Size: 2, PerConn: 4})
	defer p.Close()
	require.NoError(t, p.Call(t.Context(), testProg, 1, procNull, nil, nil))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 16 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := p.Call(t.Context(), testProg, 1, procNull, nil, nil); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNotSent) {
					t.Error(err)
					return
				}
			}
		})
	}
	require.NoError(t, first.Close())
	second := newTestServer(t, ServerConfig{})
	l, err := net.Listen("unix", addr)
	require.NoError(t, err)
	second.run(t, func() error { return second.Serve(l) })
	waitFor(t, func() bool { return p.Call(t.Context(), testProg, 1, procNull, nil, nil) == nil })
	require.NoError(t, p.Call(t.Context(), testProg, 1, procNull, nil, nil))
}
