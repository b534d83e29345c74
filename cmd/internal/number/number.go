// Package number is the one reader of the numbers that people type, on command
// lines and in files: decimal digits, whatever zeros stand before them, and
// nothing else. 010 is ten; 0x10, +5 and 1_000 are errors. A word of 64 bits, of
// which people think in hex, may be written 0x... as well.
package number

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/spf13/pflag"
)

// ErrSpan: a text is no span of numbers.
var ErrSpan = errors.New("it ends before it begins")

// Parse reads a number from 0 to 2^bits-1.
func Parse(s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", clip(s), uint64(math.MaxUint64)>>(64-bits))
	}
	return n, nil
}

// ParseSigned reads a number of so many bits that a minus may stand before.
func ParseSigned(s string, bits int) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil || strings.HasPrefix(s, "+") {
		most := int64(math.MaxInt64) >> (64 - bits)
		return 0, fmt.Errorf("%q is not a number from %d to %d", clip(s), -most-1, most)
	}
	return n, nil
}

// Word reads 64 bits, decimal or as 0x and hex digits.
func Word(s string) (uint64, error) {
	digits, base := s, 10
	if len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		digits, base = s[2:], 16
	}
	w, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a 64-bit number, decimal or 0x", clip(s))
	}
	return w, nil
}

// Span reads "5" or "5-9", both ends inclusive.
func Span(s string, bits int) (first, last uint64, err error) {
	lo, hi, isSpan := strings.Cut(s, "-")
	if first, err = Parse(strings.TrimSpace(lo), bits); err != nil {
		return 0, 0, err
	}
	if !isSpan {
		return first, first, nil
	}
	if last, err = Parse(strings.TrimSpace(hi), bits); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("%q: %w", clip(s), ErrSpan)
	}
	return first, last, nil
}

// clip keeps what an error quotes short.
func clip(s string) string {
	const shown = 40
	if len(s) <= shown {
		return s
	}
	return strings.ToValidUTF8(s[:shown], "") + "..."
}

// integer is what a flag of a number may be.
type integer interface {
	int | int32 | uint16 | uint64
}

// Var defines a flag of a number, as pflag's UintVar and its kin do, which read
// 010 as eight.
func Var[T integer](flags *pflag.FlagSet, p *T, name string, value T, usage string) {
	*p = value
	flags.Var(&flag[T]{p}, name, usage)
}

type flag[T integer] struct{ p *T }

func (f *flag[T]) String() string {
	if f.p == nil { // pflag asks a zero one
		return "0"
	}
	return fmt.Sprint(*f.p)
}

func (f *flag[T]) Type() string { return "number" }

func (f *flag[T]) Set(s string) error {
	bits := int(unsafe.Sizeof(*f.p)) * 8
	if ^T(0) < 0 {
		n, err := ParseSigned(s, bits)
		if err == nil {
			*f.p = T(n)
		}
		return err
	}
	n, err := Parse(s, bits)
	if err == nil {
		*f.p = T(n)
	}
	return err
}

// FractionVar defines a flag of a number with a point, such as 0.5: without nan,
// inf, exponents and hex, which Float64Var reads.
func FractionVar(flags *pflag.FlagSet, p *float64, name string, value float64, usage string) {
	*p = value
	flags.Var((*fraction)(p), name, usage)
}

type fraction float64

func (f *fraction) String() string { return strconv.FormatFloat(float64(*f), 'f', -1, 64) }

func (f *fraction) Type() string { return "number" }

func (f *fraction) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(strings.TrimPrefix(s, "-"), "0123456789.") != "" {
		return fmt.Errorf("%q is not a number like 5 or 0.5", clip(s))
	}
	*f = fraction(n)
	return nil
}
