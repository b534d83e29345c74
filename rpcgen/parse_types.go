package rpcgen

// typeSpec reads a type's name: a built-in one, or that of a declaration; or a
// body in its place.
func (p *parser) typeSpec() typeRef {
	t := p.cur()
	if t.kind != tokIdent {
		p.fail(t.pos, "a type expected, not %s", t)
	}
	p.step()
	ref := typeRef{pos: t.pos}
	switch t.text {
	case "unsigned":
		ref.basic = p.unsigned()
		return ref
	case "enum", "struct", "union":
		h := declHead{pos: t.pos, in: t.in, anonymous: true, parent: p.owner}
		if !p.is("{") && !p.is("switch") {
			ref.name, ref.pos = p.ident("the name of the " + t.text)
			if !p.is("{") && !p.is("switch") {
				return ref
			}
			h = declHead{name: ref.name, pos: ref.pos, in: t.in}
		}
		ref.body = p.inlineBody(t.text, h)
		return ref
	}
	if b, ok := builtin[t.text]; ok {
		ref.basic = b
		if !keywords[t.text] {
			ref.name = t.text
		}
		if b == int64Type && t.text == "hyper" || t.text == "long" || t.text == "short" {
			p.accept("int")
		}
		return ref
	}
	if keywords[t.text] {
		p.fail(t.pos, "a type expected, but '%s' is a word of the language", t.text)
	}
	ref.name = t.text
	return ref
}

// unsigned reads what follows that word.
func (p *parser) unsigned() basic {
	switch {
	case p.accept("hyper"):
		p.accept("int")
		return uint64Type
	case p.accept("short"):
		p.accept("int")
		return uint16Type
	case p.accept("char"):
		return uint8Type
	case p.accept("long"):
	}
	p.accept("int")
	return uint32Type
}

// inlineBody reads a body that stands where a type is used.
func (p *parser) inlineBody(word string, h declHead) decl {
	var d decl
	switch word {
	case "enum":
		d = p.enumBody(h)
	case "struct":
		d = p.structBody(h)
	default:
		d = p.unionBody(h)
	}
	p.bodies = append(p.bodies, d)
	return d
}

// builtin are the types of RFC 4506, and the C names for them that rpcgen takes.
var builtin = map[string]basic{
	"void": void, "bool": boolean, "int": int32Type, "hyper": int64Type, "float": float, "double": double,
	"quadruple": quadruple, "string": text, "opaque": opaque,
	"long": int32Type, "short": int16Type, "char": int8Type, "u_int": uint32Type, "u_long": uint32Type,
	"u_short": uint16Type, "u_char": uint8Type, "longlong_t": int64Type, "u_longlong_t": uint64Type,
	"quad_t": int64Type, "u_quad_t": uint64Type, "int8_t": int8Type, "int16_t": int16Type, "int32_t": int32Type,
	"int64_t": int64Type, "uint8_t": uint8Type, "uint16_t": uint16Type, "uint32_t": uint32Type, "uint64_t": uint64Type,
	"u_int8_t": uint8Type, "u_int16_t": uint16Type, "u_int32_t": uint32Type, "u_int64_t": uint64Type,
}

// field reads a declaration of RFC 4506 section 6.3; its name is "" for void.
func (p *parser) field() *field {
	f := &field{typ: p.typeSpec()}
	if f.typ.basic == void {
		if !p.is(";") && !p.is(")") {
			p.fail(f.typ.pos, "void takes no name: %s", p.cur())
		}
		return f
	}
	if p.accept("*") {
		f.shape = optional
	}
	f.name, f.pos = p.ident("a name")
	if b := f.typ.body; b != nil && b.head().anonymous {
		b.head().field = f.name
	}
	switch {
	case p.is("[") || p.is("<"):
		if f.shape == optional {
			p.fail(p.cur().pos, "'%s' is an array of pointers, which is not known: typedef the pointer", f.name)
		}
		p.bounds(f)
	case f.typ.basic == opaque:
		p.fail(f.pos, "opaque '%s' needs [n] or <n>", f.name)
	case f.typ.basic == text && f.shape == one:
		p.fail(f.pos, "string '%s' needs <> or <n>", f.name)
	}
	if f.shape == optional && (f.typ.basic == text || f.typ.basic == opaque) {
		p.fail(f.pos, "a pointer to %s is not known: typedef it", map[basic]string{text: "string", opaque: "opaque"}[f.typ.basic])
	}
	return f
}

// bounds reads [n], <n> or <>.
func (p *parser) bounds(f *field) {
	if p.accept("[") {
		if f.typ.basic == text {
			p.fail(p.cur().pos, "string '%s' needs <n>, not [n]", f.name)
		}
		v := p.value("the size")
		f.bound = &v
		f.shape = fixed
		p.expect("]", "the size")
	} else {
		p.step()
		f.shape = variable
		if !p.is(">") {
			v := p.value("the bound")
			f.bound = &v
		}
		p.expect(">", "the bound")
	}
	if p.is("[") || p.is("<") {
		p.fail(p.cur().pos, "'%s' has two dimensions, which is not known: typedef the inner one", f.name)
	}
}

func (p *parser) programDecl(h declHead) decl {
	g := &programDecl{declHead: h}
	g.name, g.pos = p.ident("the program's name")
	before := len(p.faults.list)
	p.body(&g.declHead, "program "+g.name, func() { g.versions = append(g.versions, p.version()) })
	if len(g.versions) == 0 && len(p.faults.list) == before {
		p.errorf(p.tokens[p.i-1].pos, "program %s has no versions", g.name)
	}
	p.expect("=", "'}'")
	g.num = p.value("the program's number")
	g.docs.tailDocs(p.expect(";", "the number"))
	return g
}

func (p *parser) version() *version {
	h := declHead{docs: leadDocs(p.cur())}
	p.expect("version", "the version before")
	v := &version{}
	h.name, h.pos = p.ident("the version's name")
	p.body(&h, "version "+h.name, func() { v.procs = append(v.procs, p.proc()) })
	v.name, v.pos = h.name, h.pos
	p.expect("=", "'}'")
	v.num = p.value("the version's number")
	h.docs.tailDocs(p.expect(";", "the number"))
	v.docs = h.docs
	return v
}

func (p *parser) proc() *proc {
	r := &proc{docs: leadDocs(p.cur())}
	r.result = p.procType()
	r.name, r.pos = p.ident("the procedure's name")
	p.expect("(", r.name)
	if !p.is(")") {
		for {
			r.args = append(r.args, p.argument())
			if !p.accept(",") {
				break
			}
		}
	}
	if len(r.args) == 1 && r.args[0].typ.basic == void {
		r.args = nil
	}
	for _, a := range r.args {
		if a.typ.basic == void {
			p.errorf(a.typ.pos, "void among other arguments")
		}
	}
	p.expect(")", "the arguments")
	p.expect("=", "')'")
	r.num = p.value("the procedure's number")
	r.docs.tailDocs(p.expect(";", "the number"))
	return r
}

// procType reads the type of a result.
func (p *parser) procType() *field {
	f := &field{typ: p.typeSpec()}
	p.shapeOf(f)
	return f
}

// argument reads the type of an argument, and its name where it has one, which
// stands before or after the star as in C.
func (p *parser) argument() *field {
	f := &field{typ: p.typeSpec()}
	p.argumentName()
	p.shapeOf(f)
	p.argumentName()
	if p.is("[") || p.is("<") {
		p.fail(p.cur().pos, "an array cannot be an argument: typedef it")
	}
	return f
}

// argumentName steps over a name, which means nothing on the wire.
func (p *parser) argumentName() {
	if p.cur().kind == tokIdent && !keywords[p.cur().text] {
		p.step()
	}
}

// shapeOf reads what follows the type of an argument or result: a star, or the
// bound of a string.
func (p *parser) shapeOf(f *field) {
	switch {
	case f.typ.body != nil:
		p.fail(f.typ.pos, "the type of an argument or result needs a name: declare it on its own")
	case f.typ.basic == opaque:
		p.fail(f.typ.pos, "opaque cannot be an argument or result: typedef it")
	case f.typ.basic == void && p.is("*"):
		p.fail(p.cur().pos, "a pointer to void means nothing")
	case f.typ.basic == text && p.is("*"):
		p.fail(p.cur().pos, "a pointer to string is not known: typedef it")
	case f.typ.basic == text:
		f.shape = variable
		if p.accept("<") {
			if !p.is(">") {
				v := p.value("the bound")
				f.bound = &v
			}
			p.expect(">", "the bound")
		}
	case p.accept("*"):
		f.shape = optional
	}
}
