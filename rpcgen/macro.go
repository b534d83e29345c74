package rpcgen

import (
	"slices"
	"strings"
)

// macro is what #define or -D defines.
type macro struct {
	body   string
	params []string
	called bool // written with brackets
	in     modes
	busy   bool // being replaced: it is not replaced in itself
}

// define makes m what name means in its modes.
func (p *preprocessor) define(name string, m *macro) {
	p.undef(name, m.in)
	p.defs[name] = append(p.defs[name], m)
}

func (p *preprocessor) undef(name string, in modes) {
	for _, old := range p.defs[name] {
		old.in &^= in
	}
	p.defs[name] = slices.DeleteFunc(p.defs[name], func(m *macro) bool { return m.in == 0 })
}

// lookup returns what name means in one of the modes, nil for nothing.
func (p *preprocessor) lookup(name string, in modes) *macro {
	for _, m := range p.defs[name] {
		if m.in&in != 0 {
			return m
		}
	}
	return nil
}

// defineLine reads what follows #define.
func (l *lexer) defineLine(pos Pos, rest string) {
	n := nameLen(rest)
	name, m := rest[:n], &macro{in: l.active()}
	if !isName(name) || name == "defined" {
		l.errorf(pos, "#define wants a name")
		return
	}
	rest = rest[n:]
	if strings.HasPrefix(rest, "(") {
		list, body, ok := strings.Cut(rest[1:], ")")
		m.called, rest = true, body
		for _, p := range strings.Split(list, ",") {
			p = strings.TrimSpace(p)
			m.params = append(m.params, p)
			ok = ok && (isName(p) || list == "")
		}
		if strings.TrimSpace(list) == "" {
			m.params = nil
		} else if !ok {
			l.errorf(pos, "#define %s: its arguments are not names", name)
			return
		}
	}
	m.body = strings.TrimSpace(rest)
	l.define(name, m)
}

// ident emits an identifier, or what it is defined as.
func (l *lexer) ident(name string, pos Pos) {
	m := l.lookup(name, l.active())
	if m == nil || m.busy {
		l.emit(tokIdent, name, pos, l.active())
		return
	}
	body := m.body
	if m.called {
		args, ok := l.arguments(pos, name)
		if !ok {
			l.emit(tokIdent, name, pos, l.active())
			return
		}
		if len(args) != len(m.params) {
			l.errorf(pos, "%s has %d arguments, not %d", name, len(m.params), len(args))
			return
		}
		body = m.replace(args)
	}
	if l.grown++; l.grown > maxExpansion {
		if l.grown == maxExpansion+1 {
			l.errorf(pos, "more than %d macros replaced", maxExpansion)
		}
		return
	}
	m.busy = true
	sub := &lexer{preprocessor: l.preprocessor, file: l.file, src: body, line: 1, outer: l.active(), at: &pos, macro: name}
	for sub.next() {
	}
	m.busy = false
}

// arguments reads what a macro is called with; false where no bracket follows.
func (l *lexer) arguments(pos Pos, name string) ([]string, bool) {
	rest := l.src[l.off:]
	open := len(rest) - len(strings.TrimLeft(rest, " \t"))
	if open == len(rest) || rest[open] != '(' {
		return nil, false
	}
	var args []string
	depth, start := 0, open+1
	for i := open; i < len(rest) && rest[i] != '\n'; i++ {
		switch c := rest[i]; {
		case c == '(':
			depth++
		case c == ')' && depth > 1:
			depth--
		case c == ')' || c == ',' && depth == 1:
			args = append(args, strings.TrimSpace(rest[start:i]))
			start = i + 1
			if c == ')' {
				l.off += start
				if len(args) == 1 && args[0] == "" {
					args = nil
				}
				return args, true
			}
		}
	}
	l.errorf(pos, "the arguments of %s have no end in its line", name)
	l.restOfLine()
	return nil, false
}

// replace returns the body of m with args for its parameters.
func (m *macro) replace(args []string) string {
	var out strings.Builder
	for i := 0; i < len(m.body); {
		n := i + nameLen(m.body[i:])
		if n == i {
			out.WriteByte(m.body[i])
			i++
			continue
		}
		word := m.body[i:n]
		if k := slices.Index(m.params, word); k >= 0 {
			word = args[k]
		}
		out.WriteString(word)
		i = n
	}
	return out.String()
}
