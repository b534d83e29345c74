package xdr

import (
	"errors"
	"fmt"
)

// What can be wrong with bytes that are read or a value that is written. All
// come wrapped, those of a Decoder in an *Error; errors.Is finds them.
var (
	// ErrShort: the input ends before the item does, or its length says more than there is.
	ErrShort = errors.New("not enough bytes")
	// ErrTooLong: a string, opaque, array or list is longer than its bound.
	ErrTooLong = errors.New("longer than its bound")
	// ErrPadding: a padding byte is not zero.
	ErrPadding = errors.New("padding is not zero")
	// ErrBool: a bool, or the flag of an optional item, is neither 0 nor 1.
	ErrBool = errors.New("neither 0 nor 1")
	// ErrRange: a char or short holds more than its 8 or 16 bits.
	ErrRange = errors.New("out of range")
	// ErrEnum: the enum has no such value.
	ErrEnum = errors.New("no such enum value")
	// ErrUnion: the union has no arm for its discriminant, and no default.
	ErrUnion = errors.New("no such union arm")
	// ErrDepth: values are nested deeper than MaxDepth.
	ErrDepth = errors.New("nested too deep")
	// ErrTrailing: bytes are left after the value.
	ErrTrailing = errors.New("bytes left after the value")
)

// Error is the first thing a Decoder could not read.
type Error struct {
	Offset int   // of the item, in bytes from the start of the input
	Err    error // wraps one of the sentinels above
}

func (e *Error) Error() string { return fmt.Sprintf("xdr: byte %d: %v", e.Offset, e.Err) }

// Unwrap returns what was wrong, without the place.
func (e *Error) Unwrap() error { return e.Err }

// EnumError is the error for a value that the enum does not have.
func EnumError(enum string, v int32) error { return fmt.Errorf("%s %d: %w", enum, v, ErrEnum) }

// UnionError is the error for a discriminant that the union does not have.
func UnionError(union string, v int64) error { return fmt.Errorf("%s %d: %w", union, v, ErrUnion) }

// LengthError is the error for n items or bytes where at most max may be.
func LengthError(what string, n int, max uint32) error {
	return fmt.Errorf("%s of length %d, at most %d: %w", what, n, max, ErrTooLong)
}

// FieldError says in which field of an .x file err happened.
func FieldError(field string, err error) error { return fmt.Errorf("%s: %w", field, err) }

// DepthError is the error for a value that is nested deeper than MaxDepth.
func DepthError() error { return fmt.Errorf("%d levels: %w", MaxDepth, ErrDepth) }
