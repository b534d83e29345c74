package client

import (
	"errors"
	"fmt"

	"starfish/structs"
)

// What a master can refuse a call with; an *Error is one of them.
var (
	ErrSyntax       = errors.New("client: the query does not parse")
	ErrNoSuchVector = errors.New("client: no such vector")
	ErrUnavailable  = errors.New("client: a vector has no live holder")
	ErrDeadline     = errors.New("client: the deadline has passed")
	ErrTooLarge     = errors.New("client: the answer is too large")
	ErrFailed       = errors.New("client: failed")
	ErrNotHeld      = errors.New("client: the slave does not hold the vector")
	ErrDenied       = errors.New("client: denied")
)

var sentinels = map[structs.QueryStatus]error{
	structs.QUERY_SYNTAX:         ErrSyntax,
	structs.QUERY_NO_SUCH_VECTOR: ErrNoSuchVector,
	structs.QUERY_UNAVAILABLE:    ErrUnavailable,
	structs.QUERY_DEADLINE:       ErrDeadline,
	structs.QUERY_TOO_LARGE:      ErrTooLarge,
	structs.QUERY_FAILED:         ErrFailed,
	structs.QUERY_NOT_HELD:       ErrNotHeld,
	structs.QUERY_DENIED:         ErrDenied,
}

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

// Is compares with the sentinels of this package.
func (e *Error) Is(target error) bool {
	return sentinels[e.Status] == target
}

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
