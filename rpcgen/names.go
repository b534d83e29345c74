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

// pickAll returns name with as many "_" behind it as it takes that all names
// made from it are new, of which it takes those of made.
func (s scope) pickAll(name string, made func(name string) []string, others func(name string) []string) string {
	for !s.free(made(name)...) || !s.free(others(name)...) {
		name += "_"
	}
	for _, n := range made(name) {
		s[n] = true
	}
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

// naming has the Go names of a unit.
type naming struct {
	pkg     scope
	types   map[decl]string
	consts  map[string]string // also of programs and versions
	procs   map[*proc]string  // numbers of procedures
	stubs   map[*version]string
	methods map[*proc]string
	fields  map[*field]string
	makers  map[*arm]string // constructors
	getters map[*arm]string // accessors
	// writers are the interfaces of handlers that write a result themselves, and
	// appends the method of each.
	writers map[*proc]string
	appends map[*proc]string
	numbers map[string]string // the Go name of a procedure's "NAME NUMBER"
	// exported are the names by which other packages know constants that begin
	// with a small letter.
	exported map[string]string
}

// nameAll gives every declaration its Go names, in order of appearance. Units
// that were imported before have theirs.
func (u *unit) nameAll() {
	n := &naming{
		pkg: scope{}, types: map[decl]string{}, consts: map[string]string{"TRUE": "true", "FALSE": "false"}, procs: map[*proc]string{},
		stubs: map[*version]string{}, methods: map[*proc]string{}, fields: map[*field]string{}, makers: map[*arm]string{}, getters: map[*arm]string{}, writers: map[*proc]string{}, appends: map[*proc]string{}, numbers: map[string]string{},
		exported: map[string]string{},
	}
	for _, list := range [][]string{types.Universe.Names(), local} {
		for _, name := range list {
			n.pkg[name] = true
		}
	}
	u.names = n
	for _, other := range u.units {
		if other == u {
			break
		}
		if other.path != "" {
			n.pkg[qualifier(other.path)] = true
			continue
		}
		for name := range other.names.pkg {
			n.pkg[name] = true
		}
	}
	for _, d := range u.f.decls {
		u.nameDecl(n, d)
	}
	// Last, so that they take no name of others.
	for _, d := range u.f.decls {
		switch d := d.(type) {
		case *unionDecl:
			u.nameMakers(n, d)
		case *constDecl:
			n.export(n.consts[d.name])
		case *enumDecl:
			for _, t := range d.tags {
				n.export(n.consts[t.name])
			}
		case *programDecl:
			n.export(n.consts[d.name])
			for _, v := range d.versions {
				n.export(n.consts[v.name])
				for _, p := range v.procs {
					n.export(n.procs[p])
				}
			}
		}
	}
}

// export picks a constant's name for other packages, where it needs one.
func (n *naming) export(name string) {
	if gotoken.IsExported(name) || n.exported[name] != "" {
		return
	}
	exported := strings.ToUpper(name[:1]) + name[1:]
	if name[0] == '_' {
		exported = "X" + name
	}
	n.exported[name] = n.pkg.pick(exported)
}

// told reports a name that is not the rule's.
func (u *unit) told(pos Pos, xName, goName, rule string) string {
	if goName != rule {
		u.note(pos, "'%s' is %s in Go: %s is taken", xName, goName, rule)
	}
	return goName
}

func (u *unit) nameDecl(n *naming, d decl) {
	h := d.head()
	switch d := d.(type) {
	case *constDecl:
		n.consts[h.name] = u.told(h.pos, h.name, n.pkg.pick(h.name), h.name)
	case *enumDecl:
		u.nameType(n, d)
		for _, t := range d.tags {
			n.consts[t.name] = u.told(t.pos, t.name, n.pkg.pick(t.name), t.name)
		}
	case *structDecl, *unionDecl:
		u.nameType(n, d)
		s := scope{"AppendXDR": true, "DecodeXDR": true, "XDRSize": true}
		for _, f := range parts(d) {
			n.fields[f] = u.told(f.pos, f.name, s.pick(camel(f.name)), camel(f.name))
		}
		if union, ok := d.(*unionDecl); ok {
			for _, a := range union.arms {
				if a.field != nil {
					n.getters[a] = s.pick("As" + n.fields[a.field])
				}
			}
		}
	case *typedefDecl:
		u.nameType(n, d)
	case *programDecl:
		u.nameProgram(n, d)
	}
}

// nameType picks a type's name such that the functions made from it are free too.
func (u *unit) nameType(n *naming, d decl) {
	h := d.head()
	alias := false
	if t, ok := d.(*typedefDecl); ok {
		alias = t.field.shape == optional
	}
	functions := func(name string) []string { return []string{"Append" + name, "Decode" + name, "Size" + name} }
	n.types[d] = n.pkg.pickAll(camel(h.name), func(name string) []string {
		made := []string{name, "append" + name + "List", "decode" + name + "List", "size" + name + "List"}
		if alias {
			made = append(made, functions(name)...)
		}
		return made
	}, functions)
	u.told(h.pos, h.name, n.types[d], camel(h.name))
}

func (u *unit) nameProgram(n *naming, d *programDecl) {
	n.consts[d.name] = u.told(d.pos, d.name, n.pkg.pick(d.name), d.name)
	for _, v := range d.versions {
		if n.consts[v.name] == "" {
			n.consts[v.name] = u.told(v.pos, v.name, n.pkg.pick(v.name), v.name)
		}
		for _, p := range v.procs {
			key := p.name
			if num := u.eval(p.num); num != nil {
				key += " " + num.String()
			}
			if n.numbers[key] == "" {
				n.numbers[key] = u.told(p.pos, p.name, n.pkg.pick(p.name), p.name)
			}
			n.procs[p] = n.numbers[key]
			if n.consts[p.name] == "" {
				n.consts[p.name] = n.procs[p]
			}
		}
		rule := camel(d.name) + camel(v.name)
		n.stubs[v] = n.pkg.pickAll(rule, func(name string) []string {
			return []string{name + "Client", "New" + name + "Client", name + "Handler", "Register" + name, "Dispatch" + name}
		}, func(string) []string { return nil })
		u.told(v.pos, v.name, n.stubs[v], rule)
		methods := scope{}
		for _, p := range v.procs {
			n.methods[p] = u.told(p.pos, p.name, methods.pick(camel(p.name)), camel(p.name))
		}
		for _, p := range v.procs {
			if p.result.typ.basic != void {
				n.appends[p] = methods.pick("Append" + n.methods[p])
				n.writers[p] = n.pkg.pick(n.stubs[v] + n.methods[p] + "Appender")
			}
		}
	}
}

// nameMakers picks the names of the functions that make a value of each arm:
// after its field, or what selects it.
func (u *unit) nameMakers(n *naming, d *unionDecl) {
	for _, a := range d.arms {
		name := "Default"
		switch {
		case a.field != nil:
			name = n.fields[a.field]
		case a != d.deflt && isName(a.labels[0].text):
			name = camel(a.labels[0].text)
		case a != d.deflt:
			name = "Case" + strings.Replace(a.labels[0].text, "-", "Minus", 1)
		}
		n.makers[a] = n.pkg.pick("New" + n.types[d] + strings.TrimRight(name, "_"))
	}
}
