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
	Msg  string
	Text string // the line
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg) }

// Excerpt returns the line with a caret under the place, as two lines; "" where
// the line is empty.
func (e *Error) Excerpt() string {
	if strings.TrimSpace(e.Text) == "" {
		return ""
	}
	var pad strings.Builder
	for i := range min(e.Col-1, len(e.Text)) {
		switch c := e.Text[i]; {
		case c == '\t':
			pad.WriteByte('\t')
		case c&0xc0 != 0x80: // a UTF-8 sequence takes one column
			pad.WriteByte(' ')
		}
	}
	return e.Text + "\n" + pad.String() + "^\n"
}

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

// err returns the list as an error, sorted and with the lines of src, or nil
// where it is empty.
func (l ErrorList) err(src string) error {
	if len(l) == 0 {
		return nil
	}
	lines := strings.Split(src, "\n")
	for _, e := range l {
		if e.Line <= len(lines) {
			e.Text = strings.TrimSuffix(lines[e.Line-1], "\r")
		}
	}
	slices.SortStableFunc(l, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return l
}
