package portmap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/tests/netns"
)

// words are XDR unsigned ints, one after the other.
func words(vs ...uint32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// call is a call of the portmapper without a credential.
func call(vers, proc uint32, args ...uint32) []byte {
	return words(append([]uint32{0x11223344, 0, 2, 100000, vers, proc, 0, 0, 0, 0}, args...)...)
}

// cve is CVE-2017-8779: a netid that claims to be 1 GiB long.
var cve = call(4, 3, 0x20000099, 1, 0x3fffffff)

// refusable are bad requests that get an answer.
func refusable() [][]byte {
	all := [][]byte{
		cve,
		call(2, 3), call(2, 1, 1, 2), call(3, 1, 7), call(4, 2, 7, 1, 0xffffffff), call(4, 10, 1, 1, 1, 0xfffffff0),
		call(4, 8, 16, 0x7fffffff), call(4, 7, 0xffffffff), call(3, 5, 1, 1, 1, 0x20000000), call(4, 11, 1, 1, 0x40000000),
		call(9, 1), call(1, 3), call(4, 99), call(2, 0xffffffff),
		words(1, 0, 2, 100001, 4, 0, 0, 0, 0, 0),       // another program
		words(1, 0, 2, 100000, 4, 0, 99, 0, 0, 0),      // an unknown credential
		words(1, 0, 2, 100000, 4, 0, 1, 8, 1, 2, 0, 0), // AUTH_SYS that is none
		append(call(4, 1, 0x20000001, 1, 3, 0x74637000, 4), "none\x00\x00\x00\x04selv"...),
	}
	for vers := uint32(2); vers <= 4; vers++ {
		for proc := uint32(1); proc <= 12; proc++ {
			if proc != 4 && proc != 6 && proc != 12 { // no arguments: they are good
				all = append(all, call(vers, proc, 0xffffffff))
			}
		}
	}
	return all
}

// silent tells whether a bad request has no answer over UDP: a CALLIT that fails
// has none, since it may be a broadcast.
func silent(request []byte) bool {
	return binary.BigEndian.Uint32(request[20:]) == portmap.RPCBPROC_CALLIT
}

// closing are requests, with their record marks, that end a connection.
func closing() [][]byte {
	random := make([]byte, 64)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	return [][]byte{
		words(0xffffffff), words(0x80010001), words(0x80000004, 1), words(0x8000000c, 1, 1, 0),
		append(words(0x80000028), words(1, 0, 3, 100000, 4, 0, 0, 0, 0, 0)...),
		append(words(0x80000028), words(1, 0, 2, 100000, 4, 0, 0, 0xffffffff, 0, 0)...),
		random,
	}
}

// attacker sends bad requests and counts those that were answered, or ended
// their connection.
type attacker struct {
	t    *testing.T
	done atomic.Int64
}

// stream sends n bad requests over one connection, many in each write, and
// reads every answer.
func (a *attacker) stream(network, addr string, n int) {
	conn, err := net.Dial(network, addr)
	if !a.ok(err) {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * timeout))
	bad := refusable()
	go func() {
		var b []byte
		for sent := 0; sent < n; b = b[:0] {
			for ; sent < n && len(b) < 16<<10; sent++ {
				r := bad[sent%len(bad)]
				b = append(binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(r))), r...)
			}
			if _, err := conn.Write(b); err != nil {
				return // the reader tells
			}
		}
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	mark := make([]byte, 4)
	for range n {
		if _, err = io.ReadFull(r, mark); err == nil {
			_, err = r.Discard(int(binary.BigEndian.Uint32(mark) &^ (1 << 31)))
		}
		if !a.ok(err) {
			return
		}
		a.done.Add(1)
	}
}

// datagrams sends n bad requests, a few before their answers are read: what is
// lost is sent again.
func (a *attacker) datagrams(addr string, n int) {
	conn, err := net.Dial("udp", addr)
	if !a.ok(err) {
		return
	}
	defer conn.Close()
	bad, junk, buf := refusable(), closing(), make([]byte, 1<<16)
	for _, r := range bad {
		if silent(r) {
			junk = append(junk, r)
		}
	}
	bad = slices.DeleteFunc(bad, silent)
	const window = 16
	for i := 0; i < n; {
		for j := range window {
			_, _ = conn.Write(bad[(i+j)%len(bad)])
		}
		_, _ = conn.Write(junk[i%len(junk)]) // nothing answers it
		_, _ = conn.Write(nil)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		for range window {
			if _, err := conn.Read(buf); err != nil {
				break
			}
			a.done.Add(1)
			i++
		}
	}
}

// connections makes n connections, each with one request that ends it.
func (a *attacker) connections(n int) {
	junk := closing()
	buf := make([]byte, 512)
	for i := range n {
		conn, err := net.Dial("tcp", "127.0.0."+strconv.Itoa(2+i%200)+":111")
		if !a.ok(err) {
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // so many ports there are not
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, _ = conn.Write(junk[i%len(junk)])
		if i%50 == 0 { // most do not wait
			_, _ = conn.Read(buf)
		}
		conn.Close()
		a.done.Add(1)
	}
}

func (a *attacker) ok(err error) bool {
	if err != nil {
		a.t.Error(err)
	}
	return err == nil
}

// run makes n bad requests, by all ways at once.
func (a *attacker) run(n int) {
	var wg sync.WaitGroup
	wg.Go(func() { a.stream("tcp", "127.0.0.1:111", n*40/100) })
	wg.Go(func() { a.stream("tcp", "[::1]:111", n*20/100) })
	wg.Go(func() { a.stream("unix", portmap.DefaultSocket, n*24/100) })
	wg.Go(func() { a.datagrams("127.0.0.1:111", n*15/100) })
	wg.Go(func() { a.connections(n * 1 / 100) })
	wg.Wait()
}

// others is a caller beside the attack; it counts what it was answered.
type others struct {
	served  int
	slowest time.Duration
	err     error
}

// call asks over TCP, UDP and the unix socket in turn until ctx ends.
func (o *others) call(ctx context.Context) {
	targets := []struct{ network, addr string }{{"tcp", "127.0.0.1:111"}, {"udp", "127.0.0.1:111"}, {"unix", portmap.DefaultSocket}}
	for i := 0; ctx.Err() == nil; i++ {
		t := targets[i%len(targets)]
		start := time.Now()
		if err := o.once(t.network, t.addr); err != nil {
			o.err = errors.Join(o.err, fmt.Errorf("%s: %w", t.network, err))
			return
		}
		o.slowest = max(o.slowest, time.Since(start))
		o.served++
	}
}

func (o *others) once(network, addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := portmap.Connect(ctx, network, addr, rpc.ClientConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := c.GetAddr(ctx, portmap.PMAP_PROG, 4, network)
	if err == nil && got == "" {
		err = errors.New("no address")
	}
	return err
}

// resident is a process's memory in KiB.
func resident(t testing.TB, pid int) int {
	t.Helper()
	kb, err := strconv.Atoi(status(t, pid, "VmRSS")[0])
	require.NoError(t, err)
	return kb
}

// CVE-2017-8779, and every other way to have rpcbind allocate: the memory stays
// where it was.
func TestCVE20178779(t *testing.T) {
	if !enter(t) {
		return
	}
	p := startOurs(t)
	conn, err := net.Dial("udp", "127.0.0.1:111")
	require.NoError(t, err)
	defer conn.Close()
	buf := make([]byte, 512)
	ask := func(times int) {
		for range times {
			require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
			_, err := conn.Write(cve)
			require.NoError(t, err)
			n, err := conn.Read(buf)
			require.NoError(t, err)
			require.Equal(t, words(0x11223344, 1, 0, 0, 0, 4), buf[:n], "GARBAGE_ARGS")
		}
	}
	ask(100)
	before := resident(t, p.Cmd.Process.Pid)
	ask(1000)
	after := resident(t, p.Cmd.Process.Pid)
	t.Logf("resident: %d KiB before, %d KiB after 1,000", before, after)
	require.Less(t, after-before, 4<<10)
	// What rpcbind would have allocated it does not even claim.
	peak, err := strconv.Atoi(status(t, p.Cmd.Process.Pid, "VmHWM")[0])
	require.NoError(t, err)
	require.Less(t, peak, 64<<10)
}

// After a million bad requests the memory is what it was after ten thousand, and
// others were served throughout.
func TestMillionBadRequests(t *testing.T) {
	if !enter(t) {
		return
	}
	p := startOurs(t, "-w")
	a := &attacker{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	var beside others
	done := make(chan struct{})
	go func() { beside.call(ctx); close(done) }()

	const first, all = 10_000, 1_000_000
	a.run(first)
	before := resident(t, p.Cmd.Process.Pid)
	start := time.Now()
	a.run(all - first)
	took := time.Since(start)
	after := resident(t, p.Cmd.Process.Pid)
	cancel()
	<-done
	t.Logf("resident: %d KiB after %d bad requests, %d KiB after %d, in %v; others: %d calls served, the slowest in %v",
		before, first, after, a.done.Load(), took.Round(time.Millisecond), beside.served, beside.slowest.Round(time.Millisecond))
	require.GreaterOrEqual(t, a.done.Load(), int64(all))
	require.LessOrEqual(t, after-before, 16<<10, "KiB")
	require.NoError(t, beside.err)
	require.Greater(t, beside.served, 100)
	require.Len(t, programs(t), 0)
}

// Another host that calls without end gets its share and no more; the log does
// not grow with it, and this host is served.
func TestFloodFromAnotherHost(t *testing.T) {
	if !enter(t) {
		return
	}
	far := netns.NewHost(t, "far")
	netns.Link(t, nil, "10.7.0.1/24", far, "10.7.0.2/24")
	p := startOurs(t, "-h", "10.7.0.1")
	var conn net.Conn
	require.NoError(t, far.Do(func() (err error) {
		conn, err = net.Dial("udp", "10.7.0.1:111")
		return err
	}))
	defer conn.Close()
	const n = 20_000
	sent, got := 0, make(chan int)
	go func() {
		n, buf := 0, make([]byte, 1<<16)
		for {
			k, err := conn.Read(buf)
			if err != nil {
				got <- n
				return
			}
			n += k
		}
	}()
	bad := append(refusable(), call(2, 4), call(3, 4), call(4, 4), call(4, 12))
	var beside others
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { beside.call(ctx); close(done) }()
	for i := range n {
		b := bad[i%len(bad)]
		if _, err := conn.Write(b); err == nil {
			sent += len(b)
		}
	}
	cancel()
	<-done
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	received := <-got
	t.Logf("sent %d bytes, got %d; others: %d calls served, the slowest in %v; the log: %d bytes",
		sent, received, beside.served, beside.slowest.Round(time.Millisecond), len(p.Output()))
	require.NoError(t, beside.err)
	require.Less(t, received, sent)
	require.Less(t, len(p.Output()), 64<<10)
}

// Callers that ask for the whole list, many times and over many connections,
// and take no answer, get no more than their share of the memory; others are
// served.
func TestListsThatNobodyTakes(t *testing.T) {
	if !enter(t) {
		return
	}
	p := startOurs(t)
	const registrations = 10_000
	fill(t, nil, registrations)
	dumps := bytes.Repeat(append(words(0x80000028), call(4, 4)...), 20)
	before := resident(t, p.Cmd.Process.Pid)
	for range 300 {
		conn, err := net.Dial("tcp", "127.0.0.1:111")
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write(dumps)
		require.NoError(t, err)
	}
	var beside others
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	beside.call(ctx)
	peak, err := strconv.Atoi(status(t, p.Cmd.Process.Pid, "VmHWM")[0])
	require.NoError(t, err)
	t.Logf("resident: %d KiB before, %d KiB at most; others: %d calls served, the slowest in %v",
		before, peak, beside.served, beside.slowest.Round(time.Millisecond))
	require.NoError(t, beside.err)
	require.Greater(t, beside.served, 100)
	require.Less(t, peak-before, 256<<10, "KiB")
}
