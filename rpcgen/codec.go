package rpcgen

import (
	"fmt"
	"strings"
)

// codec writes the statements of a function that encodes or decodes.
type codec struct {
	g     *generator
	out   []byte
	tries int // encoding calls that may fail
	loops int
	// where names the field that is being written, for error messages.
	where string
	// deep says that the function has a parameter depth, to hand on.
	deep bool
	// fail is the statement after a decoding call that failed.
	fail string
	// last is a call that can stand in the return statement, if the code from
	// lastFrom to lastTo is still the end.
	last             string
	lastFrom, lastTo int
	lastTry          bool
}

func (k *codec) pf(format string, args ...any) { k.out = fmt.Appendf(k.out, format, args...) }

// plain writes b = call.
func (k *codec) plain(call string) {
	k.last, k.lastFrom, k.lastTry = call+", nil", len(k.out), false
	k.pf("b = %s\n", call)
	k.lastTo = len(k.out)
}

// try writes an encoding call that may fail, by way of a function that names
// the field itself.
func (k *codec) try(call string) {
	k.last, k.lastFrom, k.lastTry = call, len(k.out), true
	k.tries++
	k.pf("if b, err = %s; err != nil {\nreturn b, err\n}\n", call)
	k.lastTo = len(k.out)
}

// tryField is try for a call that does not know the field.
func (k *codec) tryField(call string) {
	k.tries++
	k.pf("if b, err = %s; err != nil {\nreturn b, xdr.FieldError(%q, err)\n}\n", call, k.where)
}

// check writes a decoding call that may fail.
func (k *codec) check(call string) {
	k.last, k.lastFrom = call, len(k.out)
	k.pf("if err := %s; err != nil {\n%s\n}\n", call, k.fail)
	k.lastTo = len(k.out)
}

// atEnd says whether the last call is the last thing written.
func (k *codec) atEnd() bool { return k.last != "" && k.loops == 0 && k.lastTo == len(k.out) }

// appendBody returns the body of an encoding function.
func (k *codec) appendBody() string {
	ret := "return b, nil\n"
	if k.atEnd() {
		ret = "return " + k.last + "\n"
		k.out = k.out[:k.lastFrom]
		if k.lastTry {
			k.tries--
		}
	}
	head := ""
	if k.tries > 0 {
		head = "var err error\n"
	}
	return head + string(k.out) + ret
}

// decodeBody returns the body of a decoding function.
func (k *codec) decodeBody() string {
	if k.atEnd() {
		return string(k.out[:k.lastFrom]) + "return " + k.last + "\n"
	}
	return string(k.out) + "return d.Err()\n"
}

// index opens a loop over expr and returns its element.
func (k *codec) index(expr string) string {
	k.loops++
	i := "i"
	if k.loops > 1 {
		i = fmt.Sprintf("i%d", k.loops)
	}
	k.pf("for %s := range %s {\n", i, expr)
	return expr + "[" + i + "]"
}

func (k *codec) closeLoop() {
	k.loops--
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

// method are the names behind xdr.Append and Decoder's of the basic types.
var method = map[basic]string{
	boolean: "Bool", int32Type: "Int32", uint32Type: "Uint32", int64Type: "Int64", uint64Type: "Uint64",
	int8Type: "Int8", uint8Type: "Uint8", int16Type: "Int16", uint16Type: "Uint16",
	float: "Float32", double: "Float64", quadruple: "Quad",
}

// conv wraps expr, which is of type has, in a conversion to typ if need be.
func conv(typ, has, expr string) string {
	if typ == has {
		return expr
	}
	return typ + "(" + expr + ")"
}

// deref returns *expr, in brackets where a method or field follows.
func deref(t typeRef, expr string) string {
	if t.basic == named {
		return "(*" + expr + ")"
	}
	return "*" + expr
}

// receiver undoes deref: a method needs no star.
func receiver(expr string) string {
	inner, ok := strings.CutPrefix(expr, "(*")
	depth := 1
	for i := 0; ok && i < len(inner); i++ {
		switch inner[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 && i == len(inner)-1 {
			return inner[:i]
		}
		ok = depth > 0
	}
	return expr
}

// addr returns the address of expr.
func addr(expr string) string {
	if p := receiver(expr); p != expr {
		return p
	}
	return "&" + expr
}

// listOf returns the list struct that f points to, if it does. An imported one
// does not count: its methods take the nodes after it along.
func (g *generator) listOf(f *field) *structDecl {
	if s, ok := f.base().decl.(*structDecl); ok && f.shape == optional && s.list && !g.foreign[s] {
		return s
	}
	return nil
}

// append writes the code that appends expr, whose Go type is goType.
func (k *codec) append(f *field, expr, goType string) {
	switch {
	case f.typ.basic == text:
		k.tryField(fmt.Sprintf("xdr.AppendString(b, %s, %s)", conv("string", goType, expr), k.bound(f)))
	case f.typ.basic == opaque && f.shape == variable:
		k.tryField(fmt.Sprintf("xdr.AppendOpaque(b, %s, %s)", expr, k.bound(f)))
	case f.typ.basic == opaque:
		k.plain(fmt.Sprintf("xdr.AppendFixedOpaque(b, %s[:])", expr))
	case k.g.listOf(f) != nil:
		k.try(fmt.Sprintf("append%sList(b, %s%s)", k.g.typeNames[k.g.listOf(f)], expr, k.depth(k.g.listOf(f))))
	case f.shape == optional:
		k.pf("b = xdr.AppendBool(b, %s != nil)\nif %s != nil {\n", expr, expr)
		k.appendElem(f.typ, deref(f.typ, expr))
		k.pf("}\n")
	case f.shape == fixed:
		k.appendElem(f.typ, k.index(expr))
		k.closeLoop()
	case f.shape == variable:
		k.tryField(fmt.Sprintf("xdr.AppendArrayLen(b, len(%s), %s)", expr, k.bound(f)))
		k.appendElem(f.typ, k.index(expr))
		k.closeLoop()
	default:
		k.appendElem(f.typ, expr)
	}
}

// depth returns the argument that hands on the depth to a list of d's.
func (k *codec) depth(d decl) string {
	switch {
	case !k.g.recursive[d]:
		return ""
	case k.deep:
		return ", depth+1"
	}
	return ", 0"
}

// appendElem appends one value of type t.
func (k *codec) appendElem(t typeRef, expr string) {
	if t.basic != named {
		k.plain(fmt.Sprintf("xdr.Append%s(b, %s)", method[t.basic], expr))
		return
	}
	if d, ok := t.decl.(*typedefDecl); ok {
		f, name := d.field, k.g.typeNames[d]
		switch {
		case f.shape == one && f.typ.basic == named:
			k.appendElem(f.typ, expr)
			return
		case f.shape == one:
			k.plain(fmt.Sprintf("xdr.Append%s(b, %s(%s))", method[f.typ.basic], goBasic[f.typ.basic], strip(expr)))
			return
		case f.shape == optional || f.typ.basic == text:
			k.append(f, expr, name)
			return
		}
	}
	if k.deep && k.g.recursive[t.decl] {
		k.try(receiver(expr) + ".appendDepth(b, depth+1)")
		return
	}
	k.try(receiver(expr) + ".AppendXDR(b)")
}

// strip takes the brackets off a deref that stands alone.
func strip(expr string) string {
	if p := receiver(expr); p != expr {
		return "*" + p
	}
	return expr
}

// decode writes the code that reads into expr, whose Go type is goType.
func (k *codec) decode(f *field, expr, goType string) {
	switch {
	case f.typ.basic == text:
		k.pf("%s = %s\n", strip(expr), conv(goType, "string", "d.String("+k.bound(f)+")"))
	case f.typ.basic == opaque && f.shape == variable:
		k.pf("%s = d.Opaque(%s)\n", strip(expr), k.bound(f))
	case f.typ.basic == opaque:
		k.pf("d.FixedOpaque(%s[:])\n", expr)
	case k.g.listOf(f) != nil:
		k.check(fmt.Sprintf("decode%sList(d, %s)", k.g.typeNames[k.g.listOf(f)], addr(expr)))
	case f.shape == optional:
		k.pf("%s = nil\nif d.Bool() {\n%s = new(%s)\n", strip(expr), strip(expr), k.g.elemType(f.typ))
		k.decodeElem(f.typ, deref(f.typ, expr))
		k.pf("}\n")
	case f.shape == fixed:
		k.decodeElem(f.typ, k.index(expr))
		k.closeLoop()
	case f.shape == variable:
		k.pf("%s = nil\nif n := d.ArrayLen(%s, %d); n > 0 {\n%s = make([]%s, n)\n", strip(expr), k.bound(f),
			max(1, k.g.minTypeSize(f.typ)), strip(expr), k.g.elemType(f.typ))
		k.decodeElem(f.typ, k.index(expr))
		k.closeLoop()
		k.pf("}\n")
	default:
		k.decodeElem(f.typ, expr)
	}
}

// decodeElem reads one value of type t.
func (k *codec) decodeElem(t typeRef, expr string) {
	if t.basic != named {
		k.pf("%s = d.%s()\n", strip(expr), method[t.basic])
		return
	}
	if d, ok := t.decl.(*typedefDecl); ok {
		f, name := d.field, k.g.named(k.g.typeNames[d])
		switch {
		case f.shape == one && f.typ.basic == named:
			k.decodeElem(f.typ, expr)
			return
		case f.shape == one:
			k.pf("%s = %s(d.%s())\n", strip(expr), name, method[f.typ.basic])
			return
		case f.shape == optional || f.typ.basic == text:
			k.decode(f, expr, name)
			return
		}
	}
	k.check(receiver(expr) + ".DecodeXDR(d)")
}
