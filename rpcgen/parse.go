package rpcgen

// parser reads the grammar of RFC 4506 section 6.3 and RFC 5531 section 12,
// with what C rpcgen and others add.
type parser struct {
	*compiler
	tokens []token
	i      int
	col    int // where the declaration now read begins in its line
	f      *file
	owner  *declHead // of the fields now read
	bodies []decl    // declared inside the declaration now read
}

// bailout leaves what could not be read.
type bailout struct{}

// parse reads a file's tokens. After a fault it goes on with the next field or
// declaration, so that all faults are reported.
func parse(c *compiler, tokens []token) *file {
	p := &parser{compiler: c, tokens: tokens, f: &file{unsure: map[string]bool{}}}
	p.decls(func() bool { return p.cur().kind == tokEOF })
	p.f.tail = p.cur().lead
	return p.f
}

// decls reads declarations up to the end.
func (p *parser) decls(end func() bool) {
	for !end() && p.cur().kind != tokEOF {
		start := p.i
		p.bodies, p.owner, p.col = nil, nil, p.cur().pos.Col
		var d decl
		ok := p.guard(func() { d = p.decl() })
		for _, b := range p.bodies {
			b.head().nameAnonymous()
		}
		p.f.decls = append(p.f.decls, p.bodies...)
		p.bodies = nil // those of a namespace's last declaration are in p.f
		if d != nil {
			p.f.decls = append(p.f.decls, d)
		}
		if !ok {
			if p.i == start {
				p.step()
			}
			p.sync()
			p.doubt(start)
		}
	}
}

// guard runs f, and says whether it could read what it wanted.
func (p *parser) guard(f func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, known := r.(bailout); !known {
				panic(r)
			}
		}
	}()
	f()
	return true
}

// sync steps to the next token that begins a declaration.
func (p *parser) sync() {
	for ; p.cur().kind != tokEOF; p.step() {
		if p.beginsDecl() {
			return
		}
	}
}

// beginsDecl says whether a declaration begins here, after a fault: with a word
// that begins one, not further in than the one now read.
func (p *parser) beginsDecl() bool {
	t := p.cur()
	return declWords[t.text] && t.pos.Col <= p.col && (p.i == 0 || !sameLine(p.tokens[p.i-1].pos, t.pos))
}

// doubt notes the names between start and here, which could not be read.
func (p *parser) doubt(start int) {
	for _, t := range p.tokens[start:p.i] {
		if t.kind == tokIdent {
			p.f.unsure[t.text] = true
		}
	}
}

// part reads one part of a body by f. After a fault it goes on behind the next
// sep, or at the end of the body.
func (p *parser) part(sep string, f func()) {
	start := p.i
	if p.guard(f) {
		return
	}
	for depth := 0; ; p.step() {
		switch {
		case p.cur().kind == tokEOF || p.beginsDecl() && p.i > start:
			panic(bailout{})
		case p.is("{") || p.is("("):
			depth++
		case depth == 0 && p.is("}"):
			p.doubt(start)
			return
		case p.is("}") || p.is(")"):
			depth = max(0, depth-1)
		case depth == 0 && p.is(sep):
			p.step()
			p.doubt(start)
			return
		}
	}
}

var declWords = map[string]bool{
	"const": true, "enum": true, "struct": true, "union": true, "typedef": true, "program": true, "namespace": true,
}

func (p *parser) cur() *token { return &p.tokens[p.i] }

func (p *parser) step() *token {
	t := &p.tokens[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

func (p *parser) fail(pos Pos, format string, args ...any) {
	p.errorf(pos, format, args...)
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

// keywords cannot be names. RFC 5531 adds program and version, which stand where
// no name can: files that know RFC 4506 alone have fields called so.
var keywords = map[string]bool{
	"bool": true, "case": true, "const": true, "default": true, "double": true, "enum": true, "float": true,
	"hyper": true, "int": true, "opaque": true, "quadruple": true, "string": true, "struct": true, "switch": true,
	"typedef": true, "union": true, "unsigned": true, "void": true,
}

// leadDocs splits the comments before a token into the one that belongs to it
// and those that stand apart.
func leadDocs(t *token) docs {
	var d docs
	for i, c := range t.lead {
		next := t.pos
		if i+1 < len(t.lead) {
			next = t.lead[i+1].first
		}
		switch {
		case c.first.File != next.File || c.last+1 < next.Line:
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

// decl reads one declaration; nil for one that declares nothing new.
func (p *parser) decl() decl {
	t := p.cur()
	h := declHead{docs: leadDocs(t), in: t.in}
	if t.kind != tokIdent {
		p.fail(t.pos, "a declaration expected, not %s", t)
	}
	p.step()
	switch t.text {
	case "const":
		return p.constDecl(h)
	case "enum":
		h.name, h.pos = p.ident("the enum's name")
		return p.closed(p.enumBody(h))
	case "struct":
		if p.accept("*") {
			return p.pointerDecl(h)
		}
		h.name, h.pos = p.ident("the struct's name")
		return p.closed(p.structBody(h))
	case "union":
		h.name, h.pos = p.ident("the union's name")
		return p.closed(p.unionBody(h))
	case "typedef":
		return p.typedefDecl(h)
	case "program":
		return p.programDecl(h)
	case "namespace":
		p.namespace(t.pos)
		return nil
	}
	p.fail(t.pos, "const, enum, struct, union, typedef or program expected, not '%s'", t.text)
	return nil
}

// closed reads the semicolon after a body.
func (p *parser) closed(d decl) decl {
	p.expect(";", "'}'")
	return d
}

// namespace reads "namespace NAME { ... }", which changes no name.
func (p *parser) namespace(pos Pos) {
	name, _ := p.ident("the namespace's name")
	for p.accept(":") {
		p.expect(":", "':'")
		more, _ := p.ident("the name after ::")
		name += "::" + more
	}
	p.expect("{", "namespace "+name)
	p.note(pos, "namespace %s changes no name: the Go package is the namespace", name)
	p.decls(func() bool { return p.is("}") })
	p.expect("}", "the declarations")
	p.accept(";")
}

func (p *parser) constDecl(h declHead) decl {
	c := &constDecl{declHead: h}
	c.name, c.pos = p.ident("the constant's name")
	p.expect("=", "const "+c.name)
	if t := p.cur(); t.kind == tokString {
		p.step()
		c.val = value{text: t.text, isString: true, pos: t.pos}
	} else {
		c.val = p.value("its value")
	}
	c.docs.tailDocs(p.expect(";", "the value"))
	return c
}

// pointerDecl reads "struct *name {...};" as RFC 1833 writes it: name is a
// pointer to the struct.
func (p *parser) pointerDecl(h declHead) decl {
	h.name, h.pos = p.ident("the struct's name")
	inner := declHead{name: h.name + "_node", pos: h.pos, in: h.in, docs: h.docs, anonymous: true}
	s := p.structBody(inner)
	p.bodies = append(p.bodies, s)
	h.docs = docs{}
	h.docs.tailDocs(p.expect(";", "'}'"))
	f := &field{typ: typeRef{name: inner.name, pos: h.pos, body: s}, shape: optional, name: h.name, pos: h.pos}
	return &typedefDecl{declHead: h, field: f}
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

// typedefDecl reads a typedef. One of a body without a name names it.
func (p *parser) typedefDecl(h declHead) decl {
	f := p.field()
	if f.name == "" {
		p.fail(f.typ.pos, "a typedef cannot be void")
	}
	h.name, h.pos = f.name, f.pos
	h.docs.tailDocs(p.expect(";", f.describe()))
	switch body := f.typ.body; {
	case body != nil && body.head().anonymous && f.shape == one:
		b := body.head()
		b.name, b.pos, b.anonymous, b.docs.apart = h.name, h.pos, false, h.docs.apart
		b.docs.lead = append(h.docs.lead, append(b.docs.lead, h.docs.tail...)...)
		return nil
	case body != nil && body.head().anonymous:
		body.head().name = h.name + "_item"
	case f.shape == one && f.typ.name == h.name && f.typ.basic == named:
		p.note(h.pos, "typedef of '%s' as itself declares nothing", h.name)
		return nil
	}
	return &typedefDecl{declHead: h, field: f}
}
