package rpcgen

import "fmt"

// parser reads the grammar of RFC 4506 section 6.3 and RFC 5531 section 12.
type parser struct {
	file   string
	tokens []token
	i      int
	errs   *ErrorList
}

// bailout leaves a declaration that could not be read.
type bailout struct{}

// parse reads a file's tokens. After a fault it goes on with the next
// declaration, so that all faults are reported.
func parse(name string, tokens []token, errs *ErrorList) *file {
	p := &parser{file: name, tokens: tokens, errs: errs}
	f := &file{name: name}
	for p.cur().kind != tokEOF {
		if d := p.declOrSync(); d != nil {
			f.decls = append(f.decls, d)
		}
	}
	f.tail = p.cur().lead
	return f
}

func (p *parser) declOrSync() (d decl) {
	start := p.i
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(bailout); !ok {
				panic(r)
			}
			if p.i == start {
				p.step()
			}
			p.sync()
			d = nil
		}
	}()
	return p.decl()
}

// sync steps to the next token that begins a declaration at a line's start.
func (p *parser) sync() {
	for ; p.cur().kind != tokEOF; p.step() {
		t := p.cur()
		if t.pos.Col == 1 && declWords[t.text] {
			return
		}
	}
}

var declWords = map[string]bool{"const": true, "enum": true, "struct": true, "union": true, "typedef": true, "program": true}

func (p *parser) cur() *token { return &p.tokens[p.i] }

func (p *parser) step() *token {
	t := &p.tokens[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

func (p *parser) fail(pos Pos, format string, args ...any) {
	p.errs.add(p.file, pos, format, args...)
	panic(bailout{})
}

func (p *parser) is(text string) bool {
	t := p.cur()
	return (t.kind == tokPunct || t.kind == tokIdent) && t.text == text
}

// accept steps over text if it is next.
func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.step()
		return true
	}
	return false
}

func (p *parser) expect(text, after string) *token {
	if !p.is(text) {
		p.fail(p.cur().pos, "'%s' expected after %s, not %s", text, after, p.cur())
	}
	return p.step()
}

func (p *parser) ident(what string) (string, Pos) {
	t := p.cur()
	if t.kind != tokIdent {
		p.fail(t.pos, "%s expected, not %s", what, t)
	}
	if keywords[t.text] {
		p.fail(t.pos, "%s expected, but '%s' is a word of the language", what, t.text)
	}
	p.step()
	return t.text, t.pos
}

func (p *parser) value(what string) value {
	t := p.cur()
	if t.kind != tokNumber && (t.kind != tokIdent || keywords[t.text]) {
		p.fail(t.pos, "%s expected, not %s: a number or the name of a constant", what, t)
	}
	p.step()
	return value{text: t.text, pos: t.pos}
}

// keywords cannot be names.
var keywords = map[string]bool{
	"bool": true, "case": true, "const": true, "default": true, "double": true, "enum": true, "float": true,
	"hyper": true, "int": true, "opaque": true, "quadruple": true, "string": true, "struct": true, "switch": true,
	"typedef": true, "union": true, "unsigned": true, "void": true, "program": true, "version": true,
}

// leadDocs splits the comments before a token into the one that belongs to it
// and those that stand apart.
func leadDocs(t *token) docs {
	var d docs
	for i, c := range t.lead {
		next := t.pos.Line
		if i+1 < len(t.lead) {
			next = t.lead[i+1].first
		}
		switch {
		case c.last+1 < next:
			c.lines = append(d.lead, c.lines...)
			d.apart = append(d.apart, c)
			d.lead = nil
		default:
			d.lead = append(d.lead, c.lines...)
		}
	}
	return d
}

// tailDocs adds the comment behind t to d.
func (d *docs) tailDocs(t *token) {
	if t.tail != nil {
		d.tail = append(d.tail, t.tail.lines...)
		t.tail = nil
	}
}

func (p *parser) decl() decl {
	t := p.cur()
	d := leadDocs(t)
	if t.kind != tokIdent {
		p.fail(t.pos, "a declaration expected, not %s", t)
	}
	switch t.text {
	case "const":
		return p.constDecl(d)
	case "enum":
		return p.enumDecl(d)
	case "struct":
		return p.structDecl(d)
	case "union":
		return p.unionDecl(d)
	case "typedef":
		return p.typedefDecl(d)
	case "program":
		return p.programDecl(d)
	}
	p.fail(t.pos, "const, enum, struct, union, typedef or program expected, not '%s'", t.text)
	return nil
}

func (p *parser) constDecl(d docs) decl {
	p.step()
	c := &constDecl{}
	c.name, c.pos = p.ident("the constant's name")
	p.expect("=", "const "+c.name)
	c.val = p.value("its value")
	d.tailDocs(p.expect(";", "the value"))
	c.docs = d
	return c
}

// open reads "{", and takes a comment behind it as the declaration's.
func (p *parser) open(after string, d *docs) {
	t := p.expect("{", after)
	if t.tail != nil && t.tail.first == t.pos.Line {
		d.lead = append(d.lead, t.tail.lines...)
		t.tail = nil
	}
}

// close reads "}" and ";".
func (p *parser) close(what string) {
	p.expect("}", what)
	p.expect(";", "'}'")
}

func (p *parser) enumDecl(d docs) decl {
	p.step()
	e := &enumDecl{}
	e.name, e.pos = p.ident("the enum's name")
	p.open("enum "+e.name, &d)
	e.docs = d
	for {
		t := p.cur()
		tag := &enumTag{docs: leadDocs(t)}
		tag.name, tag.pos = p.ident("a tag")
		tag.docs.tailDocs(t)
		if p.accept("=") {
			v := p.value("the tag's value")
			tag.val = &v
			tag.docs.tailDocs(&p.tokens[p.i-1])
		}
		e.tags = append(e.tags, tag)
		if !p.is(",") {
			break
		}
		tag.docs.tailDocs(p.step())
	}
	e.rest = p.cur().lead
	p.close("the tags")
	return e
}

func (p *parser) structDecl(d docs) decl {
	p.step()
	s := &structDecl{}
	s.name, s.pos = p.ident("the struct's name")
	p.open("struct "+s.name, &d)
	s.docs = d
	for !p.is("}") {
		f := p.fieldLine()
		if f.name == "" {
			p.fail(f.typ.pos, "void in struct %s", s.name)
		}
		s.fields = append(s.fields, f)
	}
	if len(s.fields) == 0 {
		p.fail(p.cur().pos, "struct %s has no fields", s.name)
	}
	s.rest = p.cur().lead
	p.close("the fields")
	return s
}

// fieldLine reads a field and its semicolon.
func (p *parser) fieldLine() *field {
	fd := leadDocs(p.cur())
	f := p.field()
	fd.tailDocs(p.expect(";", f.describe()))
	f.docs = fd
	return f
}

func (f *field) describe() string {
	if f.name == "" {
		return "void"
	}
	return "'" + f.name + "'"
}

func (p *parser) typedefDecl(d docs) decl {
	p.step()
	f := p.field()
	if f.name == "" {
		p.fail(f.typ.pos, "a typedef cannot be void")
	}
	d.tailDocs(p.expect(";", f.describe()))
	return &typedefDecl{declHead: declHead{name: f.name, pos: f.pos, docs: d}, field: f}
}

func (p *parser) unionDecl(d docs) decl {
	p.step()
	u := &unionDecl{}
	u.name, u.pos = p.ident("the union's name")
	p.expect("switch", "union "+u.name)
	p.expect("(", "switch")
	u.disc = p.field()
	p.expect(")", "the discriminant")
	p.open("')'", &d)
	u.docs = d
	for !p.is("}") {
		p.arm(u)
	}
	u.rest = p.cur().lead
	p.close("the arms")
	return u
}

// arm reads one or several labels and what follows them.
func (p *parser) arm(u *unionDecl) {
	a := &arm{docs: leadDocs(p.cur())}
	isDefault := false
	for p.is("case") || p.is("default") {
		t := p.step()
		if t.text == "case" {
			a.labels = append(a.labels, p.value("the case's value"))
		} else if isDefault = true; u.deflt != nil {
			p.fail(t.pos, "second default of union %s", u.name)
		}
		colon := p.expect(":", fmt.Sprintf("'%s'", p.tokens[p.i-1].text))
		a.docs.lead = appendTail(a.docs.lead, colon)
	}
	if len(a.labels) == 0 && !isDefault {
		p.fail(p.cur().pos, "case or default expected, not %s", p.cur())
	}
	f := p.fieldLine()
	if f.name != "" {
		a.field = f
	}
	a.docs.lead = append(a.docs.lead, f.docs.lead...)
	a.docs.tail = f.docs.tail
	if isDefault {
		u.deflt = a
	}
	u.arms = append(u.arms, a)
}

func appendTail(lines []string, t *token) []string {
	if t.tail == nil {
		return lines
	}
	lines = append(lines, t.tail.lines...)
	t.tail = nil
	return lines
}
