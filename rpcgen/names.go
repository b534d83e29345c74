package rpcgen

import (
	gotoken "go/token"
	"go/types"
	"strings"
)

// camel turns a name of an .x file into an exported Go name: machine_vec_node
// is MachineVecNode, MASTER_PROG is MasterProg, READDIR3args keeps its letters.
func camel(name string) string {
	var out strings.Builder
	for _, part := range strings.Split(name, "_") {
		if part == "" {
			continue
		}
		if part == strings.ToUpper(part) {
			part = strings.ToLower(part)
		}
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	s := out.String()
	if s == "" || isDigit(s[0]) {
		return "X" + s
	}
	return s
}

// scope is a set of Go names in use.
type scope map[string]bool

// pick returns name with as many "_" behind it as it takes to be new.
func (s scope) pick(name string) string {
	for s[name] || gotoken.IsKeyword(name) {
		name += "_"
	}
	s[name] = true
	return name
}

// free says whether none of names is taken.
func (s scope) free(names ...string) bool {
	for _, n := range names {
		if s[n] {
			return false
		}
	}
	return true
}

// local are the names that generated functions use themselves.
var local = []string{
	"_", "arg", "args", "b", "c", "call", "context", "ctx", "d", "depth", "err", "fmt", "free", "h", "i", "i2", "init", "main",
	"math", "n", "p", "reply", "res", "rpc", "s", "slabs", "strconv", "v", "xdr",
}

// newScope returns the scope of a package, in which the names that the
// generated code itself needs are taken.
func newScope() scope {
	s := scope{}
	for _, n := range types.Universe.Names() {
		s[n] = true
	}
	for _, n := range local {
		s[n] = true
	}
	return s
}

// names gives every declaration its Go names, in order of appearance.
func (g *generator) names() {
	for _, d := range g.f.decls {
		h := d.head()
		switch d := d.(type) {
		case *constDecl:
			g.constNames[h.name] = g.pkg.pick(h.name)
		case *enumDecl:
			g.typeNames[d] = g.typeName(d)
			for _, t := range d.tags {
				g.constNames[t.name] = g.pkg.pick(t.name)
			}
		case *structDecl, *unionDecl, *typedefDecl:
			g.typeNames[d] = g.typeName(d)
		case *programDecl:
			g.programNames(d)
		}
	}
}

// typeName picks a type's name such that the functions made from it are free too.
func (g *generator) typeName(d decl) string {
	name := camel(d.head().name)
	for !g.pkg.free(name, "Append"+name, "Decode"+name, "append"+name+"List", "decode"+name+"List") {
		name += "_"
	}
	for _, n := range []string{name, "append" + name + "List", "decode" + name + "List"} {
		g.pkg[n] = true
	}
	if t, ok := d.(*typedefDecl); ok && t.field.shape == optional {
		g.pkg["Append"+name], g.pkg["Decode"+name] = true, true
	}
	return name
}

func (g *generator) programNames(d *programDecl) {
	g.constNames[d.name] = g.pkg.pick(d.name)
	for _, v := range d.versions {
		g.constNames[v.name] = g.pkg.pick(v.name)
		for _, p := range v.procs {
			if _, ok := g.constNames[p.name]; !ok {
				g.constNames[p.name] = g.pkg.pick(p.name)
			}
		}
		name := camel(d.name) + camel(v.name)
		for !g.pkg.free(name+"Client", "New"+name+"Client", name+"Handler", "Register"+name) {
			name += "_"
		}
		for _, n := range []string{name + "Client", "New" + name + "Client", name + "Handler", "Register" + name} {
			g.pkg[n] = true
		}
		g.stubNames[v] = name
		methods := scope{}
		for _, p := range v.procs {
			g.methodNames[p] = methods.pick(camel(p.name))
		}
	}
}

// fieldNames gives the fields of one struct or union their names.
func fieldNames(fields []*field) map[*field]string {
	s := scope{"AppendXDR": true, "DecodeXDR": true}
	names := map[*field]string{}
	for _, f := range fields {
		names[f] = s.pick(camel(f.name))
	}
	return names
}
