package rpcgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file; both count from 1, columns in bytes.
type Pos struct{ Line, Col int }

// Error is one fault of an .x file.
type Error struct {
	File string
	Pos
	Msg string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg) }

// maxErrors bounds what is reported of one file.
const maxErrors = 50

// ErrorList is all faults of an .x file, in their order.
type ErrorList []*Error

func (l ErrorList) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (l *ErrorList) add(file string, pos Pos, format string, args ...any) {
	if len(*l) < maxErrors {
		*l = append(*l, &Error{File: file, Pos: pos, Msg: fmt.Sprintf(format, args...)})
	}
}

// err returns the list as an error, sorted, or nil where it is empty.
func (l ErrorList) err() error {
	if len(l) == 0 {
		return nil
	}
	slices.SortStableFunc(l, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return l
}
