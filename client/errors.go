package client

import (
	"errors"
	"fmt"

	"starfish/fault"
	"starfish/fault/wire"
	"starfish/structs"
)

// What a master can refuse a call with, the kinds of package fault: an *Error is
// one of them.
const (
	ErrSyntax       = fault.ErrSyntax
	ErrNoSuchVector = fault.ErrNoSuchVector
	ErrUnavailable  = fault.ErrUnavailable
	ErrDeadline     = fault.ErrDeadline
	ErrTooLarge     = fault.ErrTooLarge
	ErrFailed       = fault.ErrFailed
	ErrNotHeld      = fault.ErrNotHeld
	ErrDenied       = fault.ErrDenied
)

// Error is a call that the master answered with a status other than QUERY_OK.
type Error struct {
	Status structs.QueryStatus
	// Failure says what failed: a message for people, the ids and the machines
	// concerned, and the byte of a syntax error.
	Failure structs.QueryFailure
}

func refused(st structs.QueryStatus, f structs.QueryFailure) error {
	return &Error{Status: st, Failure: f}
}

func (e *Error) Error() string {
	if e.Failure.Message == "" {
		return "client: the master answers " + e.Status.String()
	}
	return "client: " + e.Failure.Message
}

// Unwrap is the refusal as a *fault.Error, which errors.Is compares with the
// sentinels of this package.
func (e *Error) Unwrap() error { return wire.Decode(e.Status, e.Failure) }

// CallError is a call that brought no answer: the connection ended, ctx did, or
// the master's RPC layer refused it. A change may or may not have happened.
type CallError struct {
	Call string // such as "put 7"
	Err  error
}

func (e *CallError) Error() string { return "client: " + e.Call + ": " + e.Err.Error() }

// Unwrap returns what package rpc said.
func (e *CallError) Unwrap() error { return e.Err }

// UnreachableError is a master that could not be connected to.
type UnreachableError struct {
	Host string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("client: no master at %s: %v", e.Host, e.Err)
}

// errHostPort: Dial takes no port.
var errHostPort = errors.New("the host has a port: leave it away, the portmapper there knows it")

// Unwrap returns what portmap.Dial said.
func (e *UnreachableError) Unwrap() error { return e.Err }
