package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"starfish/xdr"
)

// The headers of calls and replies, RFC 5531 section 9. rpc_msg.x has them as
// one type. Two are not read and written as that: a call's, because a server must
// know its xid before it can refuse the rest, and that of a result, because it
// goes in front of what the handler has already appended.
const (
	minCallLen   = 40 // a call with empty credential and verifier, and without arguments
	acceptedLen  = 24 // a reply up to the result, its verifier empty
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
	_, err = readAuth(d, AUTH_BADVERF)
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
func appendCall(b []byte, xid, prog, vers, proc uint32, cred OpaqueAuth) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, uint32(CALL))
	b = xdr.AppendUint32(b, RPC_MSG_VERSION)
	b = xdr.AppendUint32(b, prog)
	b = xdr.AppendUint32(b, vers)
	b = xdr.AppendUint32(b, proc)
	b = xdr.AppendUint32(b, uint32(cred.Flavor))
	b = xdr.AppendUint32(b, uint32(len(cred.Body)))
	b = xdr.AppendFixedOpaque(b, cred.Body)
	b = xdr.AppendUint32(b, uint32(AUTH_NONE))
	return xdr.AppendUint32(b, 0)
}

// putAccepted writes the header of a reply with a result into the first
// acceptedLen bytes of b.
func putAccepted(b []byte, xid uint32) {
	clear(b[:acceptedLen]) // MSG_ACCEPTED, AUTH_NONE without a body, SUCCESS
	binary.BigEndian.PutUint32(b, xid)
	binary.BigEndian.PutUint32(b[4:], uint32(REPLY))
}

// appendRefusal appends a reply without a result.
func appendRefusal(b []byte, xid uint32, re *ReplyError) []byte {
	versions := MismatchInfo{Low: re.Low, High: re.High}
	m := RpcMsg{Xid: xid, Body: RpcMsgBody{Mtype: REPLY, Rbody: ReplyBody{
		Stat:   re.Stat,
		Areply: AcceptedReply{ReplyData: AcceptedReplyData{Stat: re.AcceptStat, Mismatch: versions}},
		Rreply: RejectedReply{Stat: re.RejectStat, Mismatch: versions, Why: re.AuthStat},
	}}}
	out, err := m.AppendXDR(b)
	if err != nil { // a status that does not exist
		return appendRefusal(b, xid, &ReplyError{AcceptStat: SYSTEM_ERR})
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

// readReply reads a reply up to its result, which is what is left in d. The
// error is a *ReplyError where there is no result, else wraps ErrBadReply.
func readReply(d *xdr.Decoder) error {
	var m RpcMsg
	d.Lax = true // a status or a flavour may be one that we do not know
	err := m.DecodeXDR(d)
	d.Lax = false
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	r := &m.Body.Rbody
	if r.Stat == MSG_ACCEPTED {
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
