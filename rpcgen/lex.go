package rpcgen

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind int

const (
	tokEOF tokenKind = iota
	tokIdent
	tokNumber
	tokPunct
)

// token is one word of an .x file, with the comments around it.
type token struct {
	kind tokenKind
	text string
	pos  Pos
	lead []comment // before it, on lines of their own or after a token of another line
	tail *comment  // after it on its line
}

func (t token) String() string {
	if t.kind == tokEOF {
		return "the end of the file"
	}
	return "'" + t.text + "'"
}

// comment is one C or C++ comment, its marks taken off.
type comment struct {
	lines []string
	first int // line numbers
	last  int
}

// lexer cuts the text of one file into tokens, running the cpp directives.
type lexer struct {
	file   string
	src    string
	off    int
	line   int
	bol    int  // offset of the line's start
	fresh  bool // nothing but white space and comments was on the line yet
	defs   map[string]string
	conds  []cond
	tokens []token
	lead   []comment
	errs   *ErrorList
}

// lex returns the tokens of src, the last of which is tokEOF.
func lex(file, src string, defines map[string]string, errs *ErrorList) []token {
	l := &lexer{file: file, src: src, line: 1, fresh: true, defs: map[string]string{}, errs: errs}
	for k, v := range defines {
		l.defs[k] = v
	}
	for l.next() {
	}
	for _, c := range l.conds {
		l.errorf(c.pos, "#%s without #endif", c.word)
	}
	l.emit(tokEOF, "", l.pos())
	return l.tokens
}

func (l *lexer) pos() Pos { return Pos{Line: l.line, Col: l.off - l.bol + 1} }

func (l *lexer) errorf(pos Pos, format string, args ...any) {
	l.errs.add(l.file, pos, format, args...)
}

func (l *lexer) emit(kind tokenKind, text string, pos Pos) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, pos: pos, lead: l.lead})
	l.lead = nil
}

// peek returns the byte n after the current one, 0 at the end.
func (l *lexer) peek(n int) byte {
	if l.off+n < len(l.src) {
		return l.src[l.off+n]
	}
	return 0
}

func (l *lexer) newline() {
	l.off++
	l.line++
	l.bol = l.off
	l.fresh = true
}

// restOfLine returns the text up to the end of the line and steps over it, but
// not over the newline.
func (l *lexer) restOfLine() string {
	end := strings.IndexByte(l.src[l.off:], '\n')
	if end < 0 {
		end = len(l.src) - l.off
	}
	s := l.src[l.off : l.off+end]
	l.off += end
	return strings.TrimSuffix(s, "\r")
}

func (l *lexer) skipping() bool { return len(l.conds) > 0 && !l.conds[len(l.conds)-1].active }

// next reads one token, comment, directive or run of white space; false at the end.
func (l *lexer) next() bool {
	if l.off >= len(l.src) {
		return false
	}
	c := l.src[l.off]
	switch {
	case c == '\n':
		l.newline()
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		l.off++
	case c == '\\' && (l.peek(1) == '\n' || l.peek(1) == '\r' && l.peek(2) == '\n'):
		l.off += strings.IndexByte(l.src[l.off:], '\n')
		l.newline()
		l.fresh = false
	case c == '/' && (l.peek(1) == '*' || l.peek(1) == '/'):
		l.comment()
	case c == '#' && l.fresh:
		l.directive()
	case l.skipping():
		l.off++
		l.fresh = false
	case c == '%' && l.fresh: // C text, which C rpcgen copies to its output
		l.restOfLine()
	default:
		l.fresh = false
		l.word(c)
	}
	return true
}

// word reads an identifier, number or punctuation mark.
func (l *lexer) word(c byte) {
	pos, start := l.pos(), l.off
	switch {
	case isLetter(c):
		for isLetter(l.peek(0)) || isDigit(l.peek(0)) {
			l.off++
		}
		l.ident(l.src[start:l.off], pos, 0)
	case isDigit(c) || c == '-' && isDigit(l.peek(1)):
		l.off++
		for isLetter(l.peek(0)) || isDigit(l.peek(0)) {
			l.off++
		}
		l.emit(tokNumber, l.src[start:l.off], pos)
	case strings.IndexByte("{}()[]<>*,;:=", c) >= 0:
		l.off++
		l.emit(tokPunct, string(c), pos)
	default:
		l.off++
		l.errorf(pos, "%s: no such character in the language", quoteByte(c))
	}
}

// ident emits an identifier, or what it is defined as.
func (l *lexer) ident(name string, pos Pos, depth int) {
	body, ok := l.defs[name]
	switch {
	case !ok || depth > 16: // a name defined by itself stays, as in C
		l.emit(tokIdent, name, pos)
	case body == "":
	case isName(body):
		l.ident(body, pos, depth+1)
	case parseNumber(body) != nil:
		l.emit(tokNumber, body, pos)
	default:
		l.errorf(pos, "%s is defined as %q: only a name or a number can stand here", name, body)
	}
}

// comment reads a comment and hands it to the token before it on its line, or
// to the next one.
func (l *lexer) comment() {
	pos := l.pos()
	var text string
	if l.peek(1) == '/' {
		l.off += 2
		text = l.restOfLine()
	} else {
		end := strings.Index(l.src[l.off+2:], "*/")
		if end < 0 {
			l.errorf(pos, "comment without an end")
			l.off = len(l.src)
			return
		}
		text = l.src[l.off+2 : l.off+2+end]
		l.off += end + 4
		if n := strings.Count(text, "\n"); n > 0 {
			l.line += n
			l.bol = l.off - 2 - (len(text) - 1 - strings.LastIndexByte(text, '\n'))
		}
	}
	if l.skipping() {
		return
	}
	c := comment{lines: stripStars(text), first: pos.Line, last: l.line}
	if len(c.lines) == 0 {
		return
	}
	if n := len(l.tokens); n > 0 && l.tokens[n-1].pos.Line == pos.Line {
		if prev := &l.tokens[n-1]; prev.tail == nil {
			prev.tail = &c
		} else {
			prev.tail.lines = append(prev.tail.lines, c.lines...)
		}
		return
	}
	l.lead = append(l.lead, c)
}

// stripStars takes the leading stars off a comment's lines.
func stripStars(text string) []string {
	var lines []string
	for i, s := range strings.Split(text, "\n") {
		s = strings.TrimRight(s, " \t\r")
		if t := strings.TrimLeft(s, " \t"); i == 0 {
			s = strings.TrimLeft(t, "*!")
		} else if strings.HasPrefix(t, "*") {
			s = strings.TrimLeft(t, "*")
		} else {
			s = t
		}
		lines = append(lines, clean(strings.TrimPrefix(s, " ")))
	}
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// clean makes a comment's line fit for a Go file: valid UTF-8 (else it is taken
// for Latin-1) without control characters.
func clean(s string) string {
	if !utf8.ValidString(s) {
		runes := make([]rune, len(s))
		for i := range len(s) {
			runes[i] = rune(s[i])
		}
		s = string(runes)
	}
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r == '\ufeff') {
			return ' '
		}
		return r
	}, s)
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// isName says whether s is an identifier.
func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

func quoteByte(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf("byte 0x%02x", c)
	}
	return fmt.Sprintf("'%c'", c)
}
