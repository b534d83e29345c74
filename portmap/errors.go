package portmap

import (
	"errors"
	"fmt"
)

var (
	// ErrUaddr: a text is no universal address.
	ErrUaddr = errors.New("portmap: not a universal address")
	// ErrNotRegistered: the portmapper knows no such program. A NotRegisteredError says which.
	ErrNotRegistered = errors.New("portmap: program not registered")
	// ErrRefused: the portmapper answered FALSE to a SET or UNSET.
	ErrRefused = errors.New("portmap: refused")
	// ErrNoPortmapper: nothing that speaks the portmapper's protocol answered.
	ErrNoPortmapper = errors.New("portmap: no portmapper answers")
	// ErrInUse: another portmapper serves the address or the socket already.
	ErrInUse = errors.New("portmap: already served")
)

// NotRegisteredError is a look-up of a program that a portmapper does not know.
type NotRegisteredError struct {
	Prog, Vers uint32
	Addr       string // of the portmapper that was asked
}

// Error names the program, its version and the portmapper.
func (e *NotRegisteredError) Error() string {
	return fmt.Sprintf("portmap: program %#x version %d is not registered with the portmapper at %s; is the server running?",
		e.Prog, e.Vers, e.Addr)
}

// Is makes the error an ErrNotRegistered.
func (e *NotRegisteredError) Is(target error) bool { return target == ErrNotRegistered }
