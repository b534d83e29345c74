package rpcgen

import (
	"fmt"
	gotoken "go/token"
	"strconv"
	"strings"
)

// types writes constants, types and their codecs.
func (g *generator) types() {
	for _, d := range g.f.decls {
		switch d := d.(type) {
		case *constDecl:
			g.apart(d.docs)
			g.comment(d.docs.lead)
			name := g.constNames[d.name]
			g.pf("const %s = %s%s%s\n\n", name, g.goValue(d.val), tail(d.docs), renamed(name, d.name, d.name))
			if exported := g.names.exported[name]; exported != "" {
				g.pf("// %s is %s for other packages.\nconst %s = %s\n\n", exported, name, exported, name)
			}
		case *enumDecl:
			g.enum(d)
		case *structDecl:
			g.structType(d)
		case *unionDecl:
			g.unionType(d)
		case *typedefDecl:
			g.typedef(d)
		case *programDecl:
			g.programConsts(d)
		}
	}
	for _, c := range g.f.tail {
		g.comment(c.lines)
		g.pf("\n")
	}
}

// goValue returns a number, a string or a constant's Go name, as an untyped
// constant.
func (g *generator) goValue(v value) string {
	switch name, ok := g.constNames[v.text]; {
	case v.isString:
		text, err := strconv.Unquote(`"` + v.text + `"`)
		if err != nil {
			return strconv.Quote(v.text)
		}
		return strconv.Quote(text)
	case !isName(v.text):
		return v.text
	case !ok: // from a %#define
		return g.eval(v).String()
	default:
		for k := g.numberNamed(v.text); k != nil && k.num != nil; k = g.numberNamed(k.val.text) {
			if k.enum != nil || k.pos.Line == 0 {
				return k.num.String() // its Go constant has a type of its own
			}
			if k.val == nil {
				break
			}
		}
		return g.named(name)
	}
}

// goType returns the Go type of f.
func (g *generator) goType(f *field) string {
	switch {
	case f.typ.basic == text:
		return "string"
	case f.typ.basic == opaque && f.shape == variable:
		return "[]byte"
	case f.shape == optional:
		return "*" + g.elemType(f.typ)
	case f.shape == fixed:
		return "[" + g.goValue(*f.bound) + "]" + g.elemType(f.typ)
	case f.shape == variable:
		return "[]" + g.elemType(f.typ)
	}
	return g.elemType(f.typ)
}

var goBasic = map[basic]string{
	boolean: "bool", int32Type: "int32", uint32Type: "uint32", int64Type: "int64", uint64Type: "uint64",
	int8Type: "int8", uint8Type: "uint8", int16Type: "int16", uint16Type: "uint16",
	float: "float32", double: "float64", quadruple: "[16]byte", text: "string", opaque: "byte",
}

func (g *generator) elemType(t typeRef) string {
	if t.basic != named {
		return goBasic[t.basic]
	}
	return g.named(g.typeNames[t.decl])
}

func (g *generator) enum(d *enumDecl) {
	name := g.typeNames[d]
	g.doc(name+" is the enum "+d.name+".", d.docs)
	g.pf("type %s int32%s\n\n", name, renamed(name, camel(d.name), d.name))
	g.pf("// The values of %s.\nconst (\n", name)
	for _, t := range d.tags {
		g.apart(t.docs)
		g.comment(t.docs.lead)
		c := g.constNames[t.name]
		g.pf("%s %s = %d%s%s\n", c, name, t.num, tail(t.docs), renamed(c, t.name, t.name))
	}
	g.rest(d.rest)
	g.pf(")\n\n")
	var names []string
	for _, t := range d.tags {
		names = append(names, g.constNames[t.name])
	}
	g.export("The values of "+name+", for other packages.", names)

	var known, cases []string
	seen := map[int64]bool{}
	for _, t := range d.tags {
		if !seen[t.num] {
			seen[t.num] = true
			known = append(known, g.constNames[t.name])
			cases = append(cases, fmt.Sprintf("case %s:\nreturn %q\n", g.constNames[t.name], t.name))
		}
	}
	g.use("strconv")
	g.pf("// String returns the name of v.\nfunc (v %s) String() string {\nswitch v {\n%s}\n", name, strings.Join(cases, ""))
	g.pf("return \"%s(\" + strconv.Itoa(int(v)) + \")\"\n}\n\n", name)
	g.use(xdrPath)
	list := strings.Join(known, ", ")
	g.pf("// AppendXDR appends v.\nfunc (v %s) AppendXDR(b []byte) ([]byte, error) {\nswitch v {\ncase %s:\n", name, list)
	g.pf("return xdr.AppendInt32(b, int32(v)), nil\n}\nreturn b, xdr.EnumError(%q, int32(v))\n}\n\n", d.name)
	g.pf("// DecodeXDR reads v.\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) error {\n*v = %s(d.Int32())\n", name, name)
	g.pf("switch *v {\ncase %s:\ndefault:\nif !d.Lax {\nd.Fail(xdr.EnumError(%q, int32(*v)))\n}\n}\nreturn d.Err()\n}\n\n", list, d.name)
	g.pf("// XDRSize returns 4.\nfunc (%s) XDRSize() int { return 4 }\n\n", name)
}

// export writes the names by which other packages know those of names that
// begin with a small letter.
func (g *generator) export(doc string, names []string) {
	var lines strings.Builder
	for _, name := range names {
		if exported := g.names.exported[name]; exported != "" {
			fmt.Fprintf(&lines, "%s = %s\n", exported, name)
		}
	}
	if lines.Len() > 0 {
		g.pf("// %s\nconst (\n%s)\n\n", doc, lines.String())
	}
}

func (g *generator) structType(d *structDecl) {
	name := g.typeNames[d]
	g.doc(name+" is the struct "+d.name+".", d.docs)
	g.pf("type %s struct {%s\n", name, renamed(name, camel(d.name), d.name))
	for _, f := range d.fields {
		g.member(f)
	}
	g.rest(d.rest)
	g.pf("}\n\n")
	g.structCodec(d)
}

// member writes one field of a Go struct.
func (g *generator) member(f *field) {
	if len(f.docs.apart) > 0 {
		g.pf("\n")
	}
	g.apart(f.docs)
	g.comment(f.docs.lead)
	name := g.names.fields[f]
	g.pf("%s %s%s%s\n", name, g.goType(f), tail(f.docs), renamed(name, camel(f.name), f.name))
}

func (g *generator) unionType(d *unionDecl) {
	name := g.typeNames[d]
	g.doc(name+" is the union "+d.name+": "+g.names.fields[d.disc]+" says which of the other fields counts.", d.docs)
	g.pf("type %s struct {%s\n", name, renamed(name, camel(d.name), d.name))
	g.pf("%s %s\n", g.names.fields[d.disc], g.goType(d.disc))
	for _, a := range d.arms {
		g.apart(a.docs)
		g.comment(a.docs.lead)
		where := g.armLabels(d, a)
		if a.field == nil {
			g.pf("// %s: void%s\n", where, strings.Replace(tail(a.docs), " // ", "; ", 1))
			continue
		}
		f := *a.field
		f.docs = docs{tail: append([]string{where + ":"}, a.docs.tail...)}
		if len(a.docs.tail) == 0 {
			f.docs.tail = []string{where}
		}
		g.names.fields[&f] = g.names.fields[a.field]
		g.member(&f)
	}
	g.rest(d.rest)
	g.pf("}\n\n")
	g.makers(d)
	g.unionCodec(d)
}

// makers writes a function for each arm that makes a union with it.
func (g *generator) makers(d *unionDecl) {
	name, disc := g.typeNames[d], g.names.fields[d.disc]
	for _, a := range d.arms {
		maker, labels := g.names.makers[a], g.armLabels(d, a)
		var params, set []string
		if len(a.labels) == 1 && a != d.deflt {
			set = append(set, disc+": "+g.label(d, a.labels[0]))
		} else {
			p := g.param(disc, "d")
			params = append(params, p+" "+g.goType(d.disc))
			set = append(set, disc+": "+p)
		}
		if a.field != nil {
			p := g.param(g.names.fields[a.field], "v")
			if len(params) > 0 && strings.HasPrefix(params[0], p+" ") {
				p = "v"
			}
			params = append(params, p+" "+g.goType(a.field))
			set = append(set, g.names.fields[a.field]+": "+p)
		}
		which := "whose " + disc + " is " + labels
		switch {
		case a == d.deflt && len(a.labels) == 0:
			which = "whose " + disc + " has no arm of its own"
		case len(a.labels) > 1 || a == d.deflt:
			which = "whose " + disc + " is one of " + labels
		}
		g.pf("// %s returns the %s %s.\nfunc %s(%s) %s {\n", maker, name, which, maker, strings.Join(params, ", "), name)
		g.pf("return %s{%s}\n}\n\n", name, strings.Join(set, ", "))
		if a.field != nil {
			g.accessor(d, a, which)
		}
	}
}

// accessor writes the method that returns an arm where it counts.
func (g *generator) accessor(d *unionDecl, a *arm, which string) {
	name, field, as := g.typeNames[d], g.names.fields[a.field], g.names.getters[a]
	disc := g.names.fields[d.disc]
	if len(d.arms) == 1 && a == d.deflt { // it has every value
		g.pf("// %s returns %s and true.\nfunc (v %s) %s() (_ %s, ok bool) {\nreturn v.%s, true\n}\n\n", as, field, name, as, g.goType(a.field), field)
		return
	}
	g.pf("// %s returns %s and true of a %s %s.\nfunc (v %s) %s() (_ %s, ok bool) {\nswitch v.%s {\n", as, field, name, which, name, as, g.goType(a.field), disc)
	for _, other := range d.arms {
		switch {
		case other == a:
			g.pf("%sreturn v.%s, true\n", g.caseOf(d, a), field)
		case a == d.deflt:
			g.pf("%s", g.caseOf(d, other))
		}
	}
	g.pf("}\nreturn\n}\n\n")
}

// param returns a parameter's name for a field: the field's where that hides
// nothing, else other.
func (g *generator) param(field, other string) string {
	name := strings.ToLower(field[:1]) + field[1:]
	if g.names.pkg[name] || gotoken.IsKeyword(name) || strings.HasSuffix(name, "_") {
		return other
	}
	return name
}

// armLabels returns what selects an arm, as in the .x file.
func (g *generator) armLabels(d *unionDecl, a *arm) string {
	var labels []string
	for _, l := range a.labels {
		labels = append(labels, l.text)
	}
	if a == d.deflt {
		labels = append(labels, "default")
	}
	return strings.Join(labels, ", ")
}

func (g *generator) typedef(d *typedefDecl) {
	name, f := g.typeNames[d], d.field
	note := renamed(name, camel(d.name), d.name)
	switch {
	case f.shape == optional:
		g.doc(name+" is the typedef "+d.name+": nil, or one "+g.elemType(f.typ)+".", d.docs)
		g.pf("type %s = %s%s\n\n", name, g.goType(f), note)
		g.aliasCodec(d, name, f)
	case f.shape == one && f.typ.basic == named:
		g.doc(name+" is the typedef "+d.name+".", d.docs)
		g.pf("type %s = %s%s\n\n", name, g.goType(f), note)
	default:
		g.doc(name+" is the typedef "+d.name+g.boundNote(f)+".", d.docs)
		g.pf("type %s %s%s\n\n", name, g.goType(f), note)
		g.definedCodec(d, name, f)
	}
}

// boundNote returns ", at most N bytes" or items, where there is a bound.
func (g *generator) boundNote(f *field) string {
	if f.shape != variable || f.bound == nil {
		return ""
	}
	unit := "items"
	if f.typ.basic == text || f.typ.basic == opaque {
		unit = "bytes"
	}
	return ", at most " + g.goValue(*f.bound) + " " + unit
}

// programConsts writes the numbers of a program, its versions and procedures.
func (g *generator) programConsts(d *programDecl) {
	g.doc("Numbers of the program "+d.name+", its versions and procedures.", d.docs)
	g.pf("const (\n%s = %s\n", g.constNames[d.name], g.goValue(d.num))
	names := []string{g.constNames[d.name]}
	once := func(name string, num value, x, tail string) {
		if !g.written[name] {
			g.written[name] = true
			names = append(names, name)
			g.pf("%s = %s%s%s\n", name, g.goValue(num), tail, renamed(name, x, x))
		}
	}
	for _, v := range d.versions {
		once(g.constNames[v.name], v.num, v.name, tail(v.docs))
	}
	for _, v := range d.versions {
		for _, p := range v.procs {
			once(g.names.procs[p], p.num, p.name, "")
		}
	}
	g.pf(")\n\n")
	g.export("These numbers, for other packages.", names)
}
