package rpc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// hmacFlavor is a flavour that nobody has: the credential is a name and the
// verifier shows that the caller knows the secret; the reply's shows the same of
// the server.
const hmacFlavor AuthFlavor = 390099

func hmacOf(secret, text string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)[:13] // not a multiple of 4
}

// hmacServer is the Authenticator of one secret.
type hmacServer string

func (s hmacServer) Authenticate(c *Call) (OpaqueAuth, error) {
	name := string(c.Cred.Body)
	switch {
	case name == "":
		return OpaqueAuth{}, AuthError(AUTH_BADCRED)
	case name == "broken":
		return OpaqueAuth{}, errors.New("the key file is gone")
	case c.Verf.Flavor != hmacFlavor || !hmac.Equal(c.Verf.Body, hmacOf(string(s), name)):
		return OpaqueAuth{}, AuthError(AUTH_BADVERF)
	}
	c.Principal = name
	return OpaqueAuth{Flavor: hmacFlavor, Body: hmacOf(string(s), "server")}, nil
}

// hmacClient is the Authorizer of a name.
type hmacClient struct{ name, secret, server string }

func (a hmacClient) Authorize(context.Context, uint32, uint32, uint32) (cred, verf OpaqueAuth, err error) {
	if a.name == "nobody" {
		return cred, verf, errors.New("no ticket")
	}
	return OpaqueAuth{hmacFlavor, []byte(a.name)}, OpaqueAuth{hmacFlavor, hmacOf(a.secret, a.name)}, nil
}

func (a hmacClient) Check(verf OpaqueAuth) error {
	if verf.Flavor != hmacFlavor || !hmac.Equal(verf.Body, hmacOf(a.server, "server")) {
		return errors.New("another server")
	}
	return nil
}

// TestPluggedFlavour: a flavour of both sides, with verifiers.
func TestPluggedFlavour(t *testing.T) {
	s := newTestServer(t, ServerConfig{MaxReply: 1000, Auth: map[AuthFlavor]Authenticator{hmacFlavor: hmacServer("key")}})
	s.Register(7, 1, HandlerFunc(func(_ context.Context, c *Call, args *xdr.Decoder, b []byte) ([]byte, error) {
		switch c.Proc {
		case 1:
			return xdr.AppendString(b, fmt.Sprint(c.Principal), 255)
		case 2:
			return append(b, make([]byte, 2000)...), nil
		}
		return nil, ErrProcUnavail
	}))
	good := hmacClient{"jo", "key", "key"}
	for _, network := range []string{"tcp", "udp", "unix"} {
		addr := s.listen(t, network)
		ask := func(a hmacClient, proc uint32) (who string, err error) {
			c := dial(t, network, addr, ClientConfig{Auth: a})
			err = c.Call(t.Context(), 7, 1, proc, nil, xdr.DecodeFunc(func(d *xdr.Decoder) error { who = d.String(255); return d.Err() }))
			return who, err
		}
		t.Run(network, func(t *testing.T) {
			who, err := ask(good, 1)
			require.NoError(t, err)
			require.Equal(t, "jo", who)
			_, err = ask(good, 2)
			require.ErrorIs(t, err, ErrSystem, "with a verifier, too")
			_, err = ask(good, 3)
			require.ErrorIs(t, err, ErrProcUnavail)
			_, err = ask(hmacClient{"jo", "guess", "key"}, 1)
			require.ErrorIs(t, err, AuthError(AUTH_BADVERF))
			_, err = ask(hmacClient{"", "key", "key"}, 1)
			require.ErrorIs(t, err, AuthError(AUTH_BADCRED))
			_, err = ask(hmacClient{"broken", "key", "key"}, 1)
			require.ErrorIs(t, err, AuthError(AUTH_FAILED))
			_, err = ask(hmacClient{"jo", "key", "other"}, 1)
			require.ErrorIs(t, err, AuthError(AUTH_INVALIDRESP))
			require.ErrorContains(t, err, "another server")
			_, err = ask(hmacClient{"nobody", "key", "key"}, 1)
			require.ErrorIs(t, err, ErrNotSent)
			require.ErrorContains(t, err, "no ticket")
		})
	}
}

// TestFlavourBytes: what stands on the wire.
func TestFlavourBytes(t *testing.T) {
	short := AuthenticatorFunc(func(c *Call) (OpaqueAuth, error) {
		return OpaqueAuth{AUTH_SHORT, []byte("abcde")}, nil
	})
	s := newTestServer(t, ServerConfig{Auth: map[AuthFlavor]Authenticator{AUTH_SYS: short, AUTH_NONE: nil}})
	conn := dialRaw(t, "tcp", s.listen(t, "tcp"))
	const head = "11223344 00000000 00000002 20000099 "
	for _, c := range []struct{ name, call, reply string }{
		{"ReplyWithVerifier", head + "00000001 00000000 00000001 00000000 00000000 00000000",
			"11223344 00000001 00000000 00000002 00000005 6162636465 000000 00000000"},
		{"RefusalWithVerifier", head + "00000002 00000000 00000001 00000000 00000000 00000000",
			"11223344 00000001 00000000 00000002 00000005 6162636465 000000 00000002 00000001 00000003"},
		{"TurnedOff", head + "00000001 00000000 00000000 00000000 00000000 00000000",
			"11223344 00000001 00000001 00000001 00000002"},
		{"ShortWithoutAuthenticator", head + "00000001 00000000 00000002 00000000 00000000 00000000",
			"11223344 00000001 00000001 00000001 00000002"},
		{"Unknown", head + "00000001 00000000 0000002a 00000000 00000000 00000000",
			"11223344 00000001 00000001 00000001 00000002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			send(t, conn, record(unhex(t, c.call)))
			require.Equal(t, record(unhex(t, c.reply)), readReplyBytes(t, conn))
		})
	}
}

// TestAccessRules: which rules match which calls.
func TestAccessRules(t *testing.T) {
	tcp := func(a string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a)) }
	udp := func(a string) net.Addr { return net.UDPAddrFromAddrPort(netip.MustParseAddrPort(a)) }
	nets := func(p ...string) (all []netip.Prefix) {
		for _, s := range p {
			all = append(all, netip.MustParsePrefix(s))
		}
		return all
	}
	sys := func(uid uint32) *AuthsysParms { return &AuthsysParms{Uid: uid} }
	unix := &net.UnixAddr{Net: "unix"}
	for _, c := range []struct {
		name  string
		rules []AccessRule
		call  Call
		want  AuthStat
	}{
		{"NoRules", nil, Call{Prog: 1, PeerUID: -1}, AUTH_OK},
		{"NoneMatches", []AccessRule{{Prog: 2}}, Call{Prog: 1, PeerUID: -1}, AUTH_TOOWEAK},
		{"Any", []AccessRule{{}}, Call{Prog: 1, PeerUID: -1}, AUTH_OK},
		{"TheFirstDecides", []AccessRule{{Prog: 1, Deny: AUTH_BADCRED}, {}}, Call{Prog: 1, PeerUID: -1}, AUTH_BADCRED},
		{"TheNextDecides", []AccessRule{{Prog: 2, Deny: AUTH_BADCRED}, {}}, Call{Prog: 1, PeerUID: -1}, AUTH_OK},
		{"Version", []AccessRule{{Prog: 1, Vers: 3}}, Call{Prog: 1, Vers: 3, PeerUID: -1}, AUTH_OK},
		{"AnotherVersion", []AccessRule{{Prog: 1, Vers: 3}}, Call{Prog: 1, Vers: 4, PeerUID: -1}, AUTH_TOOWEAK},
		{"Procedure", []AccessRule{{Procs: []uint32{0, 5}}}, Call{Proc: 5, PeerUID: -1}, AUTH_OK},
		{"NullIsNotNamed", []AccessRule{{Procs: []uint32{5}}}, Call{Proc: 0, PeerUID: -1}, AUTH_TOOWEAK},
		{"Address", []AccessRule{{From: nets("10.1.0.0/16")}}, Call{Remote: tcp("10.1.2.3:700"), PeerUID: -1}, AUTH_OK},
		{"AddressOverUDP", []AccessRule{{From: nets("10.1.0.0/16")}}, Call{Remote: udp("10.1.2.3:700"), PeerUID: -1}, AUTH_OK},
		{"AnotherAddress", []AccessRule{{From: nets("10.1.0.0/16")}}, Call{Remote: tcp("10.2.2.3:700"), PeerUID: -1}, AUTH_TOOWEAK},
		{"OneOfSome", []AccessRule{{From: nets("10.1.0.0/16", "fd00::/8")}}, Call{Remote: tcp("[fd00::1]:700"), PeerUID: -1}, AUTH_OK},
		{"MappedAddress", []AccessRule{{From: nets("10.1.0.0/16")}}, Call{Remote: tcp("[::ffff:10.1.2.3]:700"), PeerUID: -1}, AUTH_OK},
		{"Zone", []AccessRule{{From: nets("fe80::/10")}}, Call{Remote: tcp("[fe80::1%eth0]:700"), PeerUID: -1}, AUTH_OK},
		{"UnixIsLoopback", []AccessRule{{From: nets("127.0.0.0/8")}}, Call{Remote: unix, Network: "unix", PeerUID: -1}, AUTH_OK},
		{"UnixIsNoOtherAddress", []AccessRule{{From: nets("10.0.0.0/8")}}, Call{Remote: unix, Network: "unix", PeerUID: -1}, AUTH_TOOWEAK},
		{"NoAddress", []AccessRule{{From: nets("0.0.0.0/0", "::/0")}}, Call{PeerUID: -1}, AUTH_TOOWEAK},
		{"User", []AccessRule{{UIDs: []uint32{0, 7}}}, Call{Sys: sys(7), PeerUID: -1}, AUTH_OK},
		{"AnotherUser", []AccessRule{{UIDs: []uint32{0, 7}}}, Call{Sys: sys(8), PeerUID: -1}, AUTH_TOOWEAK},
		{"NoUser", []AccessRule{{UIDs: []uint32{0, 7}}}, Call{PeerUID: -1}, AUTH_TOOWEAK},
		{"UserOfTheSocket", []AccessRule{{UIDs: []uint32{7}}}, Call{Network: "unix", PeerUID: 7}, AUTH_OK},
		{"TheSocketKnowsBetter", []AccessRule{{UIDs: []uint32{0}}}, Call{Network: "unix", PeerUID: 7, Sys: sys(0)}, AUTH_TOOWEAK},
		{"SocketOfNobody", []AccessRule{{UIDs: []uint32{0}}}, Call{Network: "unix", PeerUID: -1, Sys: sys(0)}, AUTH_TOOWEAK},
		{"AllFieldsTogether", []AccessRule{{Prog: 1, Vers: 2, Procs: []uint32{3}, From: nets("10.0.0.0/8"), UIDs: []uint32{4}}},
			Call{Prog: 1, Vers: 2, Proc: 3, Remote: tcp("10.0.0.1:1"), Sys: sys(4), PeerUID: -1}, AUTH_OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewServer(ServerConfig{Logger: quiet, Access: c.rules})
			require.Equal(t, c.want, s.access(&c.call))
		})
	}
}

// TestAccess: a call that is denied does not run, its connection lives, and one
// line a second of it is logged.
func TestAccess(t *testing.T) {
	var log syncBuffer
	s := newTestServer(t, ServerConfig{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Access: []AccessRule{
			{Prog: testProg, Procs: []uint32{procNull, procCount}},
			{Prog: testProg, Procs: []uint32{procEcho}, UIDs: []uint32{uint32(os.Getuid())}},
			{Prog: testProg, Procs: []uint32{procPanic}, Deny: AUTH_REJECTEDCRED},
		},
	})
	me, err := SysAuth(AuthsysParms{Uid: uint32(os.Getuid())})
	require.NoError(t, err)
	for _, network := range []string{"tcp", "udp", "unix"} {
		addr := s.listen(t, network)
		t.Run(network, func(t *testing.T) {
			c := dial(t, network, addr, ClientConfig{})
			for range 10 {
				_, err := call(t.Context(), c, procMulti, 0, 0, 0, 0)
				require.ErrorIs(t, err, AuthError(AUTH_TOOWEAK))
			}
			_, err := call(t.Context(), c, procPanic)
			require.ErrorIs(t, err, AuthError(AUTH_REJECTEDCRED))
			_, err = call(t.Context(), c, procCount, 0, 0, 0, 0)
			require.NoError(t, err)
			_, err = call(t.Context(), c, procEcho, 0, 0, 0, 0)
			if network == "unix" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, AuthError(AUTH_TOOWEAK))
			}
			c = dial(t, network, addr, ClientConfig{Cred: me})
			_, err = call(t.Context(), c, procEcho, 0, 0, 0, 0)
			require.NoError(t, err)
		})
	}
	require.Contains(t, log.String(), "denied by the access list")
	require.Contains(t, log.String(), "AUTH_TOOWEAK")
}
