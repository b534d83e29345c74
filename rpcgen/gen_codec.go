package rpcgen

import (
	"fmt"
	"math"
	"strings"
)

// codec is the body of a function that encodes or decodes.
type codec struct {
	g       *generator
	out     strings.Builder
	needErr bool
	depth   int // of loops
}

func (k *codec) pf(format string, args ...any) { fmt.Fprintf(&k.out, format, args...) }

// try writes an encoding call that may fail.
func (k *codec) try(format string, args ...any) {
	k.needErr = true
	k.pf("if b, err = "+format+"; err != nil {\nreturn b, err\n}\n", args...)
}

// index opens a loop over expr and returns its element.
func (k *codec) index(expr string) string {
	i := "i"
	if k.depth > 0 {
		i = fmt.Sprintf("i%d", k.depth)
	}
	k.depth++
	k.pf("for %s := range %s {\n", i, expr)
	return expr + "[" + i + "]"
}

func (k *codec) closeLoop() {
	k.depth--
	k.pf("}\n")
}

// bound returns f's bound as a Go expression.
func (k *codec) bound(f *field) string {
	if f.bound == nil {
		k.g.use("math")
		return "math.MaxUint32"
	}
	return k.g.goValue(*f.bound)
}

// conv wraps expr in a conversion to typ unless it has that type.
func conv(typ, has, expr string) string {
	if typ == has {
		return expr
	}
	return typ + "(" + expr + ")"
}

var method = map[basic]string{
	boolean: "Bool", int32Type: "Int32", uint32Type: "Uint32", int64Type: "Int64", uint64Type: "Uint64",
	float: "Float32", double: "Float64", quadruple: "Quad",
}

// listOf returns the list struct that f points to, if it does.
func listOf(f *field) *structDecl {
	if s, ok := f.typ.decl.(*structDecl); ok && f.shape == optional && s.list {
		return s
	}
	return nil
}

// append writes the code that appends expr, whose Go type is goType.
func (k *codec) append(f *field, expr, goType string) {
	switch {
	case f.typ.basic == text:
		k.try("xdr.AppendString(b, %s, %s)", conv("string", goType, expr), k.bound(f))
	case f.typ.basic == opaque && f.shape == variable:
		k.try("xdr.AppendOpaque(b, %s, %s)", expr, k.bound(f))
	case f.typ.basic == opaque:
		k.pf("b = xdr.AppendFixedOpaque(b, %s[:])\n", expr)
	case listOf(f) != nil:
		k.try("append%sList(b, %s)", k.g.typeNames[listOf(f)], expr)
	case f.shape == optional:
		k.pf("b = xdr.AppendBool(b, %s != nil)\nif %s != nil {\n", expr, expr)
		k.appendElem(f.typ, deref(f.typ, expr))
		k.pf("}\n")
	case f.shape == fixed:
		k.appendElem(f.typ, k.index(expr))
		k.closeLoop()
	case f.shape == variable:
		k.try("xdr.AppendArrayLen(b, len(%s), %s)", expr, k.bound(f))
		k.appendElem(f.typ, k.index(expr))
		k.closeLoop()
	default:
		k.appendElem(f.typ, expr)
	}
}

// deref returns *expr, in brackets where a method or field follows.
func deref(t typeRef, expr string) string {
	if t.basic == named {
		return "(*" + expr + ")"
	}
	return "*" + expr
}

// addr returns the address of expr.
func addr(expr string) string {
	if p, ok := strings.CutPrefix(expr, "*"); ok {
		return p
	}
	return "&" + expr
}

// receiver undoes deref: a method needs no star.
func receiver(expr string) string {
	if inner, ok := strings.CutPrefix(expr, "(*"); ok && strings.HasSuffix(inner, ")") {
		return strings.TrimSuffix(inner, ")")
	}
	return expr
}

// appendElem appends one value of type t.
func (k *codec) appendElem(t typeRef, expr string) {
	if t.basic != named {
		k.pf("b = xdr.Append%s(b, %s)\n", method[t.basic], expr)
		return
	}
	if d, ok := t.decl.(*typedefDecl); ok {
		name := k.g.typeNames[d]
		switch f := d.field; {
		case f.shape == optional:
			k.try("Append%s(b, %s)", name, expr)
			return
		case f.shape == one && f.typ.basic == named:
			k.appendElem(f.typ, expr)
			return
		case f.shape == one:
			k.pf("b = xdr.Append%s(b, %s(%s))\n", method[f.typ.basic], goBasic[f.typ.basic], expr)
			return
		case f.typ.basic == text:
			k.append(f, expr, name)
			return
		}
	}
	k.try("%s.AppendXDR(b)", receiver(expr))
}

// decode writes the code that reads into expr, whose Go type is goType.
func (k *codec) decode(f *field, expr, goType string) {
	switch {
	case f.typ.basic == text:
		k.pf("%s = %s\n", expr, conv(goType, "string", "d.String("+k.bound(f)+")"))
	case f.typ.basic == opaque && f.shape == variable:
		k.pf("%s = d.Opaque(%s)\n", expr, k.bound(f))
	case f.typ.basic == opaque:
		k.pf("d.FixedOpaque(%s[:])\n", expr)
	case listOf(f) != nil:
		k.check("decode%sList(d, %s)", k.g.typeNames[listOf(f)], addr(expr))
	case f.shape == optional:
		k.pf("%s = nil\nif d.Bool() {\n%s = new(%s)\n", expr, expr, k.g.elemType(f.typ))
		k.decodeElem(f.typ, deref(f.typ, expr))
		k.pf("}\n")
	case f.shape == fixed:
		k.decodeElem(f.typ, k.index(expr))
		k.closeLoop()
	case f.shape == variable:
		k.pf("%s = nil\nif n := d.ArrayLen(%s, %d); n > 0 {\n%s = make([]%s, n)\n", expr, k.bound(f),
			max(1, minTypeSize(f.typ)), expr, k.g.elemType(f.typ))
		k.decodeElem(f.typ, k.index(expr))
		k.closeLoop()
		k.pf("}\n")
	default:
		k.decodeElem(f.typ, expr)
	}
}

// check writes a decoding call that may fail.
func (k *codec) check(format string, args ...any) {
	k.pf("if err := "+format+"; err != nil {\nreturn err\n}\n", args...)
}

// decodeElem reads one value of type t.
func (k *codec) decodeElem(t typeRef, expr string) {
	if t.basic != named {
		k.pf("%s = d.%s()\n", expr, method[t.basic])
		return
	}
	if d, ok := t.decl.(*typedefDecl); ok {
		name := k.g.typeNames[d]
		switch f := d.field; {
		case f.shape == optional:
			k.check("Decode%s(d, %s)", name, addr(expr))
			return
		case f.shape == one && f.typ.basic == named:
			k.decodeElem(f.typ, expr)
			return
		case f.shape == one:
			k.pf("%s = %s(d.%s())\n", expr, name, method[f.typ.basic])
			return
		case f.typ.basic == text:
			k.decode(f, expr, name)
			return
		}
	}
	k.check("%s.DecodeXDR(d)", receiver(expr))
}

// appendFunc writes a function around an encoding body.
func (g *generator) appendFunc(signature string, body func(k *codec), ret string) {
	g.use(xdrPath)
	k := &codec{g: g}
	body(k)
	g.pf("%s ([]byte, error) {\n", signature)
	if k.needErr {
		g.pf("var err error\n")
	}
	g.pf("%s%s}\n\n", k.out.String(), ret)
}

// decodeFunc writes a function around a decoding body.
func (g *generator) decodeFunc(signature, rec string, body func(k *codec), ret string) {
	g.use(xdrPath)
	k := &codec{g: g}
	body(k)
	g.pf("%s error {\n", signature)
	if rec != "" {
		g.pf("%s", rec)
	}
	g.pf("%s%s}\n\n", k.out.String(), ret)
}

const (
	appendOK = "return b, nil\n"
	decodeOK = "return d.Err()\n"
	enter    = "if !d.Enter() {\nreturn d.Err()\n}\ndefer d.Leave()\n"
)

// enterCode returns what the decoder of a recursive type begins with.
func (g *generator) enterCode(d decl) string {
	if g.recursive[d] {
		return enter
	}
	return ""
}

func (g *generator) structCodec(d *structDecl) {
	name := g.typeNames[d]
	fields := d.fields
	if d.list {
		g.listCodec(d, name)
		return
	}
	g.pf("// AppendXDR appends v.\n")
	g.appendFunc("func (v "+name+") AppendXDR(b []byte)", func(k *codec) {
		for _, f := range fields {
			k.append(f, "v."+g.fieldNames[f], g.goType(f))
		}
	}, appendOK)
	g.pf("// DecodeXDR reads v.\n")
	g.decodeFunc("func (v *"+name+") DecodeXDR(d *xdr.Decoder)", g.enterCode(d), func(k *codec) {
		for _, f := range fields {
			k.decode(f, "v."+g.fieldNames[f], g.goType(f))
		}
	}, decodeOK)
}

// listCodec writes the codec of a struct whose last field is the next node.
func (g *generator) listCodec(d *structDecl, name string) {
	fields, next := d.fields[:len(d.fields)-1], g.fieldNames[d.fields[len(d.fields)-1]]
	g.pf("// AppendXDR appends v and the nodes after it.\n")
	g.pf("func (v %s) AppendXDR(b []byte) ([]byte, error) {\nb, err := v.appendNode(b)\nif err != nil {\nreturn b, err\n}\n", name)
	g.pf("return append%sList(b, v.%s)\n}\n\n", name, next)
	g.pf("// DecodeXDR reads v and the nodes after it.\n")
	g.pf("func (v *%s) DecodeXDR(d *xdr.Decoder) error {\nif err := v.decodeNode(d); err != nil {\nreturn err\n}\n", name)
	g.pf("return decode%sList(d, &v.%s)\n}\n\n", name, next)
	g.pf("// appendNode appends v without the nodes after it.\n")
	g.appendFunc("func (v *"+name+") appendNode(b []byte)", func(k *codec) {
		for _, f := range fields {
			k.append(f, "v."+g.fieldNames[f], g.goType(f))
		}
	}, appendOK)
	g.pf("// decodeNode reads v without the nodes after it.\n")
	g.decodeFunc("func (v *"+name+") decodeNode(d *xdr.Decoder)", g.enterCode(d), func(k *codec) {
		for _, f := range fields {
			k.decode(f, "v."+g.fieldNames[f], g.goType(f))
		}
	}, decodeOK)
	var size int64
	for _, f := range d.fields {
		size += minSize(f)
	}
	g.pf("// append%sList appends the list that begins with v, which may be nil.\n", name)
	g.pf("func append%sList(b []byte, v *%s) ([]byte, error) {\nvar err error\n", name, name)
	g.pf("for n := 0; v != nil; v = v.%s {\nif n++; n > xdr.MaxNodes {\nreturn b, xdr.LengthError(\"list\", n, xdr.MaxNodes)\n}\n", next)
	g.pf("b = xdr.AppendBool(b, true)\nif b, err = v.appendNode(b); err != nil {\nreturn b, err\n}\n}\n")
	g.pf("return xdr.AppendBool(b, false), nil\n}\n\n")
	g.pf("// decode%sList reads a list into *p.\n", name)
	g.pf("func decode%sList(d *xdr.Decoder, p **%s) error {\nvar free []%s\nvar slabs xdr.Slabs\nfor d.More() {\n", name, name, name)
	g.pf("if len(free) == 0 {\nfree = make([]%s, slabs.Next(d, %d))\n}\n", name, max(1, min(size, math.MaxInt32)))
	g.pf("n := &free[0]\nfree = free[1:]\nif err := n.decodeNode(d); err != nil {\nreturn err\n}\n*p = n\np = &n.%s\n}\n", next)
	g.pf("*p = nil\nreturn d.Err()\n}\n\n")
}

func (g *generator) unionCodec(d *unionDecl) {
	name, disc := g.typeNames[d], g.fieldNames[d.disc]
	arms := func(k *codec, each func(a *arm), unknown string) {
		k.pf("switch v.%s {\n", disc)
		for _, a := range d.arms {
			if a == d.deflt {
				k.pf("default:\n")
			} else {
				var labels []string
				for _, l := range a.labels {
					labels = append(labels, g.label(d, l))
				}
				k.pf("case %s:\n", strings.Join(labels, ", "))
			}
			if a.field != nil {
				each(a)
			}
		}
		if d.deflt == nil {
			k.pf("default:\n%s", unknown)
		}
		k.pf("}\n")
	}
	number := g.discNumber(d, "v."+disc)
	g.pf("// AppendXDR appends v.\n")
	g.appendFunc("func (v "+name+") AppendXDR(b []byte)", func(k *codec) {
		k.append(d.disc, "v."+disc, g.goType(d.disc))
		arms(k, func(a *arm) { k.append(a.field, "v."+g.fieldNames[a.field], g.goType(a.field)) },
			fmt.Sprintf("return b, xdr.UnionError(%q, %s)\n", d.name, number))
	}, appendOK)
	g.pf("// DecodeXDR reads v.\n")
	g.decodeFunc("func (v *"+name+") DecodeXDR(d *xdr.Decoder)", g.enterCode(d), func(k *codec) {
		k.pf("*v = %s{}\n", name)
		k.decode(d.disc, "v."+disc, g.goType(d.disc))
		arms(k, func(a *arm) { k.decode(a.field, "v."+g.fieldNames[a.field], g.goType(a.field)) },
			fmt.Sprintf("d.Fail(xdr.UnionError(%q, %s))\n", d.name, number))
	}, decodeOK)
}

// label returns a case label in Go.
func (g *generator) label(d *unionDecl, l value) string {
	if d.disc.base().basic == boolean {
		if n := g.c.eval(l); n != nil && n.Sign() == 0 {
			return "false"
		}
		return "true"
	}
	s := g.goValue(l)
	if k := g.c.consts[l.text]; k != nil && k.enum != nil {
		if e, ok := d.disc.base().decl.(*enumDecl); !ok || e != k.enum {
			return g.goType(d.disc) + "(" + s + ")"
		}
	}
	return s
}

// discNumber returns a discriminant as an int64, for messages.
func (g *generator) discNumber(d *unionDecl, expr string) string {
	if d.disc.base().basic == boolean {
		return "0" // a bool union without an arm: which one it was is clear
	}
	return "int64(" + expr + ")"
}

// aliasCodec writes the functions of a typedef of a pointer.
func (g *generator) aliasCodec(name string, f *field) {
	g.pf("// Append%s appends v.\n", name)
	g.appendFunc("func Append"+name+"(b []byte, v "+name+")", func(k *codec) { k.append(f, "v", name) }, appendOK)
	g.pf("// Decode%s reads *v.\n", name)
	g.decodeFunc("func Decode"+name+"(d *xdr.Decoder, v *"+name+")", "", func(k *codec) { k.decode(f, "*v", name) }, decodeOK)
}

// definedCodec writes the methods of a typedef that is a Go type of its own.
func (g *generator) definedCodec(d *typedefDecl, name string, f *field) {
	g.pf("// AppendXDR appends v.\n")
	g.appendFunc("func (v "+name+") AppendXDR(b []byte)", func(k *codec) {
		expr := "v"
		if f.shape == one {
			expr = conv(g.goType(f), name, expr)
		}
		k.append(f, expr, name)
	}, appendOK)
	g.pf("// DecodeXDR reads v.\n")
	g.decodeFunc("func (v *"+name+") DecodeXDR(d *xdr.Decoder)", g.enterCode(d), func(k *codec) {
		if f.shape == one {
			k.pf("*v = %s(d.%s())\n", name, method[f.typ.basic])
			return
		}
		k.decode(f, "(*v)", name)
	}, decodeOK)
}
