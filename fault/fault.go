// Package fault is what can go wrong with a query or a write: one error type and
// its kinds, shared by client, slave, master and router. What travels is made of
// it, and read back, in package fault/wire alone.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind says in one word what went wrong. It is a sentinel: errors.Is(err,
// fault.ErrUnavailable) is true of every *Error of that kind. The numbers are
// those of query_status in structs.x.
type Kind uint32

// The kinds of a fault.
const (
	ErrSyntax       Kind = 1 // the text of a query does not parse
	ErrNoSuchVector Kind = 2 // the vector of a point query, or of a delete, is not known
	ErrUnavailable  Kind = 3 // a known vector has no holder that could be asked; some machines may be to blame
	ErrDeadline     Kind = 4 // the time was up and nobody is to blame
	ErrTooLarge     Kind = 5 // the answer, or the question, does not fit what carries it
	ErrFailed       Kind = 6 // anything else
	ErrNotHeld      Kind = 7 // a machine was asked for vectors that it does not hold
	ErrDenied       Kind = 8 // the caller may not do that
)

var texts = map[Kind]string{
	ErrSyntax:       "syntax error",
	ErrNoSuchVector: "no such vector",
	ErrUnavailable:  "unavailable",
	ErrDeadline:     "deadline exceeded",
	ErrTooLarge:     "too large",
	ErrFailed:       "failed",
	ErrNotHeld:      "not held",
	ErrDenied:       "denied",
}

// Error is the kind in words.
func (k Kind) Error() string {
	if s, ok := texts[k]; ok {
		return s
	}
	return fmt.Sprintf("fault %d", uint32(k))
}

// Error is one fault. Message is a whole sentence for people: what was wrong,
// where, and what to do next.
type Error struct {
	Kind     Kind
	Message  string
	Position int      // 1-based byte of a syntax error, else 0
	IDs      []uint64 // vectors concerned; the first of them where there are many
	Total    uint64   // how many vectors are concerned; at least len(IDs)
	Machines []string // that failed, as they were named to us; the first one first
	Err      error    // what it came from, for the log; never shown to the caller
}

// New makes a fault of a kind. An argument that is an error is not wrapped: see
// Because.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// About names the vectors that the fault concerns: ids, the first of total.
func (e *Error) About(total uint64, ids ...uint64) *Error {
	e.IDs, e.Total = ids, max(total, uint64(len(ids)))
	return e
}

// On adds machines that failed, each once.
func (e *Error) On(machines ...string) *Error {
	for _, m := range machines {
		if !slices.Contains(e.Machines, m) {
			e.Machines = append(e.Machines, m)
		}
	}
	return e
}

// Because notes the error that the fault came from.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Error is the message, or the kind where there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Kind.Error()
	}
	return e.Message
}

// Is compares with a Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap returns what the fault came from.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the fault in err's chain, nil where there is none.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// Clip shortens text to at most n bytes of valid UTF-8 and marks the cut.
func Clip(text string, n int) string {
	const mark = "..."
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:max(n-len(mark), 0)], "") + mark[:min(n, len(mark))]
}
