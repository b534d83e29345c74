//go:build linux

package rpcload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/xdr"
)

// What load.x says. The program of the C server is loadProg; ours has the next
// number, so that both are registered at once.
const (
	loadProg  = 0x20000070
	loadVers  = 1
	procEcho  = 1
	blockSize = 1024
	maxBlock  = 65536
)

// roleEnv has this binary be a server, or a client, of the load: "server PROGRAM",
// "client HOST PROGRAM NETWORK WORK CONNECTIONS INFLIGHT".
const roleEnv = "STARFISH_TEST_LOAD"

// play does what roleEnv says.
func play(role []string) error {
	number := func(at int) (n int) {
		_, err := fmt.Sscan(role[at], &n)
		if err != nil {
			panic(err)
		}
		return n
	}
	if role[0] == "server" {
		return serve(uint32(number(1)))
	}
	return client(role[1], uint32(number(2)), role[3], role[4], number(5), number(6))
}

// echo is the procedures of load.x.
func echo(_ context.Context, c *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	if c.Proc != procEcho {
		return nil, rpc.ErrProcUnavail
	}
	block := args.Opaque(maxBlock)
	if err := args.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrGarbageArgs, err)
	}
	return xdr.AppendOpaque(reply, block, maxBlock)
}

// serve serves load.x over TCP and UDP, registered with the portmapper, until
// standard input ends.
func serve(prog uint32) error {
	s := rpc.NewServer(rpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
	s.Register(prog, loadVers, rpc.HandlerFunc(echo))
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return err
	}
	u, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	served := make(chan error, 2)
	go func() { served <- s.Serve(l) }()
	go func() { served <- s.ServePacket(u) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	local, err := portmap.Local(ctx)
	if err != nil {
		return err
	}
	for netid, port := range map[string]int{"tcp": l.Addr().(*net.TCPAddr).Port, "udp": u.LocalAddr().(*net.UDPAddr).Port} {
		err = errors.Join(err, local.Set(ctx, portmap.Registration{
			Prog: prog, Vers: loadVers, Netid: netid, Addr: fmt.Sprintf("0.0.0.0.%d.%d", port>>8, port&255),
		}))
	}
	if err := errors.Join(err, local.Close()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "ready")
	_, _ = io.ReadAll(os.Stdin) // its end is the news
	return errors.Join(s.Close(), <-served, <-served)
}

// client is client.c in Go, with several calls in flight where inFlight says so.
func client(host string, prog uint32, network, work string, conns, inFlight int) error {
	ctx := context.Background()
	clients := make([]*rpc.Client, conns)
	addr, err := portmap.Lookup(ctx, network, host, prog, loadVers)
	if err != nil {
		return err
	}
	for i := range clients {
		if clients[i], err = rpc.Dial(ctx, network, addr, rpc.ClientConfig{}); err == nil {
			err = clients[i].Call(ctx, prog, loadVers, 0, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	call := func(c *rpc.Client) error { return c.Call(ctx, prog, loadVers, 0, nil, nil) }
	if work == "echo" {
		call = func(c *rpc.Client) error { return echoOnce(ctx, c, prog) }
	}
	fmt.Fprintln(os.Stderr, "ready")
	out := bufio.NewWriter(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		begin, took, err := run(clients, n, inFlight, call)
		if err != nil {
			return err
		}
		head := []uint64{uint64(begin), uint64(monotonic()), uint64(n)}
		if err := errors.Join(binary.Write(out, binary.NativeEndian, head), binary.Write(out, binary.NativeEndian, took), out.Flush()); err != nil {
			return err
		}
	}
	for _, c := range clients {
		_ = c.Close()
	}
	return nil
}

// run makes n calls round the clients, and returns when it began and how long
// each took.
func run(clients []*rpc.Client, n, inFlight int, call func(*rpc.Client) error) (begin int64, took []uint32, err error) {
	took = make([]uint32, n)
	var next atomic.Int64
	var once sync.Once
	var wg sync.WaitGroup
	begin = monotonic()
	for range inFlight {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				t := time.Now()
				if e := call(clients[i%len(clients)]); e != nil {
					once.Do(func() { err = e })
					return
				}
				took[i] = uint32(time.Since(t))
			}
		})
	}
	wg.Wait()
	return begin, took, err
}

// blocks are what echoOnce sends: one byte of each call is its own.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

func echoOnce(ctx context.Context, c *rpc.Client, prog uint32) error {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	block[0]++
	same := false
	err := c.Call(ctx, prog, loadVers, procEcho,
		xdr.AppendFunc(func(b []byte) ([]byte, error) { return xdr.AppendOpaque(b, block[:], maxBlock) }),
		xdr.DecodeFunc(func(d *xdr.Decoder) error { same = bytes.Equal(d.Opaque(maxBlock), block[:]); return d.Err() }))
	if err == nil && !same {
		err = errors.New("another answer")
	}
	return err
}

// monotonic is the clock of client.c.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // never fails
	return t.Nano()
}

// roleOf is what roleEnv says, nothing where it says nothing.
func roleOf() []string { return strings.Fields(os.Getenv(roleEnv)) }
