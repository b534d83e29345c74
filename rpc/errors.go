package rpc

import (
	"errors"
	"fmt"
)

// What a handler returns, and what errors.Is finds in the error of a refused
// call. The server answers any other error of a handler as ErrSystem, and logs
// it: the caller learns no more.
var (
	// ErrProgUnavail: the server does not have the program.
	ErrProgUnavail error = &ReplyError{AcceptStat: PROG_UNAVAIL}
	// ErrProgMismatch: the server has other versions of the program.
	ErrProgMismatch error = &ReplyError{AcceptStat: PROG_MISMATCH}
	// ErrProcUnavail: the program has no such procedure.
	ErrProcUnavail error = &ReplyError{AcceptStat: PROC_UNAVAIL}
	// ErrGarbageArgs: the arguments cannot be decoded.
	ErrGarbageArgs error = &ReplyError{AcceptStat: GARBAGE_ARGS}
	// ErrSystem: the server failed; its log says why.
	ErrSystem error = &ReplyError{AcceptStat: SYSTEM_ERR}
	// ErrNoReply: the call gets no reply, as some protocols have it for calls that
	// were sent to everybody. Its caller waits until its time is over.
	ErrNoReply = errors.New("no reply is to be sent")
	// ErrRPCMismatch: the server speaks another version of the RPC protocol.
	ErrRPCMismatch error = &ReplyError{Stat: MSG_DENIED, RejectStat: RPC_MISMATCH, Low: RPC_MSG_VERSION, High: RPC_MSG_VERSION}
	// ErrAuth: the credential was refused, for whatever reason.
	ErrAuth error = &ReplyError{Stat: MSG_DENIED, RejectStat: AUTH_ERROR}
)

// What goes wrong without a reply.
var (
	// ErrClosed: the connection ended; dial again.
	ErrClosed = errors.New("connection closed")
	// ErrNotSent: the server cannot have run the call, so that sending it again is safe.
	ErrNotSent = errors.New("call not sent")
	// ErrBadReply: the reply, or the result in it, cannot be decoded.
	ErrBadReply = errors.New("reply cannot be decoded")
	// ErrTooLong: a record is longer than the bound.
	ErrTooLong = errors.New("record too long")
	// ErrRecord: the record marks make no record.
	ErrRecord = errors.New("malformed record")
	// ErrTLS: TLS was asked for and there is none.
	ErrTLS = errors.New("no TLS")
	// ErrCredential: a credential cannot be encoded.
	ErrCredential = errors.New("bad credential")
)

// ReplyError is a reply without a result (RFC 5531 section 9): what the client
// returns for one, and what the server makes one of. Two of them are the same to
// errors.Is if their status is; Low and High do not count.
type ReplyError struct {
	Stat       ReplyStat  // MSG_ACCEPTED or MSG_DENIED
	AcceptStat AcceptStat // where accepted
	RejectStat RejectStat // where denied
	AuthStat   AuthStat   // where denied with AUTH_ERROR
	Low, High  uint32     // versions that there are: of the program for PROG_MISMATCH, of RPC for RPC_MISMATCH

	remote bool // came in a reply: a handler that hands it on has failed itself
}

// AuthError is what a handler returns to deny a call because of who makes it.
func AuthError(stat AuthStat) error {
	return &ReplyError{Stat: MSG_DENIED, RejectStat: AUTH_ERROR, AuthStat: stat}
}

func (e *ReplyError) Error() string {
	switch {
	case e.Stat == MSG_ACCEPTED && e.AcceptStat == PROG_MISMATCH:
		return fmt.Sprintf("PROG_MISMATCH: the server has versions %d to %d", e.Low, e.High)
	case e.Stat == MSG_ACCEPTED:
		return e.AcceptStat.String()
	case e.RejectStat == RPC_MISMATCH:
		return fmt.Sprintf("RPC_MISMATCH: the server speaks RPC versions %d to %d", e.Low, e.High)
	case e.AuthStat == AUTH_OK:
		return "AUTH_ERROR"
	}
	return fmt.Sprintf("AUTH_ERROR: %v", e.AuthStat)
}

// Is reports whether target is a ReplyError of the same status.
func (e *ReplyError) Is(target error) bool {
	t, ok := target.(*ReplyError)
	if !ok || t.Stat != e.Stat {
		return false
	}
	if e.Stat == MSG_ACCEPTED {
		return t.AcceptStat == e.AcceptStat
	}
	if t.RejectStat != e.RejectStat {
		return false
	}
	return e.RejectStat != AUTH_ERROR || t.AuthStat == AUTH_OK || t.AuthStat == e.AuthStat
}

// refusalFor is the reply to a call whose handler returned err.
func refusalFor(err error) *ReplyError {
	var re *ReplyError
	if !errors.As(err, &re) || re.remote || re.Stat == MSG_ACCEPTED && re.AcceptStat == SUCCESS {
		return &ReplyError{AcceptStat: SYSTEM_ERR}
	}
	return re
}
