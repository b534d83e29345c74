package rpcgen

import "fmt"

// titled says what is declared, for messages.
func titled(what string, h *declHead) string {
	if h.name == "" {
		return what
	}
	return what + " " + h.name
}

// open reads "{", and takes a comment behind it as the declaration's.
func (p *parser) open(after string, d *docs) {
	t := p.expect("{", after)
	if t.tail != nil && sameLine(t.tail.first, t.pos) {
		d.lead = append(d.lead, t.tail.lines...)
		t.tail = nil
	}
}

// body reads the parts of a body between braces.
func (p *parser) body(h *declHead, what string, part func()) (rest []comment) {
	outer := p.owner
	defer func() { p.owner = outer }()
	p.owner = h
	p.open(what, &h.docs)
	for !p.is("}") {
		p.part(";", part)
	}
	rest = p.cur().lead
	p.step()
	return rest
}

func (p *parser) enumBody(h declHead) decl {
	e := &enumDecl{declHead: h}
	p.open(titled("enum", &e.declHead), &e.docs)
	for more := true; more; {
		p.part(",", func() { more = p.tag(e) })
		more = more && !p.is("}") // a comma behind the last tag is taken
	}
	e.rest = p.cur().lead
	p.expect("}", "the tags")
	return e
}

// tag reads a tag of e, and says whether a comma follows.
func (p *parser) tag(e *enumDecl) bool {
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
	if p.is("}") {
		return false
	}
	tag.docs.tailDocs(p.expect(",", "tag '"+tag.name+"'"))
	return true
}

func (p *parser) structBody(h declHead) decl {
	s := &structDecl{declHead: h}
	title, before := titled("struct", &s.declHead), len(p.faults.list)
	s.rest = p.body(&s.declHead, title, func() {
		f := p.fieldLine()
		if f.name == "" {
			p.fail(f.typ.pos, "void in %s", title)
		}
		s.fields = append(s.fields, f)
	})
	if len(s.fields) == 0 && len(p.faults.list) == before {
		p.errorf(p.tokens[p.i-1].pos, "%s has no fields", title)
	}
	return s
}

func (p *parser) unionBody(h declHead) decl {
	u := &unionDecl{declHead: h}
	outer := p.owner
	p.owner = &u.declHead
	p.expect("switch", titled("union", &u.declHead))
	p.expect("(", "switch")
	if u.disc = p.field(); u.disc.name == "" {
		p.fail(u.disc.typ.pos, "the discriminant cannot be void")
	}
	p.owner = outer
	p.expect(")", "the discriminant")
	before := len(p.faults.list)
	u.rest = p.body(&u.declHead, "')'", func() { p.arm(u) })
	if len(u.arms) == 0 && len(p.faults.list) == before {
		p.errorf(p.tokens[p.i-1].pos, "%s has no arms: case or default expected", titled("union", &u.declHead))
	}
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
		} else {
			if u.deflt != nil || isDefault {
				p.errorf(t.pos, "second default of %s", titled("union", &u.declHead))
			}
			isDefault = true
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
