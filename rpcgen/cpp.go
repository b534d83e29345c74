package rpcgen

import (
	"path/filepath"
	"strings"
)

// preprocessor is what the files of a unit share while they are read.
type preprocessor struct {
	*compiler
	file   string // the unit's
	defs   map[string][]*macro
	tokens []token
	lead   []comment // not yet given to a token
	depth  int       // of #include
	taken  int       // files included
	grown  int       // macros replaced
	// What % lines say to the C compiler.
	headers []cHeader
	cdefs   map[string]*macro
}

// cHeader is a header that a % line includes.
type cHeader struct {
	name string // <rpc/xdr.h>
	pos  Pos
}

// modes are runs of C rpcgen, of which each writes one file and defines one
// name: what stands under #ifdef RPC_HDR is in the header alone. All that any
// run would see counts here, since one run writes everything.
type modes uint8

const allModes modes = 1<<len(modeNames) - 1

var modeNames = [...]string{"RPC_HDR", "RPC_XDR", "RPC_SVC", "RPC_CLNT", "RPC_TBL"}

func (m modes) String() string {
	var names []string
	for i, n := range modeNames {
		if m&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// Bounds against files that would never end.
const (
	maxIncludes  = 50      // deep
	maxIncluded  = 500     // files, counted again where they are included again
	maxExpansion = 100_000 // macros replaced in one file
)

// cond is an open #if, #ifdef or #ifndef.
type cond struct {
	pos    Pos
	word   string
	outer  modes // that see the lines around it
	taken  modes // that have seen a part of it
	active modes // that see the lines now read
	inElse bool
}

// preprocess returns the tokens of a file and what it includes, the last of
// which is tokEOF.
func preprocess(name, src string, c *compiler) *preprocessor {
	p := &preprocessor{compiler: c, file: name, defs: map[string][]*macro{}, cdefs: map[string]*macro{}}
	for i, n := range modeNames {
		p.define(n, &macro{body: "1", in: 1 << i})
	}
	for k, v := range c.Defines {
		p.define(k, &macro{body: v, in: allModes})
	}
	l := &lexer{preprocessor: p, file: name, src: src, line: 1, fresh: true, outer: allModes}
	l.run()
	p.emit(tokEOF, "", l.pos(), allModes)
	return p
}

func (p *preprocessor) emit(kind tokenKind, text string, pos Pos, in modes) {
	p.tokens = append(p.tokens, token{kind: kind, text: text, pos: pos, in: in, lead: p.lead})
	p.lead = nil
}

// active returns the runs of C rpcgen that see what is now read.
func (l *lexer) active() modes {
	if n := len(l.conds); n > 0 {
		return l.conds[n-1].active
	}
	return l.outer
}

// each returns those of in for which f holds.
func each(in modes, f func(m modes) bool) (out modes) {
	for m := modes(1); m <= allModes; m <<= 1 {
		if in&m != 0 && f(m) {
			out |= m
		}
	}
	return out
}

// directiveLine returns the rest of a directive: comments are a space, and a
// backslash at the end of a line joins it with the next.
func (l *lexer) directiveLine() string {
	var text strings.Builder
	for l.off < len(l.src) && l.src[l.off] != '\n' {
		c := l.src[l.off]
		switch {
		case l.spliced():
		case c == '/' && (l.peek(1) == '*' || l.peek(1) == '/'):
			l.commentText()
			text.WriteByte(' ')
		case c == '"' && endOfQuoted(l.src, l.off) > 0:
			end := endOfQuoted(l.src, l.off)
			text.WriteString(l.src[l.off:end])
			l.off = end
		default:
			text.WriteByte(c)
			l.off++
		}
	}
	return strings.TrimSpace(text.String())
}

// directive runs a line that begins with #.
func (l *lexer) directive() {
	pos := l.pos()
	l.off++
	line := l.directiveLine()
	n := 0
	for n < len(line) && isLetter(line[n]) {
		n++
	}
	word, rest := line[:n], strings.TrimSpace(line[n:])
	switch word {
	case "if", "ifdef", "ifndef":
		c := cond{pos: pos, word: word, outer: l.active()}
		c.active = l.holds(pos, word, rest, c.outer)
		c.taken = c.active
		l.conds = append(l.conds, c)
		return
	case "elif", "else", "endif":
		l.closeCond(pos, word, rest)
		return
	}
	if l.active() == 0 {
		return
	}
	switch word {
	case "define":
		l.defineLine(pos, rest)
	case "undef":
		if !isName(rest) {
			l.errorf(pos, "#undef wants one name")
		}
		l.undef(rest, l.active())
	case "include":
		l.include(pos, rest)
	case "error":
		l.errorf(pos, "#error %s", rest)
	case "warning", "pragma", "ident", "line":
		l.note(pos, "#%s is left out", word)
	case "":
		// Alone it means nothing; with a number it is a line that cpp wrote.
		if rest != "" && !isDigit(rest[0]) {
			l.errorf(pos, "# without a directive")
		}
	default:
		l.errorf(pos, "#%s: this directive is not known", word)
	}
}

// holds returns those of in for which a condition is true.
func (l *lexer) holds(pos Pos, word, rest string, in modes) modes {
	if in == 0 {
		return 0
	}
	if word == "if" || word == "elif" {
		return l.evaluate(pos, word, rest, in)
	}
	if !isName(rest) {
		l.errorf(pos, "#%s wants one name", word)
	}
	return each(in, func(m modes) bool { return (l.lookup(rest, m) != nil) == (word == "ifdef") })
}

func (l *lexer) closeCond(pos Pos, word, rest string) {
	if len(l.conds) == 0 {
		l.errorf(pos, "#%s without #if", word)
		return
	}
	c := &l.conds[len(l.conds)-1]
	if word == "endif" {
		l.conds = l.conds[:len(l.conds)-1]
		return
	}
	if c.inElse {
		l.errorf(pos, "#%s after the #else of the #%s in line %d", word, c.word, c.pos.Line)
	}
	left := c.outer &^ c.taken
	if word == "else" {
		c.inElse, c.active = true, left
	} else {
		c.active = l.holds(pos, word, rest, left)
	}
	c.taken |= c.active
}

// include reads a file in the place of an #include.
func (l *lexer) include(pos Pos, rest string) {
	name, dirs := "", l.Include
	switch n := len(rest); {
	case n > 2 && rest[0] == '"' && rest[n-1] == '"':
		name, dirs = rest[1:n-1], append([]string{filepath.Dir(l.file)}, dirs...)
	case n > 2 && rest[0] == '<' && rest[n-1] == '>':
		name = rest[1 : n-1]
	default:
		l.errorf(pos, `#include wants "FILE" or <FILE>`)
		return
	}
	if strings.HasSuffix(name, ".h") {
		l.errorf(pos, "#include %s is a C header, which has no XDR: put %% before the #, and give its types with -import FILE.x", rest)
		return
	}
	if l.depth >= maxIncludes || l.taken >= maxIncluded {
		l.errorf(pos, "#include %s: %d files deep, %d in all; in a circle?", rest, l.depth, l.taken)
		return
	}
	if filepath.IsAbs(name) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if l.imported(path) {
			l.note(pos, "%s is imported, so not included", path)
			return
		}
		src, err := l.read(path)
		if err != nil {
			continue
		}
		l.note(pos, "%s is included", path)
		l.faults.source(path, src)
		l.depth++
		l.taken++
		sub := &lexer{preprocessor: l.preprocessor, file: path, src: src, line: 1, fresh: true, outer: l.active()}
		sub.run()
		l.depth--
		return
	}
	l.errorf(pos, "#include %s is not found in %s: -I DIR adds a folder", rest, strings.Join(dirs, ", "))
}

// forC steps over a line that C rpcgen copies to its output, and keeps what
// explains a name that is missing.
func (l *lexer) forC() {
	pos := l.pos()
	text := strings.TrimSpace(strings.TrimPrefix(l.restOfLine(), "%"))
	if text != "" {
		l.note(pos, "for C only, left out: %s", text)
	}
	directive, ok := strings.CutPrefix(text, "#")
	if !ok {
		return
	}
	fields := strings.Fields(directive)
	switch {
	case len(fields) >= 2 && fields[0] == "include":
		l.headers = append(l.headers, cHeader{name: fields[1], pos: pos})
	case len(fields) >= 3 && fields[0] == "define" && isName(fields[1]):
		l.cdefs[fields[1]] = &macro{body: strings.Join(fields[2:], " ")}
	}
}
