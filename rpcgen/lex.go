package rpcgen

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind int

const (
	tokEOF tokenKind = iota
	tokIdent
	tokNumber
	tokString // text is what stands between the quotes, escapes as written
	tokPunct
)

// token is one word of an .x file, with the comments around it.
type token struct {
	kind tokenKind
	text string
	pos  Pos
	in   modes     // the runs of C rpcgen that see it
	lead []comment // before it, on lines of their own or after a token of another line
	tail *comment  // after it on its line
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokString:
		return `"` + t.text + `"`
	}
	return "'" + t.text + "'"
}

// comment is one C or C++ comment, its marks taken off.
type comment struct {
	lines []string
	first Pos
	last  int // line number
}

// lexer cuts the text of one file into tokens, running the cpp directives. All
// files of a unit put their tokens into one row.
type lexer struct {
	*preprocessor
	file  string
	src   string
	off   int
	line  int
	bol   int   // offset of the line's start
	fresh bool  // nothing but white space and comments was on the line yet
	outer modes // that see the file
	conds []cond
	// Of the body of a macro: its name, and where it is replaced.
	macro string
	at    *Pos
}

// run reads the whole file.
func (l *lexer) run() {
	for l.next() {
	}
	for _, c := range l.conds {
		l.errorf(c.pos, "#%s without #endif", c.word)
	}
}

func (l *lexer) pos() Pos {
	if l.at != nil {
		return *l.at
	}
	return Pos{File: l.file, Line: l.line, Col: l.off - l.bol + 1}
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

// spliced steps over a backslash at the end of a line, and the newline.
func (l *lexer) spliced() bool {
	if l.peek(0) != '\\' || l.peek(1) != '\n' && (l.peek(1) != '\r' || l.peek(2) != '\n') {
		return false
	}
	fresh := l.fresh
	l.off += strings.IndexByte(l.src[l.off:], '\n')
	l.newline()
	l.fresh = fresh
	return true
}

// restOfLine returns the text up to the end of the line and steps over it, but
// not over the newline. A line that ends in a backslash goes on in the next.
func (l *lexer) restOfLine() string {
	var text strings.Builder
	for l.off < len(l.src) && l.src[l.off] != '\n' {
		if !l.spliced() {
			text.WriteByte(l.src[l.off])
			l.off++
		}
	}
	return strings.TrimSuffix(text.String(), "\r")
}

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
	case l.spliced():
	case c == '/' && (l.peek(1) == '*' || l.peek(1) == '/'):
		l.comment()
	case c == '#' && l.fresh:
		l.directive()
	case l.active() == 0:
		l.off++
		l.fresh = false
	case c == '%' && l.fresh:
		l.forC()
	default:
		l.fresh = false
		l.word(c)
	}
	return true
}

// word reads an identifier, number, string or punctuation mark.
func (l *lexer) word(c byte) {
	pos, start := l.pos(), l.off
	switch {
	case isLetter(c):
		name := l.name()
		l.ident(name, pos)
	case isDigit(c) || c == '-' && isDigit(l.peek(1)):
		l.off++
		l.off += nameLen(l.src[l.off:])
		l.emit(tokNumber, l.src[start:l.off], pos, l.active())
	case c == '"' || c == '\'':
		l.quoted(c, pos)
	case strings.IndexByte("{}()[]<>*,;:=", c) >= 0:
		l.off++
		l.emit(tokPunct, string(c), pos, l.active())
	default:
		l.off++
		if l.macro != "" {
			l.errorf(pos, "%s is defined as %q: C rpcgen has no expressions, so %s cannot stand here", l.macro, l.src, quoteByte(c))
			l.off = len(l.src)
			return
		}
		l.errorf(pos, "%s: no such character in the language", quoteByte(c))
	}
}

// name steps over an identifier.
func (l *lexer) name() string {
	start := l.off
	l.off += nameLen(l.src[start:])
	return l.src[start:l.off]
}

// quoted reads a string, or a character, which is its number.
func (l *lexer) quoted(quote byte, pos Pos) {
	start := l.off
	end := endOfQuoted(l.src, start)
	if end < 0 {
		what := map[byte]string{'"': "string", '\'': "character"}[quote]
		l.errorf(pos, "%s without an end", what)
		l.restOfLine()
		return
	}
	l.off = end
	text := l.src[start:end]
	if quote == '"' {
		l.emit(tokString, text[1:len(text)-1], pos, l.active())
		return
	}
	n, ok := charNumber(text)
	if !ok {
		l.errorf(pos, "%s is not a character", text)
	}
	l.emit(tokNumber, strconv.Itoa(n), pos, l.active())
}

// endOfQuoted returns the offset after the string or character that begins at
// start; -1 where its line ends before it does.
func endOfQuoted(src string, start int) int {
	for i := start + 1; i < len(src) && src[i] != '\n'; i++ {
		switch src[i] {
		case '\\':
			i++
		case src[start]:
			return i + 1
		}
	}
	return -1
}

// charNumber returns the number of a character constant of C.
func charNumber(text string) (int, bool) {
	if text == `'\0'` {
		return 0, true
	}
	s, err := strconv.Unquote(text)
	if err != nil || len(s) != 1 {
		return 0, false
	}
	return int(int8(s[0])), true // a char of C has a sign
}

// comment reads a comment and hands it to the token before it on its line, or
// to the next one.
func (l *lexer) comment() {
	pos := l.pos()
	text, ok := l.commentText()
	if !ok || l.active() == 0 {
		return
	}
	c := comment{lines: stripStars(text), first: pos, last: l.line}
	if len(c.lines) == 0 {
		return
	}
	if n := len(l.tokens); n > 0 && sameLine(l.tokens[n-1].pos, pos) {
		if prev := &l.tokens[n-1]; prev.tail == nil {
			prev.tail = &c
		} else {
			prev.tail.lines = append(prev.tail.lines, c.lines...)
		}
		return
	}
	l.lead = append(l.lead, c)
}

func sameLine(a, b Pos) bool { return a.File == b.File && a.Line == b.Line }

// commentText steps over a comment and returns what is in it; false where it
// has no end.
func (l *lexer) commentText() (string, bool) {
	if l.peek(1) == '/' {
		l.off += 2
		return l.restOfLine(), true
	}
	end := strings.Index(l.src[l.off+2:], "*/")
	if end < 0 {
		l.errorf(l.pos(), "comment without an end")
		l.off = len(l.src)
		return "", false
	}
	text := l.src[l.off+2 : l.off+2+end]
	l.off += end + 4
	if n := strings.Count(text, "\n"); n > 0 {
		l.line += n
		l.bol = l.off - 2 - (len(text) - 1 - strings.LastIndexByte(text, '\n'))
	}
	return text, true
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

// nameLen returns how many letters and digits s begins with.
func nameLen(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
		n++
	}
	return n
}

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
