package rpcgen

import (
	"fmt"
	"strings"
)

// sizer writes what computes the size of values on the wire: a constant, and
// statements that add to n.
type sizer struct {
	g     *generator
	fixed int64
	out   strings.Builder
	loops int
}

func (k *sizer) pf(format string, args ...any) { fmt.Fprintf(&k.out, format, args...) }

// block returns the statements that f writes, its constant first.
func (k *sizer) block(f func(k *sizer)) string {
	in := sizer{g: k.g, loops: k.loops}
	f(&in)
	if in.fixed == 0 {
		return in.out.String()
	}
	return fmt.Sprintf("n += %d\n", in.fixed) + in.out.String()
}

// body returns the body of a function that returns the size.
func (k *sizer) body() string {
	if k.out.Len() == 0 {
		return fmt.Sprintf("return %d\n", k.fixed)
	}
	stmts := k.out.String()
	one, ok := strings.CutPrefix(stmts, "n += ")
	switch {
	case ok && strings.Count(stmts, "\n") == 1 && k.fixed == 0:
		return "return " + one
	case ok && strings.Count(stmts, "\n") == 1:
		return fmt.Sprintf("return %d + %s", k.fixed, one)
	}
	return fmt.Sprintf("n := %d\n%sreturn n\n", k.fixed, stmts)
}

// maxFixed bounds what counts as a constant; larger arrays are added up.
const maxFixed = 1 << 30

// fixedSize returns the size of a value of type t where all have the same.
func (g *generator) fixedSize(t typeRef) (int64, bool) {
	if t.basic != named {
		return basicSize(t.basic), true
	}
	switch d := t.decl.(type) {
	case *enumDecl:
		return 4, true
	case *typedefDecl:
		return g.fixedField(d.field)
	case *structDecl:
		var n int64
		for _, f := range d.fields {
			size, ok := g.fixedField(f)
			if n += size; !ok || n > maxFixed {
				return 0, false
			}
		}
		return n, true
	}
	return 0, false
}

func (g *generator) fixedField(f *field) (int64, bool) {
	switch {
	case f.shape == optional || f.shape == variable:
		return 0, false
	case f.shape == fixed && f.typ.basic == opaque:
		return (int64(f.size) + 3) &^ 3, true
	}
	n, ok := g.fixedSize(f.typ)
	if f.shape == fixed {
		n *= int64(f.size)
	}
	return n, ok && n <= maxFixed
}

func basicSize(b basic) int64 {
	switch b {
	case int64Type, uint64Type, double:
		return 8
	case quadruple:
		return 16
	}
	return 4
}

// size adds that of expr, a field.
func (k *sizer) size(f *field, expr string) {
	if n, ok := k.g.fixedField(f); ok {
		k.fixed += n
		return
	}
	list := k.g.listOf(f)
	switch {
	case f.typ.basic == text || f.typ.basic == opaque:
		k.pf("n += xdr.OpaqueSize(len(%s))\n", expr)
	case list != nil:
		k.pf("n += size%sList(%s)\n", k.g.typeNames[list], expr)
	case f.shape == optional:
		k.fixed += 4
		k.pf("if %s != nil {\n%s}\n", expr, k.block(func(k *sizer) { k.elem(f.typ, deref(f.typ, expr)) }))
	case f.shape == one:
		k.elem(f.typ, expr)
	default:
		if f.shape == variable {
			k.fixed += 4
		}
		k.elems(f.typ, expr)
	}
}

// elems adds the elements of expr, an array. It ends with what cannot be written.
func (k *sizer) elems(t typeRef, expr string) {
	if n, ok := k.g.fixedSize(t); ok {
		if n > 0 {
			k.pf("n += %d * len(%s)\n", n, expr)
		}
		return
	}
	k.loops++
	i := "i"
	if k.loops > 1 {
		i = fmt.Sprintf("i%d", k.loops)
	}
	k.pf("for %s := range %s {\n%sif n < 0 {\nreturn n\n}\n}\n", i, expr, k.block(func(k *sizer) { k.elem(t, expr+"["+i+"]") }))
	k.loops--
}

// elem adds one value of type t.
func (k *sizer) elem(t typeRef, expr string) {
	if n, ok := k.g.fixedSize(t); ok {
		k.fixed += n
		return
	}
	if d, ok := t.decl.(*typedefDecl); ok {
		switch f := d.field; {
		case f.shape == one && f.typ.basic == named:
			k.elem(f.typ, expr)
			return
		case f.shape == optional || f.typ.basic == text:
			k.size(f, expr)
			return
		}
	}
	k.pf("n += %s.XDRSize()\n", receiver(expr))
}

// sizeMethod writes XDRSize of the type d, which is name in Go.
func (g *generator) sizeMethod(d decl, name string, body func(k *sizer)) {
	g.pf("// XDRSize returns how many bytes AppendXDR appends, less than 0 where it fails for depth or length.\n")
	if g.recursive[d] {
		g.pf("func (v %s) XDRSize() int { return xdr.Measure(v) }\n\n", name)
		return
	}
	k := sizer{g: g}
	body(&k)
	receives := "v " + name
	if k.out.Len() == 0 {
		receives = name
	}
	g.pf("func (%s) XDRSize() int {\n%s}\n\n", receives, k.body())
}

func (k *sizer) fields(fields []*field) {
	for _, f := range fields {
		k.size(f, "v."+k.g.names.fields[f])
	}
}

// union adds the discriminant and the arm that counts.
func (k *sizer) union(d *unionDecl) {
	k.size(d.disc, "v."+k.g.names.fields[d.disc])
	cases := ""
	for _, a := range d.arms {
		body := ""
		if a.field != nil {
			body = k.block(func(k *sizer) { k.fields([]*field{a.field}) })
		}
		cases += k.g.caseOf(d, a) + body
	}
	if strings.Contains(cases, "n += ") {
		k.pf("switch v.%s {\n%s}\n", k.g.names.fields[d.disc], cases)
	}
}

// sizeOfList writes the function that adds up a list.
func (g *generator) sizeOfList(d *structDecl, name string, fields []*field, next string) {
	g.pf("// size%sList returns how many bytes append%sList appends, less than 0 where it fails.\nfunc size%sList(v *%s) int {\n", name, name, name, name)
	if g.recursive[d] {
		g.pf("return xdr.Measure(xdr.AppendFunc(func(b []byte) ([]byte, error) { return append%sList(b, v, 0) }))\n}\n\n", name)
		return
	}
	k := sizer{g: g, fixed: 4} // the flag before a node
	k.fields(fields)
	g.pf("n := 4\nfor nodes := 0; v != nil; v = v.%s {\nif nodes++; nodes > xdr.MaxNodes {\nreturn xdr.NoSize\n}\n", next)
	g.pf("n += %d\n%s", k.fixed, k.out.String())
	if k.out.Len() > 0 {
		g.pf("if n < 0 {\nreturn n\n}\n")
	}
	g.pf("}\nreturn n\n}\n\n")
}
