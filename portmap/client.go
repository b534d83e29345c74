package portmap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"starfish/rpc"
)

// PortmapEnv is the environment variable that names another portmapper than
// the one on port 111: "port" or "host:port".
const PortmapEnv = "STARFISH_PORTMAP"

// localTimeout bounds one attempt to reach the host's own portmapper.
const localTimeout = time.Second

// Client speaks to one portmapper: version 4, else 3, else 2, whichever the
// portmapper has.
type Client struct {
	rpc  *rpc.Client
	addr string
	ip   netip.Addr    // of the portmapper; invalid over the unix socket
	vers atomic.Uint32 // the highest version that may still work
}

// Connect connects to the portmapper at addr: host:port for "tcp" and "udp", a
// path for "unix".
//
// A zero MaxReply is MaxRecord, which all answers but lists keep.
func Connect(ctx context.Context, network, addr string, cfg rpc.ClientConfig) (*Client, error) {
	if cfg.MaxReply <= 0 {
		cfg.MaxReply = MaxRecord
	}
	conn, err := rpc.Dial(ctx, network, addr, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoPortmapper, addr, err)
	}
	c := &Client{rpc: conn, addr: addr}
	if ap, err := netip.ParseAddrPort(addr); err == nil && network != "unix" {
		c.ip = ap.Addr().Unmap()
	}
	c.vers.Store(RPCBVERS4)
	return c, nil
}

// Local connects to the host's own portmapper: /run/rpcbind.sock, else
// 127.0.0.1:111, else the one that STARFISH_PORTMAP names, else 127.0.0.1:10111.
func Local(ctx context.Context) (*Client, error) {
	targets := []target{{"unix", DefaultSocket}, {"tcp", "127.0.0.1:111"}}
	if env := os.Getenv(PortmapEnv); env != "" {
		targets = append(targets, target{"tcp", envAddr(env, "127.0.0.1")})
	}
	targets = append(targets, target{"tcp", "127.0.0.1:" + strconv.Itoa(FallbackPort)})
	return firstOf(ctx, targets)
}

type target struct{ network, addr string }

// firstOf connects to the first target where a portmapper answers.
func firstOf(ctx context.Context, targets []target) (*Client, error) {
	var errs []error
	for _, t := range targets {
		c, err := t.connect(ctx)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (t target) connect(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	c, err := Connect(ctx, t.network, t.addr, rpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	if err := c.Null(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// envAddr reads the value of STARFISH_PORTMAP.
func envAddr(env, host string) string {
	if _, err := strconv.ParseUint(env, 10, 16); err == nil {
		return joinHostPort(host, env)
	}
	return env
}

// Addr is where the portmapper is.
func (c *Client) Addr() string { return c.addr }

// Close ends the connection.
func (c *Client) Close() error { return c.rpc.Close() }

// Null makes a NULL call: it succeeds where a portmapper answers.
func (c *Client) Null(ctx context.Context) error {
	return c.each(func(vers uint32) error { return c.rpc.Call(ctx, RPCBPROG, vers, 0, nil, nil) })
}

// Set registers r. A registration at the same address is success, one at
// another address is ErrRefused.
func (c *Client) Set(ctx context.Context, r Registration) error {
	ok := false
	err := c.each(func(vers uint32) (err error) {
		switch vers {
		case PMAP_VERS:
			addr, parseErr := ParseUaddr(r.Addr)
			if parseErr != nil || protoOf(r.Netid) == 0 {
				return nil // version 2 cannot say it
			}
			ok, err = NewPmapProgPmapVersClient(c.rpc).PmapprocSet(ctx,
				Mapping{Prog: r.Prog, Vers: r.Vers, Prot: protoOf(r.Netid), Port: uint32(addr.Port())})
		default:
			ok, err = c.rpcbind(vers).RpcbprocSet(ctx, rpcbOf(r))
		}
		return err
	})
	if err == nil && !ok {
		return fmt.Errorf("%w: program %#x version %d is registered over %s at another address than %s",
			ErrRefused, r.Prog, r.Vers, r.Netid, r.Addr)
	}
	return err
}

// Unset removes the registration of a program over netid, or over all with "".
// Nothing to remove is success, a registration of another user is ErrRefused.
func (c *Client) Unset(ctx context.Context, prog, vers uint32, netid string) error {
	ok := false
	arg := rpcbOf(Registration{Prog: prog, Vers: vers, Netid: netid})
	err := c.each(func(v uint32) (err error) {
		switch v {
		case PMAP_VERS:
			ok, err = NewPmapProgPmapVersClient(c.rpc).PmapprocUnset(ctx, Mapping{Prog: prog, Vers: vers})
		default:
			ok, err = c.rpcbind(v).RpcbprocUnset(ctx, arg)
		}
		return err
	})
	if err == nil && !ok {
		return fmt.Errorf("%w: program %#x version %d was registered by another user", ErrRefused, prog, vers)
	}
	return err
}

// GetAddr asks for the address of a program. rpcbind answers for the transport
// over which it is asked, whatever netid says. The address is a universal
// one; ErrNotRegistered where there is none.
func (c *Client) GetAddr(ctx context.Context, prog, vers uint32, netid string) (string, error) {
	uaddr := ""
	arg := rpcbOf(Registration{Prog: prog, Vers: vers, Netid: netid})
	if c.ip.IsValid() {
		arg.RAddr = c.hint() // as libtirpc: where the caller sees the portmapper
	}
	err := c.each(func(v uint32) (err error) {
		switch v {
		case PMAP_VERS:
			uaddr, err = c.getPort(ctx, prog, vers, netid)
		default:
			uaddr, err = c.rpcbind(v).RpcbprocGetaddr(ctx, arg)
		}
		return err
	})
	if err == nil && uaddr == "" {
		return "", &NotRegisteredError{Prog: prog, Vers: vers, Addr: c.addr}
	}
	return uaddr, err
}

func (c *Client) hint() string {
	ap, err := netip.ParseAddrPort(c.addr)
	if err != nil {
		return ""
	}
	return Uaddr(ap)
}

func (c *Client) getPort(ctx context.Context, prog, vers uint32, netid string) (string, error) {
	port, err := NewPmapProgPmapVersClient(c.rpc).PmapprocGetport(ctx, Mapping{Prog: prog, Vers: vers, Prot: protoOf(netid)})
	if err != nil || port == 0 {
		return "", err
	}
	if port > 65535 {
		return "", fmt.Errorf("portmap: %s answers port %d", c.addr, port)
	}
	ip := c.ip
	if !ip.IsValid() {
		ip = netip.IPv4Unspecified()
	}
	return Uaddr(netip.AddrPortFrom(ip, uint16(port))), nil
}

// Dump lists all registrations.
func (c *Client) Dump(ctx context.Context) ([]Registration, error) {
	var regs []Registration
	ctx = rpc.WithMaxReply(ctx, MaxReply)
	err := c.each(func(vers uint32) error {
		if vers == PMAP_VERS {
			list, err := NewPmapProgPmapVersClient(c.rpc).PmapprocDump(ctx)
			regs = fromPmaplist(list)
			return err
		}
		list, err := c.rpcbind(vers).RpcbprocDump(ctx)
		regs = fromRpcblist(list)
		return err
	})
	return regs, err
}

// rpcbindCaller is what versions 3 and 4 have in common.
type rpcbindCaller interface {
	RpcbprocSet(context.Context, Rpcb) (bool, error)
	RpcbprocUnset(context.Context, Rpcb) (bool, error)
	RpcbprocGetaddr(context.Context, Rpcb) (string, error)
	RpcbprocDump(context.Context) (RpcblistPtr, error)
}

func (c *Client) rpcbind(vers uint32) rpcbindCaller {
	if vers == RPCBVERS {
		return NewRpcbprogRpcbversClient(c.rpc)
	}
	return NewRpcbprogRpcbvers4Client(c.rpc)
}

// each calls try with version 4, 3 and 2 until the portmapper has it.
func (c *Client) each(try func(vers uint32) error) error {
	var err error
	for vers := c.vers.Load(); vers >= PMAP_VERS; vers-- {
		err = try(vers)
		if !otherVersion(err) {
			break
		}
		c.vers.CompareAndSwap(vers, max(vers-1, PMAP_VERS))
	}
	var refused *rpc.ReplyError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("%w at %s: %w", ErrNoPortmapper, c.addr, err)
	}
	if err != nil {
		return fmt.Errorf("portmap: %s: %w", c.addr, err)
	}
	return nil
}

// otherVersion tells whether a lower version of the protocol may do better.
func otherVersion(err error) bool {
	return errors.Is(err, rpc.ErrProgMismatch) || errors.Is(err, rpc.ErrProgUnavail) || errors.Is(err, rpc.ErrProcUnavail)
}

// refusedConn tells whether nobody listens.
func refusedConn(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func rpcbOf(r Registration) Rpcb {
	return Rpcb{RProg: r.Prog, RVers: r.Vers, RNetid: r.Netid, RAddr: r.Addr, ROwner: strconv.Itoa(os.Getuid())}
}

func fromRpcb(r Rpcb) Registration {
	return Registration{Prog: r.RProg, Vers: r.RVers, Netid: r.RNetid, Addr: r.RAddr, Owner: r.ROwner}
}

func fromRpcblist(list RpcblistPtr) []Registration {
	var regs []Registration
	for ; list != nil; list = list.RpcbNext {
		regs = append(regs, fromRpcb(list.RpcbMap))
	}
	return regs
}

func fromPmaplist(list PmaplistPtr) []Registration {
	var regs []Registration
	for ; list != nil; list = list.Next {
		netid := netidOf(list.Map.Prot)
		regs = append(regs, Registration{Prog: list.Map.Prog, Vers: list.Map.Vers, Netid: netid,
			Addr: WildcardUaddr(netid, uint16(list.Map.Port))})
	}
	return regs
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}
