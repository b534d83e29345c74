package rpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"starfish/xdr"
)

// Caller makes calls: a *Client, or what wraps one.
type Caller interface {
	// Call calls a procedure. args and res are nil for void.
	Call(ctx context.Context, prog, vers, proc uint32, args xdr.Appender, res xdr.DecoderFrom) error
}

// ClientConfig has the bounds of a Client. A zero field is its default, which
// stands in limits.go.
type ClientConfig struct {
	Cred      OpaqueAuth    // goes with every call; zero: AUTH_NONE. See SysAuth
	Auth      Authorizer    // instead of Cred; nil: Cred
	Trace     TraceFunc     // nil: nobody follows calls
	Timeout   time.Duration // of a call whose context has no deadline
	MaxRecord int           // bytes of one call or reply
	MaxReply  int           // bytes of one reply; 0: MaxRecord. See WithMaxReply

	// A call over UDP is sent again, with the same xid, after Retransmit, then
	// after twice that time and so on, at most MaxRetransmit.
	Retransmit    time.Duration
	MaxRetransmit time.Duration

	// RPC over TLS (RFC 9289), over streams. TLS has the client's certificate and
	// whom it trusts; version 1.3 and the protocol "sunrpc" are set, and so is the
	// server's name where it is the host that is dialed. The call that asks for TLS
	// names a program, of which the answer does not depend: some servers want to
	// know it.
	TLSMode              TLSMode
	TLS                  *tls.Config
	ProbeProg, ProbeVers uint32
}

func (c *ClientConfig) setDefaults() {
	orDefault(&c.Timeout, DefaultCallTimeout)
	orDefault(&c.MaxRecord, DefaultMaxRecord)
	orDefault(&c.MaxReply, c.MaxRecord)
	orDefault(&c.Retransmit, DefaultRetransmit)
	orDefault(&c.MaxRetransmit, DefaultMaxRetransmit)
}

// Client makes calls over one connection, any number at a time. It does not dial
// again: when the connection ends, its calls and all later ones are ErrClosed.
type Client struct {
	cfg  ClientConfig
	conn net.Conn
	wire transport
	done chan struct{}
	wg   sync.WaitGroup
	used sync.Pool // pendingCalls to use again

	mu      sync.Mutex
	xid     uint32
	pending map[uint32]*pendingCall
	longest int   // bytes of a reply that any call so far may have
	err     error // why the connection ended, nil before
}

// transport sends calls; one for streams, one for datagrams.
type transport interface {
	// roundTrip sends p and waits for its reply.
	roundTrip(ctx context.Context, p *pendingCall) (*buffer, error)
	// receive hands replies to deliver until the connection ends.
	receive() error
	// settle waits until no call is being sent; the connection has ended.
	settle()
}

// pendingCall is a call that waits for its reply.
type pendingCall struct {
	xid   uint32
	req   *buffer     // room for a mark, then the call
	max   int         // bytes of the reply
	reply chan result // of capacity 1: gets one result
	sent  bool        // may have reached the server; under Client.mu
	timer *time.Timer // kept for the next call; nil before the first
}

// result is a reply, or why there is none.
type result struct {
	rec *buffer
	err error
}

// Dial connects to a server: over "tcp", "udp" or "unix" (or "tcp4" and so on) to
// an address as net.Dial takes it, host and port or a path. It asks no
// portmapper.
func Dial(ctx context.Context, network, addr string, cfg ClientConfig) (*Client, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "unix":
	default:
		return nil, fmt.Errorf("rpc: dial: network %q is none of tcp, udp, unix", network)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("rpc: %w: %w", ErrNotSent, err)
	}
	if cfg.TLSMode != TLSOff {
		secure, err := dialTLS(ctx, conn, addr, cfg)
		if err != nil {
			_ = conn.Close() // the error is of more use
			return nil, err
		}
		conn = secure
	}
	return NewClient(conn, cfg), nil
}

// NewClient makes calls over conn, which is a *net.UDPConn for datagrams and
// else a stream. The client closes it. TLS is StartTLS's business.
func NewClient(conn net.Conn, cfg ClientConfig) *Client {
	cfg.setDefaults()
	c := &Client{
		cfg: cfg, conn: conn,
		done:    make(chan struct{}),
		xid:     rand.Uint32(),
		pending: make(map[uint32]*pendingCall),
		longest: cfg.MaxReply,
	}
	if _, ok := conn.(*net.UDPConn); ok {
		c.wire = &packetTransport{c: c}
	} else {
		c.wire = newStreamTransport(c)
	}
	c.wg.Go(func() {
		c.fail(c.wire.receive())
		c.wire.settle()
		c.endCalls()
	})
	return c
}

// Done is closed when the connection has ended and another must be dialed.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil before.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// RemoteAddr returns the server's address.
func (c *Client) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// TLS returns the state of the connection's TLS, nil where it has none.
func (c *Client) TLS() *tls.ConnectionState {
	tc, ok := c.conn.(*tls.Conn)
	if !ok {
		return nil
	}
	s := tc.ConnectionState()
	return &s
}

// LocalAddr returns the client's address.
func (c *Client) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// Close ends the connection; calls that wait are ErrClosed.
func (c *Client) Close() error {
	c.fail(errors.New("closed by the client"))
	c.wg.Wait()
	return nil
}

// Call calls a procedure and waits for its result, for as long as ctx or, where
// that has no deadline, ClientConfig.Timeout says. args and res may be nil: void.
// The error is a *ReplyError where the server refused the call. Else it says, by
// errors.Is, what is known: ErrNotSent (the server cannot have run the call),
// ErrClosed (this client is of no more use), ErrBadReply, context.Canceled or
// context.DeadlineExceeded.
func (c *Client) Call(ctx context.Context, prog, vers, proc uint32, args xdr.Appender, res xdr.DecoderFrom) (err error) {
	ctx, done := c.cfg.Trace.start(ctx, prog, vers, proc)
	if done != nil {
		defer func() { done(err) }()
	}
	rec, err := c.exchange(ctx, prog, vers, proc, args)
	if err == nil {
		err = c.readResult(rec, res)
	}
	if err != nil {
		return fmt.Errorf("rpc: call %#x.%d.%d at %v: %w", prog, vers, proc, c.conn.RemoteAddr(), err)
	}
	return nil
}

// readResult decodes a reply and gives its buffer back.
func (c *Client) readResult(rec *buffer, res xdr.DecoderFrom) error {
	var d xdr.Decoder
	d.Reset(rec.b)
	var check func(OpaqueAuth) error
	if c.cfg.Auth != nil {
		check = c.cfg.Auth.Check
	}
	err := readReply(&d, check)
	if err == nil && res != nil {
		if err = res.DecodeXDR(&d); err != nil {
			err = fmt.Errorf("%w: result: %w", ErrBadReply, err)
		}
	}
	if !d.Alias { // else the result lives on in the record
		rec.free()
	}
	return err
}

// exchange sends a call and returns its reply.
func (c *Client) exchange(ctx context.Context, prog, vers, proc uint32, args xdr.Appender) (*buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	cred, verf := c.cfg.Cred, OpaqueAuth{}
	if c.cfg.Auth != nil {
		var err error
		if cred, verf, err = c.cfg.Auth.Authorize(ctx, prog, vers, proc); err != nil {
			return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, ErrCredential, err)
		}
	}
	req := getBuffer()
	b := appendCall(req.b[:markLen], 0, prog, vers, proc, cred, verf)
	if args != nil {
		var err error
		if b, err = args.AppendXDR(b); err != nil {
			req.free()
			return nil, fmt.Errorf("%w: arguments: %w", ErrNotSent, err)
		}
	}
	req.b = b
	if n := len(b) - markLen; n > c.cfg.MaxRecord {
		req.free()
		return nil, fmt.Errorf("%w: %w: %d bytes, at most %d", ErrNotSent, ErrTooLong, n, c.cfg.MaxRecord)
	}
	putMark(b)
	p, ok := c.used.Get().(*pendingCall)
	if !ok {
		p = &pendingCall{reply: make(chan result, 1)}
	}
	p.req, p.sent, p.max = req, false, c.cfg.MaxReply
	if n, ok := ctx.Value(maxReplyKey{}).(int); ok && n > 0 {
		p.max = n
	}
	if err := c.register(p); err != nil {
		req.free()
		return nil, err
	}
	return c.wire.roundTrip(ctx, p)
}

// register gives the call its xid, and its reply a place to go.
func (c *Client) register(p *pendingCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return closedError(c.err, false)
	}
	for c.xid++; c.pending[c.xid] != nil; c.xid++ {
	}
	p.xid = c.xid
	binary.BigEndian.PutUint32(p.req.b[markLen:], p.xid)
	c.pending[p.xid] = p
	c.longest = max(c.longest, p.max)
	return nil
}

type maxReplyKey struct{}

// WithMaxReply bounds the reply of the calls that are made with the context, in
// bytes, in the place of ClientConfig.MaxReply: a client whose results are short
// can ask for a long one. A call whose reply is longer is ErrTooLong; one that is
// longer than all bounds so far ends the connection.
func WithMaxReply(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, maxReplyKey{}, n)
}

// maxReply is the bound of the reply that comes next.
func (c *Client) maxReply() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest
}

// callers returns how many calls wait.
func (c *Client) callers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// abandon forgets a call and reports whether the server may have it. False, of
// known: its result has come meanwhile, and waits in p.reply.
func (c *Client) abandon(p *pendingCall) (sent, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[p.xid] != p {
		return p.sent, false
	}
	delete(c.pending, p.xid)
	return p.sent, true
}

// deliver hands a reply to its call. Late and stray ones are dropped, and so are
// those that come before the call was sent.
func (c *Client) deliver(rec *buffer) {
	var p *pendingCall
	if xid, ok := replyXID(rec.b); ok {
		c.mu.Lock()
		if p = c.pending[xid]; p != nil && p.sent {
			delete(c.pending, xid)
		} else {
			p = nil
		}
		c.mu.Unlock()
	}
	if p == nil {
		rec.free()
		return
	}
	if n := len(rec.b); n > p.max {
		rec.free()
		p.reply <- result{err: fmt.Errorf("%w: reply of %d bytes, at most %d", ErrTooLong, n, p.max)}
		return
	}
	p.reply <- result{rec: rec}
}

// fail ends the connection; the first err says why.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		close(c.done)
	}
	c.mu.Unlock()
	_ = c.conn.Close() // it has ended anyway
}

// endCalls gives the calls that still wait their error.
func (c *Client) endCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for xid, p := range c.pending {
		delete(c.pending, xid)
		p.reply <- result{err: closedError(c.err, p.sent)}
	}
}

// closedError is the error of a call that a closed connection ended.
func closedError(why error, sent bool) error {
	if sent {
		return fmt.Errorf("%w: %w", ErrClosed, why)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotSent, ErrClosed, why)
}

// gaveUp is the error of a call whose time is over.
func gaveUp(why error, sent bool) error {
	if sent {
		return fmt.Errorf("no reply: %w", why)
	}
	return fmt.Errorf("%w: %w", ErrNotSent, why)
}
