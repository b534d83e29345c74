package rpc

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

const testBytes = 1 << 20

var testBounds = ServerConfig{MaxRecord: testBytes, MaxBytes: testBytes, IdleTimeout: testIdle, StallTimeout: testStall}

// TestMaxBytesOfRecords: the parts of records that never end are bounded over all
// connections; short calls go on, and so do long ones of others after a while.
func TestMaxBytesOfRecords(t *testing.T) {
	for fragments, grows := range map[int]int{testBytes: 5, 1 << 10: 11} { // times that the record's buffer grows
		onPipes(t, testBounds, func(t *testing.T, s *testServer, dial func() net.Conn) {
			var m tally
			s.cfg.Metrics = &m
			long := message(1, procBig, append(make([]byte, 4), make([]byte, testBytes-minCallLen-4)...)...)
			var rec []byte
			for b := long; len(b) > 0; {
				n := min(len(b), fragments)
				rec = append(rec, fragment(b[:n], n == len(b))...)
				b = b[n:]
			}
			other := dial()
			for range 10 {
				conn := dial()
				go func() { _, _ = conn.Write(rec[:len(rec)*3/4]) }() // it may be closed
				synctest.Wait()
				require.LessOrEqual(t, s.records.used.Load(), int64(2*testBytes))
				pipeNull(t, other)
			}
			honest := dial()
			begin := time.Now()
			send(t, honest, rec)
			require.EqualValues(t, 1, xidOf(readReplyBytes(t, honest)))
			// How many rounds depends on who is the next each time.
			require.LessOrEqual(t, time.Since(begin), 11*time.Duration(grows)*shedTime, "a round brings somebody one step on")
			require.True(t, m.dropped("pipe evicted"))
			pipeNull(t, other)
			time.Sleep(10 * testStall)
			require.Zero(t, s.records.used.Load())
		})
	}
}

// TestMaxBytesOfReplies: the replies that nobody takes are bounded over all
// connections, and cost the others a moment.
func TestMaxBytesOfReplies(t *testing.T) {
	onPipes(t, testBounds, func(t *testing.T, s *testServer, dial func() net.Conn) {
		const size = testBytes / 2
		ask := record(message(1, procBig, xdr.AppendUint32(nil, size)...))
		other := dial()
		for range 10 {
			send(t, dial(), ask)
			synctest.Wait()
			require.LessOrEqual(t, s.replies.used.Load(), int64(testBytes+size))
			pipeNull(t, other)
		}
		honest := dial()
		begin := time.Now()
		send(t, honest, ask)
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, honest)))
		require.Less(t, time.Since(begin), 20*shedTime)
		pipeNull(t, other)
		time.Sleep(2 * testStall)
		require.Zero(t, s.replies.used.Load())
	})
}

// TestMaxBytesTurnIsKept: who waits for room is not taken for a slow sender.
func TestMaxBytesTurnIsKept(t *testing.T) {
	onPipes(t, testBounds, func(t *testing.T, s *testServer, dial func() net.Conn) {
		busy, waits := dial(), dial()
		long := record(message(1, procBlock, make([]byte, testBytes-minCallLen)...))
		send(t, busy, long)
		<-s.h.entered
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = waits.Write(long) }()
		synctest.Wait()
		require.Less(t, s.reading(), int64(testBytes)/2)
		s.h.release <- struct{}{}
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, busy)))
		<-sent
		<-s.h.entered
		s.h.release <- struct{}{}
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, waits)))
	})
}

// reading returns how many bytes records hold that are not complete.
func (s *testServer) reading() (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		sum += c.reading.Load()
	}
	return sum
}

// TestLedger: what is taken at once exceeds the bound by one of them.
func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ledger{max: 100}
		var pass atomic.Bool
		over := make(chan struct{})
		got := make(chan bool)
		var sheds atomic.Int32
		require.True(t, l.take(90))
		require.True(t, l.take(50))
		require.False(t, l.take(1))
		for range 5 {
			go func() { got <- l.await(60, &pass, over, func() { sheds.Add(1) }) }()
		}
		synctest.Wait()
		require.Empty(t, got)
		time.Sleep(shedTime + 1)
		require.Positive(t, sheds.Load())
		l.add(-90)
		require.True(t, <-got)
		synctest.Wait()
		require.EqualValues(t, 110, l.used.Load())
		pass.Store(true)
		l.wake()
		require.True(t, <-got)
		require.EqualValues(t, 170, l.used.Load())
		close(over)
		for range 3 {
			require.False(t, <-got)
		}
		require.Zero(t, l.waiters.Load())
	})
}

// TestManyShortFragments: a long record of tiny fragments is not copied for each
// of them.
func TestManyShortFragments(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	const n = 1 << 20
	call := message(1, procMulti, 0, 0, 0, 0)
	call = xdr.AppendUint32(call, n)
	call = append(call, make([]byte, n+8)...)
	var rec []byte
	for i, b := range call {
		mark := uint32(1)
		if i == len(call)-1 {
			mark |= lastFragment
		}
		rec = append(binary.BigEndian.AppendUint32(rec, mark), b)
	}
	got := allocated(func() {
		send(t, conn, rec)
		require.Equal(t, record(success(1, 0, 0x10, 0, 0)), readReplyBytes(t, conn))
	})
	require.Less(t, got, uint64(16*n))
}
