package rpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	a := &authority{pool: x509.NewCertPool()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate for a name, which is good until then.
func (a *authority) issue(t testing.TB, name string, until time.Time) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate and its key as openssl reads them.
func (a *authority) files(t testing.TB, c tls.Certificate) (ca, cert, key string) {
	dir := t.TempDir()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("ca.pem", "CERTIFICATE", a.cert.Raw), write("cert.pem", "CERTIFICATE", c.Certificate[0]), write("key.pem", "PRIVATE KEY", der)
}

// tlsParty is what both sides have.
type tlsParty struct {
	ca             *authority
	server, client *tls.Config
}

func newTLSParty(t testing.TB) *tlsParty {
	ca := newAuthority(t)
	later := time.Now().Add(time.Hour)
	return &tlsParty{
		ca: ca,
		server: &tls.Config{
			Certificates: []tls.Certificate{ca.issue(t, "server", later)},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool,
		},
		client: &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "client", later)}, RootCAs: ca.pool},
	}
}

func (p *tlsParty) serve(mode TLSMode) ServerConfig {
	return ServerConfig{TLSMode: mode, TLS: p.server, StallTimeout: 5 * time.Second}
}

func (p *tlsParty) dial(mode TLSMode) ClientConfig { return ClientConfig{TLSMode: mode, TLS: p.client} }

// TestTLSModes: which client gets which kind of connection from which server.
func TestTLSModes(t *testing.T) {
	p := newTLSParty(t)
	for _, c := range []struct {
		server, client TLSMode
		tls            bool
		dial, call     error
	}{
		{TLSOff, TLSOff, false, nil, nil},
		{TLSOff, TLSOptional, false, nil, nil},
		{TLSOff, TLSRequired, false, ErrTLS, nil},
		{TLSOptional, TLSOff, false, nil, nil},
		{TLSOptional, TLSOptional, true, nil, nil},
		{TLSOptional, TLSRequired, true, nil, nil},
		{TLSRequired, TLSOff, false, nil, AuthError(AUTH_TOOWEAK)},
		{TLSRequired, TLSOptional, true, nil, nil},
		{TLSRequired, TLSRequired, true, nil, nil},
	} {
		t.Run(c.server.String()+"/"+c.client.String(), func(t *testing.T) {
			s := newTestServer(t, p.serve(c.server))
			conn, err := Dial(t.Context(), "tcp", s.listen(t, "tcp"), p.dial(c.client))
			require.ErrorIs(t, err, c.dial)
			if err != nil {
				require.ErrorIs(t, err, ErrNotSent)
				return
			}
			defer conn.Close()
			require.Equal(t, c.tls, conn.TLS() != nil)
			list := appendList(nil, []node{{strings.Repeat("x", 100_000), 7}})
			for range 2 {
				got, err := call(t.Context(), conn, procEcho, list...)
				require.ErrorIs(t, err, c.call)
				if err == nil {
					require.Equal(t, list, got)
				}
				_, err = call(t.Context(), conn, procNull)
				require.ErrorIs(t, err, c.call)
			}
		})
	}
}

// TestTLSNetworks: over unix sockets TLS can be had and is not required, over
// UDP there is none.
func TestTLSNetworks(t *testing.T) {
	p := newTLSParty(t)
	p.client.ServerName = "server"
	s := newTestServer(t, p.serve(TLSRequired))
	unix, udp := s.listen(t, "unix"), s.listen(t, "udp")
	_, err := call(t.Context(), dial(t, "unix", unix, ClientConfig{}), procNull)
	require.NoError(t, err)
	c := dial(t, "unix", unix, p.dial(TLSRequired))
	require.NotNil(t, c.TLS())
	_, err = call(t.Context(), c, procNull)
	require.NoError(t, err)

	_, err = call(t.Context(), dial(t, "udp", udp, p.dial(TLSOptional)), procNull)
	require.ErrorIs(t, err, AuthError(AUTH_TOOWEAK))
	_, err = Dial(t.Context(), "udp", udp, p.dial(TLSRequired))
	require.ErrorIs(t, err, ErrTLS)
	require.ErrorIs(t, err, ErrNotSent)
}

// TestTLSConfigMissing: a mode without a configuration serves nothing.
func TestTLSConfigMissing(t *testing.T) {
	for _, mode := range []TLSMode{TLSOptional, TLSRequired} {
		s := NewServer(ServerConfig{Logger: quiet, TLSMode: mode})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.ErrorIs(t, s.Serve(l), ErrTLS)
		uc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		require.ErrorIs(t, s.ServePacket(uc), ErrTLS)
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		_, err = StartTLS(t.Context(), near, ClientConfig{TLSMode: mode})
		require.ErrorIs(t, err, ErrTLS)
	}
}

// TestTLSPeer: a handler knows the certificate of its caller, and only one that
// was verified.
func TestTLSPeer(t *testing.T) {
	for _, mutual := range []bool{true, false} {
		p := newTLSParty(t)
		want := "client"
		if !mutual {
			p.server.ClientAuth, want = tls.RequestClientCert, "nobody"
		}
		s := newTestServer(t, p.serve(TLSRequired))
		s.Register(7, 1, HandlerFunc(func(_ context.Context, c *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
			who := "nobody"
			if cert := c.Peer(); cert != nil {
				who = cert.Subject.CommonName
			}
			return xdr.AppendString(b, who, 255)
		}))
		c := dial(t, "tcp", s.listen(t, "tcp"), p.dial(TLSRequired))
		require.NoError(t, c.Call(t.Context(), 7, 1, 1, nil, xdr.DecodeFunc(func(d *xdr.Decoder) error {
			require.Equal(t, want, d.String(255))
			return d.Err()
		})))
	}
}

// TestTLSBadPeers: certificates and protocols that are no good end in ErrTLS or
// a closed connection, and never in a call.
func TestTLSBadPeers(t *testing.T) {
	stranger := newAuthority(t)
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name  string
		spoil func(p *tlsParty)
	}{
		{"ClientOfAnotherAuthority", func(p *tlsParty) { p.client.Certificates = []tls.Certificate{stranger.issue(t, "client", later)} }},
		{"ClientWithoutCertificate", func(p *tlsParty) { p.client.Certificates = nil }},
		{"ClientExpired", func(p *tlsParty) {
			p.client.Certificates = []tls.Certificate{p.ca.issue(t, "client", time.Now().Add(-time.Minute))}
		}},
		{"ServerOfAnotherAuthority", func(p *tlsParty) { p.server.Certificates = []tls.Certificate{stranger.issue(t, "server", later)} }},
		{"ServerExpired", func(p *tlsParty) {
			p.server.Certificates = []tls.Certificate{p.ca.issue(t, "server", time.Now().Add(-time.Minute))}
		}},
		{"ServerOfAnotherName", func(p *tlsParty) { p.client.ServerName = "bank" }},
		{"ServerWithoutCertificate", func(p *tlsParty) { p.server.Certificates = nil }},
	} {
		for _, mode := range []TLSMode{TLSOptional, TLSRequired} {
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) {
				p := newTLSParty(t)
				c.spoil(p)
				s := newTestServer(t, p.serve(TLSOptional))
				addr := s.listen(t, "tcp")
				conn, err := Dial(t.Context(), "tcp", addr, p.dial(mode))
				if err == nil { // a client of TLS 1.3 may learn it after the handshake
					_, err = call(t.Context(), conn, procPanic)
					require.ErrorIs(t, err, ErrClosed)
					_ = conn.Close()
				} else {
					require.ErrorIs(t, err, ErrTLS)
					require.ErrorIs(t, err, ErrNotSent)
				}
				stillServed(t, dialRaw(t, "tcp", addr))
			})
		}
	}
}

// literal bytes of RFC 9289 section 4.1.
const (
	tlsProbe = "55667788 00000000 00000002 20000099 00000001 00000000 00000007 00000000 00000000 00000000"
	tlsYes   = "55667788 00000001 00000000 00000000 00000008 5354415254544c53 00000000"
)

// rawHandshake asks for TLS by hand, and is then a TLS client that offers the
// protocols.
func rawHandshake(t *testing.T, conn net.Conn, cfg *tls.Config, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	send(t, conn, record(unhex(t, tlsProbe)))
	require.Equal(t, record(unhex(t, tlsYes)), readReplyBytes(t, conn))
	cfg = cfg.Clone()
	cfg.ServerName, cfg.NextProtos = "server", protocols
	tc := tls.Client(conn, cfg)
	return tc, tc.Handshake()
}

// TestTLSProbe: the bytes of the probe, of its replies, and of what is no probe.
func TestTLSProbe(t *testing.T) {
	p := newTLSParty(t)
	const head = "55667788 00000000 00000002 "
	const denied = "55667788 00000001 00000001 00000001 "
	for _, c := range []struct {
		name        string
		mode        TLSMode
		call, reply string
	}{
		{"Optional", TLSOptional, tlsProbe, tlsYes},
		{"Required", TLSRequired, tlsProbe, tlsYes},
		{"Off", TLSOff, tlsProbe, denied + "00000002"},
		{"NotNull", TLSRequired, head + "20000099 00000001 00000004 00000007 00000000 00000000 00000000 00000000", denied + "00000001"},
		{"CredentialWithBody", TLSRequired, head + "20000099 00000001 00000000 00000007 00000004 00000000 00000000 00000000", denied + "00000001"},
		{"VerifierWithBody", TLSRequired, head + "20000099 00000001 00000000 00000007 00000000 00000000 00000004 00000000", denied + "00000003"},
		{"VerifierOfAnotherFlavour", TLSRequired, head + "20000099 00000001 00000000 00000007 00000000 00000001 00000000", denied + "00000003"},
		{"UnknownProgram", TLSRequired, head + "20000001 00000001 00000000 00000007 00000000 00000000 00000000",
			"55667788 00000001 00000000 00000000 00000008 5354415254544c53 00000001"},
		{"UnknownVersion", TLSRequired, head + "20000099 00000002 00000000 00000007 00000000 00000000 00000000",
			"55667788 00000001 00000000 00000000 00000008 5354415254544c53 00000002 00000001 00000003"},
		{"PlainCall", TLSRequired, nullCall, denied + "00000005"},
		{"PlainCallOptional", TLSOptional, nullCall, nullReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestServer(t, p.serve(c.mode))
			conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
			send(t, conn, record(unhex(t, c.call)))
			require.Equal(t, record(unhex(t, c.reply)), readReplyBytes(t, conn))
			if strings.HasPrefix(c.reply, denied) && c.mode != TLSOff { // and the connection lives
				tc, err := rawHandshake(t, conn, p.client, alpn)
				require.NoError(t, err)
				stillServed(t, tc)
			}
		})
	}
	t.Run("InsideOfTLS", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		tc, err := rawHandshake(t, dialRaw(t, "tcp", s.listen(t, "tcp")), p.client, alpn)
		require.NoError(t, err)
		send(t, tc, record(unhex(t, tlsProbe)))
		require.Equal(t, record(unhex(t, denied+"00000001")), readReplyBytes(t, tc))
		stillServed(t, tc)
	})
	t.Run("WhileACallRuns", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSOptional))
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		send(t, conn, record(message(1, procBlock)))
		<-s.h.entered
		send(t, conn, record(unhex(t, tlsProbe)))
		require.Equal(t, record(unhex(t, denied+"00000001")), readReplyBytes(t, conn))
		s.h.release <- struct{}{}
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, conn)))
		tc, err := rawHandshake(t, conn, p.client, alpn)
		require.NoError(t, err)
		stillServed(t, tc)
	})
	t.Run("OverUDP", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSOptional))
		conn := dialRaw(t, "udp", s.listen(t, "udp"))
		send(t, conn, unhex(t, tlsProbe))
		require.Equal(t, unhex(t, denied+"00000002"), readReplyBytes(t, conn))
	})
}

// TestTLSProtocol: TLS 1.3 for "sunrpc", or nothing.
func TestTLSProtocol(t *testing.T) {
	p := newTLSParty(t)
	for _, c := range []struct {
		name      string
		max       uint16
		protocols []string
		good      bool
	}{
		{"Sunrpc", 0, []string{"sunrpc"}, true},
		{"AmongOthers", 0, []string{"h2", "sunrpc"}, true},
		{"AnotherProtocol", 0, []string{"h2"}, false},
		{"NoProtocol", 0, nil, false},
		{"TLS12", tls.VersionTLS12, []string{"sunrpc"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestServer(t, p.serve(TLSRequired))
			addr := s.listen(t, "tcp")
			cfg := p.client.Clone()
			cfg.MaxVersion = c.max
			tc, err := rawHandshake(t, dialRaw(t, "tcp", addr), cfg, c.protocols...)
			if c.good {
				require.NoError(t, err)
				stillServed(t, tc)
				return
			}
			if err == nil {
				_, _ = tc.Write(record(message(1, procPanic))) // it may be closed by now
				_, err = tc.Read(make([]byte, 1))
			}
			require.Error(t, err)
		})
	}
}

// TestTLSInjection: what is sent in plain behind the probe, with it or later, is
// never run.
func TestTLSInjection(t *testing.T) {
	p := newTLSParty(t)
	var ran atomic.Uint32
	spy := HandlerFunc(func(_ context.Context, _ *Call, _ *xdr.Decoder, b []byte) ([]byte, error) {
		ran.Add(1)
		return b, nil
	})
	evil := record(appendCall(nil, 9, 7, 1, 1, OpaqueAuth{}, OpaqueAuth{}))
	for _, mode := range []TLSMode{TLSOptional, TLSRequired} {
		for _, way := range []string{"InOneWrite", "AfterTheReply", "HalfBeforeTheReply"} {
			t.Run(mode.String()+"/"+way, func(t *testing.T) {
				ran.Store(0)
				s := newTestServer(t, p.serve(mode))
				s.Register(7, 1, spy)
				conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
				probe, rest := record(unhex(t, tlsProbe)), []byte(nil)
				switch way {
				case "InOneWrite":
					probe = append(probe, evil...)
				case "AfterTheReply":
					rest = evil
				default:
					probe, rest = append(probe, evil[:10]...), evil[10:]
				}
				send(t, conn, probe)
				require.Equal(t, record(unhex(t, tlsYes)), readReplyBytes(t, conn))
				_, _ = conn.Write(rest)
				left, _ := io.ReadAll(conn) // an alert, or a reset
				require.LessOrEqual(t, len(left), 7)
				require.Zero(t, ran.Load())
			})
		}
	}
	t.Run("HelloWithTheProbe", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
		cfg := p.client.Clone()
		cfg.ServerName, cfg.NextProtos = "server", []string{alpn}
		tc := tls.Client(&eagerConn{Conn: conn, probe: record(unhex(t, tlsProbe)), reply: len(record(unhex(t, tlsYes)))}, cfg)
		require.NoError(t, tc.Handshake())
		stillServed(t, tc)
	})
}

// eagerConn sends its first bytes together with the probe.
type eagerConn struct {
	net.Conn
	probe []byte
	reply int // bytes to come before what the peer answers
}

func (c *eagerConn) Write(p []byte) (int, error) {
	_, err := c.Conn.Write(append(c.probe, p...))
	c.probe = nil
	return len(p), err
}

func (c *eagerConn) Read(p []byte) (int, error) {
	if c.reply > 0 {
		if _, err := io.ReadFull(c.Conn, make([]byte, c.reply)); err != nil {
			return 0, err
		}
		c.reply = 0
	}
	return c.Conn.Read(p)
}

// TestTLSDowngrade: what a server, or who is in between, answers to the probe.
func TestTLSDowngrade(t *testing.T) {
	p := newTLSParty(t)
	for _, c := range []struct {
		name     string
		reply    func(xid uint32) []byte
		optional error // nil: it goes on in plain
	}{
		{"NoVerifier", func(x uint32) []byte { return record(success(x)) }, nil},
		{"Denied", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{}, AuthError(AUTH_REJECTEDCRED).(*ReplyError)))
		}, nil},
		{"AnotherWord", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{Body: []byte("STARTTL5")}, &ReplyError{}))
		}, nil},
		{"AnotherFlavour", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{Flavor: AUTH_TLS, Body: []byte(startTLS)}, &ReplyError{}))
		}, nil},
		{"AnotherXID", func(x uint32) []byte { return record(success(x + 1)) }, ErrBadReply},
		{"NoReply", func(x uint32) []byte { return record(message(x, 0)) }, ErrBadReply},
		{"Cut", func(x uint32) []byte { return record(success(x)[:20]) }, ErrBadReply},
		{"Huge", func(uint32) []byte { return unhex(t, "80100000") }, ErrTooLong},
		{"ReplyInjected", func(x uint32) []byte {
			b := record(appendRefusal(nil, x, OpaqueAuth{Body: []byte(startTLS)}, &ReplyError{}))
			return append(b, record(success(x+1, 0, 0, 0, 42))...)
		}, ErrBadReply},
		{"NoHandshake", func(x uint32) []byte {
			return record(appendRefusal(nil, x, OpaqueAuth{Body: []byte(startTLS)}, &ReplyError{}))
		}, ErrTLS},
		{"Closed", nil, io.EOF},
	} {
		for _, mode := range []TLSMode{TLSOptional, TLSRequired} {
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				defer l.Close()
				var after []byte // what the client sends then
				served := make(chan struct{})
				go func() {
					defer close(served)
					conn, err := l.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					rec, _ := newRecordReader(conn, 1000).next(nil)
					if c.reply == nil {
						return
					}
					_, _ = conn.Write(c.reply(xidOf(record(rec))))
					if c.name == "NoHandshake" {
						_, _ = conn.Read(make([]byte, 1))
						return
					}
					after, _ = io.ReadAll(conn)
				}()
				conn, err := Dial(t.Context(), "tcp", l.Addr().String(), p.dial(mode))
				want := c.optional
				if mode == TLSRequired && want == nil {
					want = ErrTLS
				}
				if want != nil {
					require.ErrorIs(t, err, want)
					require.ErrorIs(t, err, ErrTLS)
					require.ErrorIs(t, err, ErrNotSent)
					<-served
					require.Empty(t, after)
					return
				}
				require.NoError(t, err)
				require.Nil(t, conn.TLS())
				require.NoError(t, conn.Close())
				<-served
			})
		}
	}
	t.Run("ItTakesTooLong", func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		defer near.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := StartTLS(ctx, near, p.dial(TLSOptional))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestTLSHandshakeStalls: who makes no handshake is closed, and no call runs.
func TestTLSHandshakeStalls(t *testing.T) {
	p := newTLSParty(t)
	onPipes(t, ServerConfig{TLSMode: TLSRequired, TLS: p.server, StallTimeout: testStall}, func(t *testing.T, s *testServer, dial func() net.Conn) {
		conn := dial()
		send(t, conn, record(unhex(t, tlsProbe)))
		require.Equal(t, record(unhex(t, tlsYes)), readReplyBytes(t, conn))
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		require.Equal(t, testStall, closedAfter(t, conn))
	})
}

// TestTLSLives: half a close, a shutdown and the end are said over TLS.
func TestTLSLives(t *testing.T) {
	p := newTLSParty(t)
	t.Run("HalfClose", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		tc, err := rawHandshake(t, dialRaw(t, "tcp", s.listen(t, "tcp")), p.client, alpn)
		require.NoError(t, err)
		send(t, tc, append(record(message(1, procBlock)), record(message(2, procNull))...))
		require.NoError(t, tc.CloseWrite())
		require.EqualValues(t, 2, xidOf(readReplyBytes(t, tc)))
		<-s.h.entered
		s.h.release <- struct{}{}
		require.EqualValues(t, 1, xidOf(readReplyBytes(t, tc)))
		_, err = tc.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("Shutdown", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		c := dial(t, "tcp", s.listen(t, "tcp"), p.dial(TLSRequired))
		answered := make(chan error, 1)
		go func() { _, err := call(t.Context(), c, procBlock); answered <- err }()
		<-s.h.entered
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		s.h.release <- struct{}{}
		require.NoError(t, <-answered)
		require.NoError(t, <-down)
	})
	t.Run("Concurrent", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		c := dial(t, "tcp", s.listen(t, "tcp"), p.dial(TLSRequired))
		errs := make(chan error, 200)
		for range cap(errs) {
			go func() { _, err := call(t.Context(), c, procCount, 0, 0, 0, 0); errs <- err }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	})
}
