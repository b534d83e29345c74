package rpc

import (
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

// authenticate looks at the credential of c, decodes one of AUTH_SYS, and
// returns AUTH_OK or why it is refused. The statuses are libtirpc's.
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
