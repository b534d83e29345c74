package rpcgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file; lines and columns count from 1, columns in bytes.
type Pos struct {
	File      string
	Line, Col int
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Error is one fault of an .x file.
type Error struct {
	Pos
	Msg  string
	Text string // the line
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

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

// ErrorList is all faults of an .x file and of those it includes or imports, in
// their order.
type ErrorList []*Error

func (l ErrorList) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// faults collects the errors of a compilation.
type faults struct {
	list  ErrorList
	files []string // in the order they were read
	texts map[string]string
}

// source says what stands in a file.
func (f *faults) source(file, text string) {
	if f.texts == nil {
		f.texts = map[string]string{}
	}
	if _, known := f.texts[file]; !known {
		f.files = append(f.files, file)
		f.texts[file] = text
	}
}

// add notes a fault; a place has one at most.
func (f *faults) add(pos Pos, format string, args ...any) {
	if len(f.list) >= maxErrors {
		return
	}
	for _, e := range f.list {
		if e.Pos == pos {
			return
		}
	}
	f.list = append(f.list, &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

// err returns the list as an error, sorted and with the lines it speaks of, or
// nil where it is empty.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	lines := map[string][]string{}
	for file, text := range f.texts {
		lines[file] = strings.Split(text, "\n")
	}
	for _, e := range f.list {
		if of := lines[e.File]; e.Line <= len(of) {
			e.Text = strings.TrimSuffix(of[e.Line-1], "\r")
		}
	}
	slices.SortStableFunc(f.list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(slices.Index(f.files, a.File), slices.Index(f.files, b.File)),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return f.list
}
