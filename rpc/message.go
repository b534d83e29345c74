package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"starfish/xdr"
)

// The headers of calls and replies, RFC 5531 section 9. rpc_msg.x has them as
// one type. Two are not read and written as that: a call's, because a server must
// know its xid before it can refuse the rest, and that of a result, because it
// goes in front of what the handler has already appended.
const (
	minCallLen   = 40 // a call with empty credential and verifier, and without arguments
	acceptedLen  = 24 // a reply up to the result, its verifier empty
	verfAt       = 12 // where in an accepted reply its verifier is
	replyReserve = markLen + acceptedLen
)

// errNotCall is the error for bytes that cannot be answered: no call, or less
// than a call's header.
var errNotCall = errors.New("not a call")

// readCall reads the header of a call into c. The error is errNotCall, or a
// *ReplyError to answer with.
func readCall(d *xdr.Decoder, c *Call) error {
	c.XID = d.Uint32()
	mtype, version := MsgType(d.Uint32()), d.Uint32()
	if d.Err() != nil || mtype != CALL {
		return errNotCall
	}
	if version != RPC_MSG_VERSION {
		return ErrRPCMismatch
	}
	c.Prog, c.Vers, c.Proc = d.Uint32(), d.Uint32(), d.Uint32()
	var err error
	if c.Cred, err = readAuth(d, AUTH_BADCRED); err != nil {
		return err
	}
	c.Verf, err = readAuth(d, AUTH_BADVERF)
	return err
}

// readAuth reads a credential or verifier; one that is too long is denied.
func readAuth(d *xdr.Decoder, tooLong AuthStat) (a OpaqueAuth, err error) {
	d.Lax = true // what is in the padding is nobody's business
	a.Flavor = AuthFlavor(d.Uint32())
	a.Body = d.Opaque(MAX_AUTH_BYTES)
	d.Lax = false
	switch {
	case d.Err() == nil:
		return a, nil
	case errors.Is(d.Err(), xdr.ErrTooLong):
		return a, AuthError(tooLong)
	}
	return a, errNotCall
}

// appendCall appends the header of a call.
func appendCall(b []byte, xid, prog, vers, proc uint32, cred, verf OpaqueAuth) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, uint32(CALL))
	b = xdr.AppendUint32(b, RPC_MSG_VERSION)
	b = xdr.AppendUint32(b, prog)
	b = xdr.AppendUint32(b, vers)
	b = xdr.AppendUint32(b, proc)
	return appendAuth(appendAuth(b, cred), verf)
}

// appendAuth appends a credential or verifier, which may be of a flavour that
// rpc_msg.x does not have.
func appendAuth(b []byte, a OpaqueAuth) []byte {
	b = xdr.AppendUint32(b, uint32(a.Flavor))
	b = xdr.AppendUint32(b, uint32(len(a.Body)))
	return xdr.AppendFixedOpaque(b, a.Body)
}

// acceptedSize is the length of a reply up to the result.
func acceptedSize(verf OpaqueAuth) int { return acceptedLen + (len(verf.Body)+3)&^3 }

// putAccepted writes the header of a reply with a result into the first
// acceptedSize bytes of b.
func putAccepted(b []byte, xid uint32, verf OpaqueAuth) {
	clear(b[:acceptedSize(verf)]) // MSG_ACCEPTED, AUTH_NONE without a body, SUCCESS
	binary.BigEndian.PutUint32(b, xid)
	binary.BigEndian.PutUint32(b[4:], uint32(REPLY))
	appendAuth(b[:verfAt], verf)
}

// appendRefusal appends a reply without a result. One to a call that was denied
// has no verifier.
func appendRefusal(b []byte, xid uint32, verf OpaqueAuth, re *ReplyError) []byte {
	versions := MismatchInfo{Low: re.Low, High: re.High}
	m := RpcMsg{Xid: xid, Body: RpcMsgBody{Mtype: REPLY, Rbody: ReplyBody{
		Stat:   re.Stat,
		Areply: AcceptedReply{ReplyData: AcceptedReplyData{Stat: re.AcceptStat, Mismatch: versions}},
		Rreply: RejectedReply{Stat: re.RejectStat, Mismatch: versions, Why: re.AuthStat},
	}}}
	out, err := m.AppendXDR(b)
	if err != nil { // a status that does not exist
		return appendRefusal(b, xid, verf, &ReplyError{AcceptStat: SYSTEM_ERR})
	}
	if re.Stat == MSG_ACCEPTED && (verf.Flavor != AUTH_NONE || len(verf.Body) > 0) {
		at := len(b) + verfAt
		out = slices.Replace(out, at, at+8, appendAuth(nil, verf)...)
	}
	return out
}

// replyXID returns the xid of a reply; false where b is none.
func replyXID(b []byte) (uint32, bool) {
	if len(b) < 8 || binary.BigEndian.Uint32(b[4:]) != uint32(REPLY) {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// readReply reads a reply up to its result, which is what is left in d, and has
// check look at its verifier, unless that is nil. The error is a *ReplyError where
// there is no result, else wraps ErrBadReply.
func readReply(d *xdr.Decoder, check func(OpaqueAuth) error) error {
	var m RpcMsg
	d.Lax = true // a status or a flavour may be one that we do not know
	err := m.DecodeXDR(d)
	d.Lax = false
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	r := &m.Body.Rbody
	if r.Stat == MSG_ACCEPTED {
		if check != nil {
			if err := check(r.Areply.Verf); err != nil {
				return fmt.Errorf("%w: %w", AuthError(AUTH_INVALIDRESP), err)
			}
		}
		if r.Areply.ReplyData.Stat == SUCCESS {
			return nil
		}
		a := &r.Areply.ReplyData
		return &ReplyError{AcceptStat: a.Stat, Low: a.Mismatch.Low, High: a.Mismatch.High, remote: true}
	}
	j := &r.Rreply
	return &ReplyError{
		Stat: r.Stat, RejectStat: j.Stat, AuthStat: j.Why,
		Low: j.Mismatch.Low, High: j.Mismatch.High, remote: true,
	}
}
