package rpcgen

import "strings"

// cond is an open #ifdef or #ifndef.
type cond struct {
	pos    Pos
	word   string
	active bool // the lines now read count
	outer  bool // those around it count
	inElse bool
}

// directive runs a line that begins with #.
func (l *lexer) directive() {
	pos := l.pos()
	l.off++
	line := l.restOfLine()
	if i := strings.Index(line, "//"); i >= 0 {
		line = line[:i]
	}
	if i := strings.Index(line, "/*"); i >= 0 {
		j := strings.Index(line[i:], "*/")
		if j < 0 { // it goes on: read it as a comment
			l.off -= len(line) - i
			if strings.HasSuffix(l.src[:l.off], "\r") {
				l.off--
			}
		}
		line = line[:i]
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if i := strings.IndexByte(word, '\t'); i >= 0 {
		word, rest = word[:i], word[i:]+" "+rest
	}
	fields := strings.Fields(rest)
	switch word {
	case "ifdef", "ifndef":
		l.openCond(pos, word, fields)
	case "if":
		if !l.skipping() {
			l.errorf(pos, "#if is not known: use #ifdef or #ifndef")
		}
		l.conds = append(l.conds, cond{pos: pos, word: word}) // its #endif will come
	case "else", "endif":
		l.closeCond(pos, word)
	case "define", "undef":
		if !l.skipping() {
			l.define(pos, word, fields)
		}
	default:
		if !l.skipping() {
			l.errorf(pos, "#%s: this directive is not known", word)
		}
	}
}

func (l *lexer) openCond(pos Pos, word string, fields []string) {
	if len(fields) != 1 {
		l.errorf(pos, "#%s wants one name", word)
		fields = []string{""}
	}
	_, defined := l.defs[fields[0]]
	outer := !l.skipping()
	l.conds = append(l.conds, cond{pos: pos, word: word, outer: outer, active: outer && defined == (word == "ifdef")})
}

func (l *lexer) closeCond(pos Pos, word string) {
	if len(l.conds) == 0 {
		l.errorf(pos, "#%s without #ifdef", word)
		return
	}
	c := &l.conds[len(l.conds)-1]
	if word == "endif" {
		l.conds = l.conds[:len(l.conds)-1]
		return
	}
	if c.inElse {
		l.errorf(pos, "second #else")
	}
	c.inElse = true
	c.active = c.outer && !c.active
}

func (l *lexer) define(pos Pos, word string, fields []string) {
	if len(fields) == 0 || !isLetter(fields[0][0]) || strings.Contains(fields[0], "(") {
		l.errorf(pos, "#%s wants a name", word)
		return
	}
	if word == "undef" {
		delete(l.defs, fields[0])
		return
	}
	l.defs[fields[0]] = strings.Join(fields[1:], " ")
}
