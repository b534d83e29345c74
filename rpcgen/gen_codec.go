package rpcgen

import (
	"fmt"
	"math"
	"strings"
)

// appendFunc writes an encoding function: its signature up to the results, and
// the code that body writes.
func (g *generator) appendFunc(signature string, k codec, body func(k *codec)) {
	g.use(xdrPath)
	k.g = g
	body(&k)
	g.pf("%s ([]byte, error) {\n%s}", signature, k.appendBody())
}

// decodeFunc writes a decoding function.
func (g *generator) decodeFunc(signature string, body func(k *codec)) {
	g.use(xdrPath)
	k := codec{g: g, fail: "return err"}
	body(&k)
	g.pf("%s error {\n%s}", signature, k.decodeBody())
}

// methods writes AppendXDR and DecodeXDR of the type d, which is name in Go.
// Those of a recursive type count how deep they are.
func (g *generator) methods(d decl, name string, enc, dec func(k *codec)) {
	if g.recursive[d] {
		g.pf("// AppendXDR appends v.\nfunc (v %s) AppendXDR(b []byte) ([]byte, error) {\nreturn v.appendDepth(b, 0)\n}\n\n", name)
		g.pf("// appendDepth appends v, which is depth values of its own kind down.\n")
		g.appendFunc("func (v "+name+") appendDepth(b []byte, depth int)", codec{deep: true}, func(k *codec) {
			k.tooDeep()
			enc(k)
		})
	} else {
		g.pf("// AppendXDR appends v.\n")
		g.appendFunc("func (v "+name+") AppendXDR(b []byte)", codec{}, enc)
	}
	g.pf("\n\n// DecodeXDR reads v.\n")
	g.decodeFunc("func (v *"+name+") DecodeXDR(d *xdr.Decoder)", func(k *codec) {
		k.enter(d)
		dec(k)
	})
	g.pf("\n\n")
}

// tooDeep writes what an encoding function of a recursive type begins with.
func (k *codec) tooDeep() {
	k.pf("if depth >= xdr.MaxDepth {\nreturn b, xdr.DepthError()\n}\n")
}

// enter writes what a decoding function of a recursive type begins with.
func (k *codec) enter(d decl) {
	if k.g.recursive[d] {
		k.pf("if !d.Enter() {\nreturn d.Err()\n}\ndefer d.Leave()\n")
	}
}

// appendFields appends the fields of v.
func (k *codec) appendFields(d decl, fields []*field) {
	for _, f := range fields {
		k.where = d.head().name + "." + f.name
		k.append(f, "v."+k.g.names.fields[f], k.g.goType(f))
	}
}

// decodeFields reads the fields of v.
func (k *codec) decodeFields(fields []*field) {
	for _, f := range fields {
		k.decode(f, "v."+k.g.names.fields[f], k.g.goType(f))
	}
}

func (g *generator) structCodec(d *structDecl) {
	if d.list {
		g.listCodec(d, g.typeNames[d])
		return
	}
	g.methods(d, g.typeNames[d],
		func(k *codec) { k.appendFields(d, d.fields) },
		func(k *codec) { k.decodeFields(d.fields) })
	g.sizeMethod(d, g.typeNames[d], func(k *sizer) { k.fields(d.fields) })
}

// listCodec writes the codec of a struct whose last field is the next node: a
// loop over the nodes.
func (g *generator) listCodec(d *structDecl, name string) {
	last := len(d.fields) - 1
	fields, next := d.fields[:last], g.names.fields[d.fields[last]]
	method, param, pass := "AppendXDR", "", ""
	g.pf("// AppendXDR appends v and the nodes after it.\n")
	if g.recursive[d] {
		method, param, pass = "appendDepth", ", depth int", ", depth"
		g.pf("func (v %s) AppendXDR(b []byte) ([]byte, error) { return v.appendDepth(b, 0) }\n\n", name)
		g.pf("// appendDepth appends v and the nodes after it, which are depth values of their own kind down.\n")
	}
	g.pf("func (v %s) %s(b []byte%s) ([]byte, error) {\nb, err := v.appendNode(b%s)\nif err != nil {\nreturn b, err\n}\n", name, method, param, pass)
	g.pf("return append%sList(b, v.%s%s)\n}\n\n", name, next, pass)
	g.pf("// DecodeXDR reads v and the nodes after it.\n")
	g.pf("func (v *%s) DecodeXDR(d *xdr.Decoder) error {\nif err := v.decodeNode(d); err != nil {\nreturn err\n}\n", name)
	g.pf("return decode%sList(d, &v.%s)\n}\n\n", name, next)

	g.pf("// appendNode appends v without the nodes after it.\n")
	g.appendFunc("func (v *"+name+") appendNode(b []byte"+param+")", codec{deep: g.recursive[d]}, func(k *codec) {
		if k.deep {
			k.tooDeep()
		}
		k.appendFields(d, fields)
	})
	g.pf("\n\n// decodeNode reads v without the nodes after it.\n")
	g.decodeFunc("func (v *"+name+") decodeNode(d *xdr.Decoder)", func(k *codec) {
		k.enter(d)
		k.decodeFields(fields)
	})

	g.listLoops(d, name, fields, next)
	g.sizeMethod(d, name, func(k *sizer) { k.fields(d.fields) })
	g.sizeOfList(d, name, fields, next)
}

// listLoops writes the functions that append and read a list. What a node takes
// stands in the loop itself, unless it is recursive.
func (g *generator) listLoops(d *structDecl, name string, fields []*field, next string) {
	param, pass := "", ""
	if g.recursive[d] {
		param, pass = ", depth int", ", depth"
	}
	enc := codec{g: g}
	if g.recursive[d] {
		enc.pf("if b, err = v.appendNode(b%s); err != nil {\nreturn b, err\n}\n", pass)
	} else {
		enc.appendFields(d, fields)
	}
	g.pf("\n\n// append%sList appends the list that begins with v, which may be nil.\n", name)
	g.pf("func append%sList(b []byte, v *%s%s) ([]byte, error) {\n", name, name, param)
	if g.recursive[d] || enc.tries > 0 {
		g.pf("var err error\n")
	}
	g.pf("for n := 0; v != nil; v = v.%s {\nif n++; n > xdr.MaxNodes {\nreturn b, xdr.LengthError(\"list\", n, xdr.MaxNodes)\n}\n", next)
	g.pf("b = xdr.AppendBool(b, true)\n%s}\nreturn xdr.AppendBool(b, false), nil\n}\n\n", enc.out)

	dec := codec{g: g, fail: "return err"}
	if g.recursive[d] {
		dec.pf("if err := v.decodeNode(d); err != nil {\nreturn err\n}\n")
	} else {
		dec.decodeFields(fields)
	}
	size := max(1, min(g.minTypeSize(typeRef{decl: d}), math.MaxInt32))
	g.pf("// decode%sList reads a list into *p.\n", name)
	g.pf("func decode%sList(d *xdr.Decoder, p **%s) error {\nvar free []%s\nvar slabs xdr.Slabs\n*p = nil\nfor d.More() {\n", name, name, name)
	g.pf("if len(free) == 0 {\nfree = make([]%s, slabs.Next(d, %d))\n}\nv := &free[0]\nfree = free[1:]\n", name, size)
	g.pf("%s*p = v\np = &v.%s\n}\nreturn d.Err()\n}\n\n", dec.out, next)
}

func (g *generator) unionCodec(d *unionDecl) {
	name, disc := g.typeNames[d], "v."+g.names.fields[d.disc]
	unknown := fmt.Sprintf("xdr.UnionError(%q, %s)", d.name, g.discNumber(d, disc))
	g.methods(d, name,
		func(k *codec) {
			k.appendFields(d, []*field{d.disc})
			k.arms(d, "return b, "+unknown, func(f *field) { k.appendFields(d, []*field{f}) })
		},
		func(k *codec) {
			k.pf("*v = %s{}\n", name)
			k.decodeFields([]*field{d.disc})
			k.arms(d, "d.Fail("+unknown+")", func(f *field) { k.decodeFields([]*field{f}) })
		})
	g.sizeMethod(d, name, func(k *sizer) { k.union(d) })
}

// arms writes a switch over the arms of a union.
func (k *codec) arms(d *unionDecl, unknown string, each func(f *field)) {
	k.pf("switch v.%s {\n", k.g.names.fields[d.disc])
	for _, a := range d.arms {
		k.pf("%s", k.g.caseOf(d, a))
		if a.field != nil {
			each(a.field)
		}
	}
	if d.deflt == nil {
		k.pf("default:\n%s\n", unknown)
	}
	k.pf("}\n")
}

// caseOf returns what selects an arm in a switch.
func (g *generator) caseOf(d *unionDecl, a *arm) string {
	if a == d.deflt {
		return "default:\n"
	}
	labels := make([]string, len(a.labels))
	for i, l := range a.labels {
		labels[i] = g.label(d, l)
	}
	return "case " + strings.Join(labels, ", ") + ":\n"
}

// label returns a case label in Go.
func (g *generator) label(d *unionDecl, l value) string {
	base := d.disc.base()
	if base.basic == boolean {
		return fmt.Sprint(g.eval(l).Sign() != 0)
	}
	if k := g.constNamed(l.text); k != nil && k.enum != nil && base.decl == k.enum {
		return g.named(g.constNames[l.text])
	}
	return g.goValue(l)
}

// discNumber returns a discriminant without an arm as an int64, for messages.
func (g *generator) discNumber(d *unionDecl, expr string) string {
	if d.disc.base().basic != boolean {
		return "int64(" + expr + ")"
	}
	if len(d.arms) > 0 && len(d.arms[0].labels) > 0 && g.label(d, d.arms[0].labels[0]) == "false" {
		return "1"
	}
	return "0"
}

// aliasCodec writes the functions of a typedef of a pointer, an alias in Go.
func (g *generator) aliasCodec(d *typedefDecl, name string, f *field) {
	g.pf("// Append%s appends v.\n", name)
	g.appendFunc("func Append"+name+"(b []byte, v "+name+")", codec{where: d.name}, func(k *codec) { k.append(f, "v", name) })
	g.pf("\n\n// Decode%s reads *v.\n", name)
	g.decodeFunc("func Decode"+name+"(d *xdr.Decoder, v *"+name+")", func(k *codec) { k.decode(f, "(*v)", name) })
	k := sizer{g: g}
	k.size(f, "v")
	g.pf("\n\n// Size%s returns how many bytes Append%s appends, less than 0 where it fails for depth or length.\nfunc Size%s(v %s) int {\n%s}\n\n", name, name, name, name, k.body())
}

// definedCodec writes the methods of a typedef that is a Go type of its own.
func (g *generator) definedCodec(d *typedefDecl, name string, f *field) {
	g.methods(d, name,
		func(k *codec) {
			k.where = d.name
			expr := "v"
			if f.shape == one {
				expr = g.goType(f) + "(v)"
			}
			k.append(f, expr, name)
		},
		func(k *codec) {
			if f.shape == one {
				k.pf("*v = %s(d.%s())\n", name, method[f.typ.basic])
				return
			}
			k.decode(f, "(*v)", name)
		})
	g.sizeMethod(d, name, func(k *sizer) { k.size(f, "v") })
}
