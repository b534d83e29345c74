package rpc

import (
	"context"
	"errors"
	"fmt"

	"starfish/xdr"
)

// SysAuth returns p as an AUTH_SYS credential (RFC 5531 appendix A), for
// ClientConfig.Cred. More than MAX_GIDS groups or a longer machine name than
// MAX_MACHINE_NAME are an error: a server would refuse every call. AUTH_SYS says
// who calls and proves nothing.
func SysAuth(p AuthsysParms) (OpaqueAuth, error) {
	if len(p.Gids) > MAX_GIDS {
		return OpaqueAuth{}, fmt.Errorf("rpc: %w: AUTH_SYS with %d groups, at most %d: leave some out", ErrCredential, len(p.Gids), MAX_GIDS)
	}
	body, err := xdr.Marshal(&p)
	if err != nil {
		return OpaqueAuth{}, fmt.Errorf("rpc: %w: AUTH_SYS: %w", ErrCredential, err)
	}
	return OpaqueAuth{Flavor: AUTH_SYS, Body: body}, nil
}

// Authenticator checks the credentials of one flavour (RFC 5531 section 8.2), for
// ServerConfig.Auth. It runs while nobody reads from the connection: it must not
// block.
type Authenticator interface {
	// Authenticate looks at c.Cred and c.Verf, and notes in c.Sys and c.Principal
	// what it finds. It returns the verifier of the reply, which is to be zero
	// where the flavour has none, or an error to deny the call with: what AuthError
	// returns, any other is AUTH_FAILED.
	Authenticate(c *Call) (verf OpaqueAuth, err error)
}

// AuthenticatorFunc is a function as an Authenticator.
type AuthenticatorFunc func(c *Call) (verf OpaqueAuth, err error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(c *Call) (OpaqueAuth, error) { return f(c) }

// Authorizer gives the calls of a client their credentials, for
// ClientConfig.Auth.
type Authorizer interface {
	// Authorize returns the credential and the verifier of a call.
	Authorize(ctx context.Context, prog, vers, proc uint32) (cred, verf OpaqueAuth, err error)
	// Check looks at the verifier of a reply; on an error it is no reply.
	Check(verf OpaqueAuth) error
}

// authenticate returns the verifier of the reply to c, or a *ReplyError.
func (s *Server) authenticate(c *Call) (verf OpaqueAuth, err error) {
	a, ok := s.cfg.Auth[c.Cred.Flavor]
	if !ok {
		if stat := authenticate(c); stat != AUTH_OK {
			return OpaqueAuth{}, AuthError(stat)
		}
		return OpaqueAuth{}, nil
	}
	if a == nil {
		return OpaqueAuth{}, AuthError(AUTH_REJECTEDCRED)
	}
	verf, err = a.Authenticate(c)
	if err == nil && len(verf.Body) > MAX_AUTH_BYTES {
		err = fmt.Errorf("verifier of %d bytes, at most %d", len(verf.Body), MAX_AUTH_BYTES)
	}
	if err == nil {
		return verf, nil
	}
	s.log.Debug("rpc: not authenticated", "err", err, "flavor", c.Cred.Flavor, "remote", c.Remote)
	if !errors.Is(err, ErrAuth) {
		err = AuthError(AUTH_FAILED)
	}
	return OpaqueAuth{}, err
}

// authenticate looks at the credential of c, of a flavour that is built in,
// decodes one of AUTH_SYS, and returns AUTH_OK or why it is refused. The statuses
// are libtirpc's.
func authenticate(c *Call) AuthStat {
	switch c.Cred.Flavor {
	case AUTH_NONE:
		return AUTH_OK
	case AUTH_SYS:
		p := new(AuthsysParms)
		d := xdr.NewDecoder(c.Cred.Body)
		d.Lax = true
		if p.DecodeXDR(d) != nil {
			return AUTH_BADCRED
		}
		c.Sys = p
		return AUTH_OK
	case AUTH_DH:
		return AUTH_FAILED
	case RPCSEC_GSS:
		return AUTH_BADCRED
	}
	return AUTH_REJECTEDCRED // AUTH_SHORT, which no verifier of ours offered, and what nobody knows
}
