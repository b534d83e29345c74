package query

import (
	"fmt"
	"strconv"
)

type kind uint8

const (
	end    kind = iota
	mark        // one of & - , [ ] { } * =
	number      // digits
	word        // a bare word of a name
	quoted      // a double-quoted string
	bad         // anything else
)

// token is a piece of the text.
type token struct {
	kind kind
	text string
	pos  int // of its first byte, from 1
}

// is says that the token is that mark.
func (t token) is(m byte) bool { return t.kind == mark && t.text[0] == m }

// found is the token as an error message shows it.
func (t token) found() string {
	if t.kind == end {
		return "the end"
	}
	text := t.text
	if len(text) > 24 {
		text = text[:24] + "..."
	}
	return strconv.Quote(text)
}

// lexer takes the text apart, with one token to look at.
type lexer struct {
	text string
	off  int
	tok  token
}

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func digit(c byte) bool { return c >= '0' && c <= '9' }

// letter says that c can stand in a bare word; bytes of UTF-8 sequences can.
func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

// next moves to the next token.
func (l *lexer) next() {
	for l.off < len(l.text) && space(l.text[l.off]) {
		l.off++
	}
	start := l.off
	if start == len(l.text) {
		l.tok = token{kind: end, pos: start + 1}
		return
	}
	k := bad
	switch c := l.text[start]; {
	case digit(c):
		k = number
		l.skip(digit)
	case letter(c):
		k = word
		l.skip(func(c byte) bool { return letter(c) || digit(c) || c == '.' })
	case c == '"':
		k = l.quote()
	default:
		l.off++
		switch c {
		case '&', '-', ',', '[', ']', '{', '}', '*', '=':
			k = mark
		}
	}
	l.tok = token{kind: k, text: l.text[start:l.off], pos: start + 1}
}

// skip moves over the bytes that ok is true for.
func (l *lexer) skip(ok func(byte) bool) {
	for l.off < len(l.text) && ok(l.text[l.off]) {
		l.off++
	}
}

// quote moves over a quoted string, in which \" and \\ stand for " and \.
func (l *lexer) quote() kind {
	for l.off++; l.off < len(l.text); l.off++ {
		switch l.text[l.off] {
		case '\\':
			l.off++
		case '"':
			l.off++
			return quoted
		}
	}
	l.off = len(l.text)
	return bad
}

// expected is the error that something else should stand here.
func (l *lexer) expected(format string, args ...any) error {
	return &SyntaxError{Pos: l.tok.pos, Expected: fmt.Sprintf(format, args...), Found: l.tok.found()}
}
