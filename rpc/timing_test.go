package rpc

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipeListener accepts the far ends of pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(t *testing.T) net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	t.Cleanup(func() { _ = near.Close() })
	return near
}

// onPipes runs f in a bubble, with a server on pipes.
func onPipes(t *testing.T, cfg ServerConfig, f func(t *testing.T, s *testServer, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, cfg)
		l := newPipeListener()
		s.run(t, func() error { return s.Serve(l) })
		f(t, s, func() net.Conn { return l.dial(t) })
	})
}

// closedAfter waits until the server closes conn.
func closedAfter(t *testing.T, conn net.Conn) time.Duration {
	begin := time.Now()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	return time.Since(begin)
}

const (
	testIdle  = 100 * time.Second
	testStall = 10 * time.Second
)

var testTimes = ServerConfig{IdleTimeout: testIdle, StallTimeout: testStall}

func requireBetween(t *testing.T, got, lo, hi time.Duration) {
	t.Helper()
	require.True(t, lo <= got && got <= hi, "%v, wanted %v to %v", got, lo, hi)
}

// pipeNull makes a NULL call. What readReplyBytes does with deadlines holds for pipes too.
func pipeNull(t *testing.T, conn net.Conn) {
	t.Helper()
	stillServed(t, conn)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
}

func TestIdleTimeout(t *testing.T) {
	t.Run("NeverUsed", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			requireBetween(t, closedAfter(t, dial()), testIdle, testIdle*5/4)
		})
	})
	t.Run("Used", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			for range 10 {
				pipeNull(t, conn)
				time.Sleep(testIdle - time.Second)
			}
			pipeNull(t, conn)
			requireBetween(t, closedAfter(t, conn), testIdle, testIdle*5/4)
		})
	})
	t.Run("LongCall", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, s *testServer, dial func() net.Conn) {
			conn := dial()
			send(t, conn, record(message(1, procBlock)))
			time.Sleep(10 * testIdle)
			s.h.release <- struct{}{}
			require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
			require.NoError(t, conn.SetReadDeadline(time.Time{}))
			requireBetween(t, closedAfter(t, conn), testIdle, testIdle*5/2)
		})
	})
}

// TestStall: who stops inside a record, or reads no replies, is dropped; slow
// ones are not.
func TestStall(t *testing.T) {
	t.Run("InsideMark", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			send(t, conn, []byte{0x80})
			requireBetween(t, closedAfter(t, conn), testStall, testStall)
		})
	})
	t.Run("InsideRecord", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			pipeNull(t, conn)
			send(t, conn, record(unhex(t, nullCall))[:30])
			requireBetween(t, closedAfter(t, conn), testStall, testStall)
		})
	})
	t.Run("SlowSender", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			for _, b := range record(unhex(t, nullCall)) {
				time.Sleep(testStall / 50)
				send(t, conn, []byte{b})
			}
			require.Equal(t, record(unhex(t, nullReply)), readReplyBytes(t, conn))
			require.NoError(t, conn.SetReadDeadline(time.Time{}))
			requireBetween(t, closedAfter(t, conn), testIdle, testIdle*5/4)
		})
	})
	t.Run("TooSlowSender", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn, other := dial(), dial()
			begin, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				for _, b := range record(unhex(t, nullCall)) {
					if _, err := conn.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(testStall - time.Second)
				}
			}()
			closedAfter(t, conn)
			require.Equal(t, testStall, time.Since(begin))
			pipeNull(t, other)
			<-done
		})
	})
	t.Run("SlowSenderOfALongRecord", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			rec := record(message(1, procBig, append(make([]byte, 4), make([]byte, 10*minArrival)...)...))
			for len(rec) > 0 {
				n := min(len(rec), minArrival)
				time.Sleep(testStall - time.Second)
				send(t, conn, rec[:n])
				rec = rec[n:]
			}
			require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
		})
	})
	t.Run("SlowSenderOfManyRecords", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			rec := record(unhex(t, nullCall))
			send(t, conn, rec[:1])
			for range 20 { // each time the end of one and the begin of the next
				time.Sleep(testStall - time.Second)
				send(t, conn, append(rec[1:len(rec):len(rec)], rec[0]))
				require.Equal(t, record(unhex(t, nullReply)), readReplyBytes(t, conn))
				require.NoError(t, conn.SetReadDeadline(time.Time{}))
			}
		})
	})
	t.Run("NoReader", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, s *testServer, dial func() net.Conn) {
			conn, other := dial(), dial()
			send(t, conn, record(message(1, procBlock)))
			send(t, conn, record(message(2, procEcho, 0, 0, 0, 0)))
			begin := time.Now()
			require.ErrorIs(t, <-s.h.gone, context.Canceled)
			requireBetween(t, time.Since(begin), testStall, testStall*5/4)
			pipeNull(t, other)
		})
	})
	t.Run("SlowReader", func(t *testing.T) {
		onPipes(t, testTimes, func(t *testing.T, _ *testServer, dial func() net.Conn) {
			conn := dial()
			const size = 3 * maxWrite
			send(t, conn, record(message(1, procBig, 0, size>>16, 0, 0)))
			got := 0
			for got < markLen+acceptedLen+size {
				time.Sleep(testStall - time.Second)
				n, err := conn.Read(make([]byte, maxWrite))
				require.NoError(t, err)
				got += n
			}
			pipeNull(t, conn)
		})
	})
}

// TestLookout: a call that takes long holds up its neighbours only until the
// lookout has come by twice, and of those that come soon after it none.
func TestLookout(t *testing.T) {
	onPipes(t, testTimes, func(t *testing.T, s *testServer, dial func() net.Conn) {
		conn := dial()
		begin := time.Now()
		// The first has its reply, and waits for the second's to be written with it.
		send(t, conn, append(record(message(1, procNull)), record(message(2, procBlock))...))
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
		send(t, conn, record(message(3, procNull)))
		require.EqualValues(t, 3, xidOf(readReplyBytes(t, conn)))
		requireBetween(t, time.Since(begin), 0, 2*lookoutTime)
		s.h.release <- struct{}{}
		require.EqualValues(t, 2, xidOf(readReplyBytes(t, conn)))

		begin = time.Now()
		send(t, conn, record(message(4, procBlock)))
		send(t, conn, record(message(5, procNull)))
		require.EqualValues(t, 5, xidOf(readReplyBytes(t, conn)))
		require.Zero(t, time.Since(begin))
		s.h.release <- struct{}{}
		require.EqualValues(t, 4, xidOf(readReplyBytes(t, conn)))
	})
}

// TestSlowReaderOfManyReplies: replies that nobody takes stop the reading of
// calls, and do not pile up.
func TestSlowReaderOfManyReplies(t *testing.T) {
	onPipes(t, ServerConfig{MaxCallsPerConn: 4, StallTimeout: testStall}, func(t *testing.T, s *testServer, dial func() net.Conn) {
		conn := dial()
		taken := make(chan int)
		go func() {
			n := 0
			for {
				if _, err := conn.Write(record(message(uint32(n), procEcho, 0, 0, 0, 0))); err != nil {
					taken <- n
					return
				}
				n++
			}
		}()
		synctest.Wait()
		require.NoError(t, conn.SetWriteDeadline(time.Now()))
		require.LessOrEqual(t, <-taken, 4)
	})
}

// TestMaxHeld: the bytes of calls that run and of their replies are bounded for
// each connection, as are the calls.
func TestMaxHeld(t *testing.T) {
	onPipes(t, ServerConfig{MaxRecord: 10_000}, func(t *testing.T, s *testServer, dial func() net.Conn) {
		conn := dial()
		arg := make([]byte, 6000)
		send(t, conn, record(message(1, procBlock, arg...)))
		send(t, conn, record(message(2, procBlock, arg...)))
		synctest.Wait()
		require.Len(t, s.h.entered, 2)
		sent := make(chan struct{})
		go func() {
			_, _ = conn.Write(record(message(3, procBlock, arg...)))
			close(sent)
		}()
		synctest.Wait()
		require.Len(t, s.h.entered, 2)
		s.h.release <- struct{}{}
		readReplyBytes(t, conn)
		<-sent
		synctest.Wait()
		require.Len(t, s.h.entered, 3)
		s.h.release <- struct{}{}
		s.h.release <- struct{}{}
		readReplyBytes(t, conn)
		readReplyBytes(t, conn)
		pipeNull(t, conn)
	})
}
