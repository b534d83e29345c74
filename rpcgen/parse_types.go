package rpcgen

// typeSpec reads a type's name: a built-in one, or that of a declaration.
func (p *parser) typeSpec() typeRef {
	t := p.cur()
	if t.kind != tokIdent {
		p.fail(t.pos, "a type expected, not %s", t)
	}
	p.step()
	ref := typeRef{pos: t.pos}
	switch t.text {
	case "unsigned":
		ref.basic = uint32Type
		if p.accept("hyper") {
			ref.basic = uint64Type
			p.accept("int")
		} else if !p.accept("int") {
			if w := p.cur().text; w == "long" || w == "short" || w == "char" {
				p.step()
			}
		}
		return ref
	case "enum", "struct", "union":
		if p.is("{") || p.is("switch") {
			p.fail(p.cur().pos, "%s without a name is not known here: declare it on its own", t.text)
		}
		ref.name, ref.pos = p.ident("the name of the " + t.text)
		return ref
	}
	if b, ok := builtin[t.text]; ok {
		ref.basic = b
		return ref
	}
	if keywords[t.text] {
		p.fail(t.pos, "a type expected, but '%s' is a word of the language", t.text)
	}
	ref.name = t.text
	return ref
}

// builtin are the types of RFC 4506, and the C names for them that rpcgen takes.
var builtin = map[string]basic{
	"void": void, "bool": boolean, "int": int32Type, "hyper": int64Type, "float": float, "double": double,
	"quadruple": quadruple, "string": text, "opaque": opaque,
	"long": int32Type, "short": int32Type, "char": int32Type, "u_int": uint32Type, "u_long": uint32Type,
	"u_short": uint32Type, "u_char": uint32Type, "longlong_t": int64Type, "u_longlong_t": uint64Type,
	"quad_t": int64Type, "u_quad_t": uint64Type, "int8_t": int32Type, "int16_t": int32Type, "int32_t": int32Type,
	"int64_t": int64Type, "uint8_t": uint32Type, "uint16_t": uint32Type, "uint32_t": uint32Type, "uint64_t": uint64Type,
}

// field reads a declaration of RFC 4506 section 6.3; its name is "" for void.
func (p *parser) field() *field {
	f := &field{typ: p.typeSpec()}
	if f.typ.basic == void {
		return f
	}
	if p.accept("*") {
		f.shape = optional
	}
	f.name, f.pos = p.ident("a name")
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

func (p *parser) programDecl(d docs) decl {
	p.step()
	g := &programDecl{}
	g.name, g.pos = p.ident("the program's name")
	p.open("program "+g.name, &d)
	g.docs = d
	for !p.is("}") {
		g.versions = append(g.versions, p.version())
	}
	if len(g.versions) == 0 {
		p.fail(p.cur().pos, "program %s has no versions", g.name)
	}
	p.step()
	p.expect("=", "'}'")
	g.num = p.value("the program's number")
	p.expect(";", "the number")
	return g
}

func (p *parser) version() *version {
	d := leadDocs(p.cur())
	p.expect("version", "the version before")
	v := &version{}
	v.name, v.pos = p.ident("the version's name")
	p.open("version "+v.name, &d)
	for !p.is("}") {
		v.procs = append(v.procs, p.proc())
	}
	p.step()
	p.expect("=", "'}'")
	v.num = p.value("the version's number")
	d.tailDocs(p.expect(";", "the number"))
	v.docs = d
	return v
}

func (p *parser) proc() *proc {
	r := &proc{docs: leadDocs(p.cur())}
	r.result = p.procType()
	r.name, r.pos = p.ident("the procedure's name")
	p.expect("(", r.name)
	if !p.is(")") {
		for {
			r.args = append(r.args, p.procType())
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
			p.fail(a.typ.pos, "void among other arguments")
		}
	}
	p.expect(")", "the arguments")
	p.expect("=", "')'")
	r.num = p.value("the procedure's number")
	r.docs.tailDocs(p.expect(";", "the number"))
	return r
}

// procType reads the type of an argument or result.
func (p *parser) procType() *field {
	f := &field{typ: p.typeSpec()}
	if f.typ.basic == opaque {
		p.fail(f.typ.pos, "opaque cannot be an argument or result: typedef it")
	}
	if f.typ.basic == text {
		f.shape = variable
		if p.accept("<") {
			if !p.is(">") {
				v := p.value("the bound")
				f.bound = &v
			}
			p.expect(">", "the bound")
		}
		return f
	}
	if p.accept("*") {
		f.shape = optional
	}
	return f
}
