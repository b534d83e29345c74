package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"starfish/xdr"
)

// RPC over TLS, RFC 9289: a client asks by a NULL call whose credential is
// AUTH_TLS, a server that has TLS answers with the verifier STARTTLS, and the
// handshake follows on the same connection. All calls come after it.

// AUTH_TLS is the flavour of the credential that asks for TLS (RFC 9289 section
// 4.1).
const AUTH_TLS AuthFlavor = 7

const (
	startTLS = "STARTTLS" // body of the verifier of a server that has TLS
	alpn     = "sunrpc"   // RFC 9289 section 8.2
)

// TLSMode says how far TLS is asked for.
type TLSMode uint8

const (
	TLSOff      TLSMode = iota // there is no TLS
	TLSOptional                // the other side decides
	TLSRequired                // no call is made or run without
)

func (m TLSMode) String() string {
	switch m {
	case TLSOff:
		return "off"
	case TLSOptional:
		return "optional"
	case TLSRequired:
		return "required"
	}
	return fmt.Sprintf("TLSMode(%d)", uint8(m))
}

// tlsConfig returns cfg with what RFC 9289 section 5 demands.
func tlsConfig(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.MinVersion = tls.VersionTLS13
	cfg.NextProtos = []string{alpn}
	return cfg
}

// checkTLS reports a session that is not for RPC.
func checkTLS(s tls.ConnectionState) error {
	if s.Version < tls.VersionTLS13 || s.NegotiatedProtocol != alpn {
		return fmt.Errorf("%w: %s with protocol %q instead of %q", ErrTLS, tls.VersionName(s.Version), s.NegotiatedProtocol, alpn)
	}
	return nil
}

// Peer returns the certificate of the caller, nil where the server has verified
// none.
func (c *Call) Peer() *x509.Certificate {
	if c.TLS == nil || len(c.TLS.VerifiedChains) == 0 {
		return nil
	}
	return c.TLS.VerifiedChains[0][0]
}

// tooWeak reports whether c has to come over TLS and did not. What comes over a
// unix socket does not leave the host.
func (s *Server) tooWeak(c *Call) bool {
	return s.cfg.TLSMode == TLSRequired && c.TLS == nil && c.Network != "unix"
}

// refuseProbe returns why a call whose credential is AUTH_TLS is denied, nil
// where the handshake is to follow.
func (c *streamConn) refuseProbe(call *Call) error {
	switch {
	case call.Verf.Flavor != AUTH_NONE || len(call.Verf.Body) > 0:
		return AuthError(AUTH_BADVERF)
	case call.Proc != 0 || len(call.Cred.Body) > 0 || c.call.TLS != nil:
		return AuthError(AUTH_BADCRED)
	case c.crew.busy() > 0: // their replies would get into the handshake
		return AuthError(AUTH_BADCRED)
	}
	return nil
}

// startTLS answers a probe and makes the handshake: nothing that was sent before
// it is read as a call. False where the connection ends.
func (c *streamConn) startTLS(call *Call, req *buffer) bool {
	re, res := &ReplyError{AcceptStat: SUCCESS}, CallResult{In: len(req.b)}
	if _, err := c.s.handler(call); err != nil { // section 4.1: the handshake follows all the same
		re = refusalFor(err)
		res.Err = re
	}
	req.b = appendRefusal(req.b[:markLen], call.XID, OpaqueAuth{Body: []byte(startTLS)}, re)
	putMark(req.b)
	res.Out = len(req.b) - markLen
	c.s.cfg.Metrics.Called(call, res)
	err := c.writeAll(req.b)
	req.free()
	if err == nil {
		err = c.handshake()
	}
	if err != nil {
		c.readEnded(fmt.Errorf("%w: %w", ErrTLS, err))
		return false
	}
	return true
}

// handshake makes the connection one over TLS. Nobody else reads or writes. What
// is read ahead of it is a part of the handshake, or else its end.
func (c *streamConn) handshake() error {
	ahead := bytes.Clone(c.rec.buf[c.rec.r:c.rec.w])
	c.rec.r, c.rec.w = 0, 0
	if err := c.setDeadline(time.Now().Add(c.s.cfg.StallTimeout)); err != nil {
		return err
	}
	conn := tls.Server(&aheadConn{c.nc, ahead}, c.s.cfg.TLS)
	if err := conn.Handshake(); err != nil {
		return err
	}
	state := conn.ConnectionState()
	if err := checkTLS(state); err != nil {
		return err
	}
	c.wire, c.call.TLS = conn, &state
	return c.setDeadline(time.Time{})
}

// setDeadline sets a deadline in the place of those of reads and writes.
func (c *streamConn) setDeadline(t time.Time) error {
	c.dmu.Lock()
	defer c.dmu.Unlock()
	if c.draining {
		return errDraining
	}
	c.idleTill, c.out.till = time.Time{}, time.Time{}
	return c.nc.SetDeadline(t)
}

// aheadConn is a connection of which some bytes were read already.
type aheadConn struct {
	net.Conn
	ahead []byte
}

func (c *aheadConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// StartTLS asks the server at the other end of conn for TLS, as cfg says, and
// makes the handshake, for as long as ctx or else cfg.Timeout allows. It returns
// the connection to give to NewClient: conn itself where cfg.TLSMode is
// TLSOptional and the server has no TLS. On an error, which is ErrNotSent and
// mostly ErrTLS, conn is to be closed. Dial does it by itself.
func StartTLS(ctx context.Context, conn net.Conn, cfg ClientConfig) (net.Conn, error) {
	cfg.setDefaults()
	if cfg.TLSMode == TLSOff {
		return conn, nil
	}
	if cfg.TLS == nil {
		return nil, fmt.Errorf("rpc: %w: %w: ClientConfig.TLS is missing", ErrNotSent, ErrTLS)
	}
	ctx, cancel := withTimeout(ctx, cfg.Timeout)
	defer cancel()
	has, err := askForTLS(ctx, conn, &cfg)
	switch {
	case err != nil:
		return nil, fmt.Errorf("rpc: %w: %w: %w", ErrNotSent, ErrTLS, err)
	case has:
	case cfg.TLSMode == TLSRequired:
		return nil, fmt.Errorf("rpc: %w: %w: the server at %v has no TLS", ErrNotSent, ErrTLS, conn.RemoteAddr())
	default:
		return conn, nil
	}
	tc := tls.Client(conn, tlsConfig(cfg.TLS))
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("rpc: %w: %w: %w", ErrNotSent, ErrTLS, err)
	}
	if err := checkTLS(tc.ConnectionState()); err != nil {
		return nil, fmt.Errorf("rpc: %w: %w", ErrNotSent, err)
	}
	return tc, nil
}

// withTimeout is ctx with a deadline.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// askForTLS makes the NULL call of RFC 9289 section 4.1 and reports whether the
// server starts TLS.
func askForTLS(ctx context.Context, conn net.Conn, cfg *ClientConfig) (bool, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	rec, err := exchangeProbe(conn, cfg)
	if !stop() {
		return false, ctx.Err()
	}
	if err != nil {
		return false, err
	}
	var m RpcMsg
	d := xdr.NewDecoder(rec)
	d.Lax = true
	if err := m.DecodeXDR(d); err != nil {
		return false, fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	verf := m.Body.Rbody.Areply.Verf
	return m.Body.Rbody.Stat == MSG_ACCEPTED && verf.Flavor == AUTH_NONE && string(verf.Body) == startTLS, nil
}

// exchangeProbe sends the probe and returns its reply, behind which nothing may
// come: what does was put there by somebody else.
func exchangeProbe(conn net.Conn, cfg *ClientConfig) ([]byte, error) {
	xid := rand.Uint32()
	req := appendCall(make([]byte, markLen), xid, cfg.ProbeProg, cfg.ProbeVers, 0, OpaqueAuth{Flavor: AUTH_TLS}, OpaqueAuth{})
	putMark(req)
	if _, err := conn.Write(req); err != nil {
		return nil, err
	}
	r := newRecordReader(conn, maxProbeReply)
	rec, err := r.next(nil)
	switch {
	case err != nil:
		return nil, err
	case len(rec) < 8 || binary.BigEndian.Uint32(rec) != xid || binary.BigEndian.Uint32(rec[4:]) != uint32(REPLY):
		return nil, fmt.Errorf("%w: not the reply to the probe", ErrBadReply)
	case r.w > r.r:
		return nil, fmt.Errorf("%w: %d bytes behind the reply to the probe", ErrBadReply, r.w-r.r)
	}
	return rec, nil
}

// dialTLS is StartTLS for Dial.
func dialTLS(ctx context.Context, conn net.Conn, addr string, cfg ClientConfig) (net.Conn, error) {
	if _, ok := conn.(*net.UDPConn); ok {
		if cfg.TLSMode == TLSRequired {
			return nil, fmt.Errorf("rpc: %w: %w: there is none over udp, use tcp", ErrNotSent, ErrTLS)
		}
		return conn, nil
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && cfg.TLS != nil && cfg.TLS.ServerName == "" {
		cfg.TLS = cfg.TLS.Clone()
		cfg.TLS.ServerName = host
	}
	return StartTLS(ctx, conn, cfg)
}
