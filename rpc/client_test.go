package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// scripted is a client and the other end of its connection.
func scripted(t *testing.T, cfg ClientConfig) (*Client, net.Conn) {
	near, far := net.Pipe()
	c := NewClient(near, cfg)
	t.Cleanup(func() { _ = c.Close(); _ = far.Close() })
	return c, far
}

// nextCall reads a call at the far end and returns its xid.
func nextCall(t *testing.T, far net.Conn) uint32 {
	t.Helper()
	rec, err := newRecordReader(far, DefaultMaxRecord).next(nil)
	require.NoError(t, err)
	return binary.BigEndian.Uint32(rec)
}

// success is a reply with a result.
func success(xid uint32, result ...byte) []byte {
	b := make([]byte, acceptedLen)
	putAccepted(b, xid, OpaqueAuth{})
	return append(b, result...)
}

// started makes a call in the background.
func started(ctx context.Context, c *Client) <-chan error {
	done := make(chan error, 1)
	go func() {
		out, err := call(ctx, c, procEcho)
		if err == nil && !bytes.Equal(out, []byte{0, 0, 0, 42}) {
			err = errors.New("another result")
		}
		done <- err
	}()
	return done
}

// TestClientReplies: what comes before and instead of a reply.
func TestClientReplies(t *testing.T) {
	result := []byte{0, 0, 0, 42}
	for _, c := range []struct {
		name  string
		reply func(xid uint32) []byte
		err   error
	}{
		{"OneFragment", func(x uint32) []byte { return record(success(x, result...)) }, nil},
		{"ManyFragments", func(x uint32) (b []byte) {
			for _, c := range success(x, result...) {
				b = append(append(b, fragment([]byte{c}, false)...), fragment(nil, false)...)
			}
			return append(b, fragment(nil, true)...)
		}, nil},
		{"StrayReplyFirst", func(x uint32) []byte {
			return append(record(success(x+1000, 0, 0, 0, 1)), record(success(x, result...))...)
		}, nil},
		{"CallFirst", func(x uint32) []byte {
			return append(record(message(x, 0)), record(success(x, result...))...)
		}, nil},
		{"TinyRecordFirst", func(x uint32) []byte {
			return append(unhex(t, "80000003 616263 80000000"), record(success(x, result...))...)
		}, nil},
		{"Twice", func(x uint32) []byte {
			return append(record(success(x, result...)), record(success(x, 0, 0, 0, 1))...)
		}, nil},
		{"Refused", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{}, &ReplyError{AcceptStat: PROG_MISMATCH, Low: 3, High: 4}))
		}, ErrProgMismatch},
		{"Denied", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{}, AuthError(AUTH_TOOWEAK).(*ReplyError)))
		}, AuthError(AUTH_TOOWEAK)},
		{"HeaderCut", func(x uint32) []byte { return record(success(x)[:20]) }, ErrBadReply},
		{"TooLong", func(uint32) []byte { return unhex(t, "84000001") }, ErrTooLong},
		{"Malformed", func(uint32) []byte { return make([]byte, 4*maxEmptyFragments+4) }, ErrRecord},
		{"Nothing", nil, ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, far := scripted(t, ClientConfig{})
			done := started(t.Context(), client)
			xid := nextCall(t, far)
			if c.reply == nil {
				_ = far.Close()
			} else {
				_, _ = far.Write(c.reply(xid)) // the client may close before all is written
			}
			err := <-done
			require.ErrorIs(t, err, c.err)
			require.NotErrorIs(t, err, ErrNotSent)
			if closed := errors.Is(err, ErrClosed); closed {
				<-client.Done()
				require.Error(t, client.Err())
				err := <-started(t.Context(), client)
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorIs(t, err, ErrNotSent)
				return
			}
			done = started(t.Context(), client)
			send(t, far, record(success(nextCall(t, far), result...)))
			require.NoError(t, <-done, "the next call")
		})
	}
}

// TestClientBadResult: a result that cannot be decoded is that call's error.
func TestClientBadResult(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	c := dial(t, "tcp", s.listen(t, "tcp"), ClientConfig{})
	err := c.Call(t.Context(), testProg, 1, procNull, nil, xdr.DecodeFunc(func(d *xdr.Decoder) error {
		d.Uint32()
		return d.Err()
	}))
	require.ErrorIs(t, err, ErrBadReply)
	require.ErrorIs(t, err, xdr.ErrShort)
	require.NoError(t, c.Call(t.Context(), testProg, 1, procNull, nil, nil))
}

// TestClientConcurrent: nobody gets another's reply.
func TestClientConcurrent(t *testing.T) {
	for _, network := range []string{"tcp", "udp", "unix"} {
		t.Run(network, func(t *testing.T) {
			s := newTestServer(t, ServerConfig{MaxCallsPerConn: 16})
			c := dial(t, network, s.listen(t, network), ClientConfig{Retransmit: 100 * time.Millisecond})
			var wg sync.WaitGroup
			for i := range 32 {
				wg.Go(func() {
					for j := range 50 {
						list := appendList(nil, []node{{string(bytes.Repeat([]byte{'a'}, (i*j)%3000)), uint64(i)<<32 | uint64(j)}})
						got, err := call(t.Context(), c, procEcho, list...)
						if err != nil || !bytes.Equal(list, got) {
							t.Errorf("call %d of %d: %v", j, i, err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestClientLateReply: a reply to a call that was given up is dropped.
func TestClientLateReply(t *testing.T) {
	c, far := scripted(t, ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	done := started(ctx, c)
	late := nextCall(t, far)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrNotSent)
	done = started(t.Context(), c)
	xid := nextCall(t, far)
	send(t, far, record(success(late, 0, 0, 0, 1)))
	send(t, far, record(success(xid, 0, 0, 0, 42)))
	require.NoError(t, <-done)
}

// TestClientNotSent: calls that wait behind one that cannot be written.
func TestClientNotSent(t *testing.T) {
	t.Run("GivenUp", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, far := scripted(t, ClientConfig{})
			first := started(t.Context(), c)
			synctest.Wait() // it is being written, and nobody reads
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := <-started(ctx, c)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, ErrNotSent)
			send(t, far, record(success(nextCall(t, far), 0, 0, 0, 42)))
			require.NoError(t, <-first)
			third := started(t.Context(), c)
			send(t, far, record(success(nextCall(t, far), 0, 0, 0, 42)))
			require.NoError(t, <-third, "and the second was not written")
		})
	})
	t.Run("Closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, far := scripted(t, ClientConfig{})
			first := started(t.Context(), c)
			synctest.Wait()
			second := started(t.Context(), c)
			synctest.Wait()
			_, err := io.ReadFull(far, make([]byte, 10)) // a part of the first
			require.NoError(t, err)
			require.NoError(t, far.Close())
			for _, done := range []<-chan error{first, second} {
				err := <-done
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorIs(t, err, ErrNotSent, "no whole record was written")
			}
		})
	})
	t.Run("ReplyBeforeTheCall", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, far := scripted(t, ClientConfig{})
			first := started(t.Context(), c)
			synctest.Wait()
			second := started(t.Context(), c)
			synctest.Wait()
			head := make([]byte, 8) // the first is half written, the second waits
			_, err := io.ReadFull(far, head)
			require.NoError(t, err)
			xid := binary.BigEndian.Uint32(head[markLen:])
			send(t, far, record(success(xid+1, 0, 0, 0, 1)))
			_, err = io.ReadFull(far, make([]byte, minCallLen-4))
			require.NoError(t, err)
			send(t, far, record(success(xid, 0, 0, 0, 42)))
			require.NoError(t, <-first)
			require.Equal(t, xid+1, nextCall(t, far))
			send(t, far, record(success(xid+1, 0, 0, 0, 42)))
			require.NoError(t, <-second)
		})
	})
	t.Run("ContextOver", func(t *testing.T) {
		c, _ := scripted(t, ClientConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := call(ctx, c, 0)
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("TooLong", func(t *testing.T) {
		c, _ := scripted(t, ClientConfig{MaxRecord: 100})
		_, err := call(t.Context(), c, 0, make([]byte, 64)...)
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, ErrTooLong)
	})
	t.Run("BadArguments", func(t *testing.T) {
		c, _ := scripted(t, ClientConfig{})
		bad := errors.New("bad")
		err := c.Call(t.Context(), 1, 1, 1, xdr.AppendFunc(func(b []byte) ([]byte, error) { return b, bad }), nil)
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, bad)
	})
	t.Run("NobodyListens", func(t *testing.T) {
		_, err := Dial(t.Context(), "unix", t.TempDir()+"/none", ClientConfig{})
		require.ErrorIs(t, err, ErrNotSent)
		_, err = Dial(t.Context(), "sctp", "127.0.0.1:1", ClientConfig{})
		require.ErrorContains(t, err, "sctp")
	})
}

// TestClientStuckServer: calls that are given up while the server reads nothing
// leave nothing behind.
func TestClientStuckServer(t *testing.T) {
	c, _ := scripted(t, ClientConfig{})
	started(t.Context(), c) // half written, for ever
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, <-started(ctx, c), context.DeadlineExceeded)
		cancel()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	require.LessOrEqual(t, len(c.wire.(*streamTransport).queue), 1)
	require.LessOrEqual(t, len(c.pending), 1)
}

// TestClientTimeout: a call without a deadline has the configured one.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := scripted(t, ClientConfig{})
		begin := time.Now()
		done := started(t.Context(), c)
		nextCall(t, far)
		require.ErrorIs(t, <-done, context.DeadlineExceeded)
		require.Equal(t, DefaultCallTimeout, time.Since(begin))
		require.NoError(t, c.Err(), "the connection lives")
	})
}

// TestClientClose ends the calls that wait.
func TestClientClose(t *testing.T) {
	c, far := scripted(t, ClientConfig{})
	done := started(t.Context(), c)
	nextCall(t, far)
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-done, ErrClosed)
	<-c.Done()
	require.NoError(t, c.Close())
}

// TestRetransmit: a call over UDP is sent again with the same bytes; the reply to
// the first or the second is its reply, and the other one is dropped.
func TestRetransmit(t *testing.T) {
	uc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer uc.Close()
	c := dial(t, "udp", uc.LocalAddr().String(), ClientConfig{Retransmit: time.Millisecond, MaxRetransmit: 4 * time.Millisecond})
	done := started(t.Context(), c)
	var sent [][]byte
	var from net.Addr
	for range 4 {
		b := make([]byte, 1000)
		n, addr, err := uc.ReadFrom(b)
		require.NoError(t, err)
		sent, from = append(sent, b[:n]), addr
	}
	for _, b := range sent[1:] {
		require.Equal(t, sent[0], b)
	}
	xid := binary.BigEndian.Uint32(sent[0])
	for _, reply := range [][]byte{{}, {1}, success(xid + 1), success(xid, 0, 0, 0, 42), success(xid, 0, 0, 0, 1)} {
		_, err = uc.WriteTo(reply, from)
		require.NoError(t, err)
	}
	require.NoError(t, <-done)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, <-started(ctx, c), context.DeadlineExceeded)
}

// TestPacketRefused: where nobody listens a call over UDP ends at once, and the
// client can be used again.
func TestPacketRefused(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	uc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	addr := uc.LocalAddr().(*net.UDPAddr)
	require.NoError(t, uc.Close())
	c := dial(t, "udp", addr.String(), ClientConfig{})
	_, err = call(t.Context(), c, procNull)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NotErrorIs(t, err, ErrClosed)
	uc, err = net.ListenUDP("udp", addr)
	require.NoError(t, err)
	s.run(t, func() error { return s.ServePacket(uc) })
	_, err = call(t.Context(), c, procNull)
	require.NoError(t, err)
}
