package rpcgen

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// checker finds what the grammar alone does not: names without a meaning or
// with two, numbers out of range, structs of infinite size.
type checker struct {
	*compiler
	file  string
	f     *file
	pre   *preprocessor
	types map[string]decl
	// consts are the constants and enum tags. Procedures are apart: one name may
	// stand in several versions, and a constant of that name goes before.
	consts   map[string]*constant
	procs    map[string]*constant
	programs map[string]Pos // "program number.version number"
	least    map[decl]int64 // bytes on the wire
}

// check resolves all names of f and fills in what the generator needs.
func check(c *compiler, f *file, pre *preprocessor) *checker {
	k := &checker{
		compiler: c, file: pre.file, f: f, pre: pre, types: map[string]decl{}, consts: map[string]*constant{}, procs: map[string]*constant{},
		programs: map[string]Pos{}, least: map[decl]int64{},
	}
	k.constant("TRUE", &constant{num: big.NewInt(1)})
	k.constant("FALSE", &constant{num: big.NewInt(0)})
	f.decls = slices.DeleteFunc(f.decls, func(d decl) bool { return !k.declare(d) })
	for _, d := range f.decls {
		k.link(d)
	}
	for _, d := range f.decls {
		k.resolve(d)
	}
	k.sizes()
	return k
}

// declare enters the names of d. It returns false for a declaration that is to
// be left out: another run of C rpcgen has it in another way.
func (c *checker) declare(d decl) bool {
	h := d.head()
	switch d := d.(type) {
	case *constDecl:
		return c.constant(h.name, &constant{pos: h.pos, in: h.in, val: &d.val})
	case *enumDecl:
		if !c.typeName(d) {
			return false
		}
		var prev *constant
		for _, t := range d.tags {
			k := &constant{pos: t.pos, in: h.in, enum: d, val: t.val, after: prev}
			c.constant(t.name, k)
			prev = k
		}
	case *structDecl, *unionDecl, *typedefDecl:
		return c.typeName(d)
	case *programDecl:
		c.constant(h.name, &constant{pos: h.pos, in: h.in, val: &d.num})
		for _, v := range d.versions {
			if old := c.consts[v.name]; old != nil && old.version && old.val.text == v.num.text {
				continue // another program has a version of that name and number
			}
			c.constant(v.name, &constant{pos: v.pos, in: h.in, val: &v.num, version: true})
		}
		for _, v := range d.versions {
			for _, p := range v.procs {
				if c.procs[p.name] == nil {
					c.procs[p.name] = &constant{pos: p.pos, val: &p.num}
				}
			}
		}
	}
	return true
}

func (c *checker) typeName(d decl) bool {
	h := d.head()
	if h.anonymous {
		return true
	}
	old := c.typeNamed(h.name)
	switch {
	case old == nil:
		c.types[h.name] = d
	case old.head().in&h.in == 0:
		c.note(h.pos, "'%s' is left out: another part of the file declares it for %v", h.name, old.head().in)
		return false
	default:
		c.errorf(h.pos, "type '%s' is declared in %s already", h.name, where(old.head().pos, h.pos))
	}
	return true
}

// where says where something else is.
func where(there, here Pos) string {
	if there.File == here.File {
		return fmt.Sprintf("line %d", there.Line)
	}
	return fmt.Sprintf("%s, line %d,", there.File, there.Line)
}

// typeNamed returns the type of that name, of this file or an imported one.
func (c *checker) typeNamed(name string) decl {
	if d, ok := c.types[name]; ok {
		return d
	}
	for _, u := range c.units {
		if d, ok := u.types[name]; ok {
			return d
		}
	}
	return nil
}

// link gives every type that d uses its declaration.
func (c *checker) link(d decl) {
	fields := parts(d)
	if g, ok := d.(*programDecl); ok {
		for _, v := range g.versions {
			for _, p := range v.procs {
				fields = append(append(fields, p.result), p.args...)
			}
		}
	}
	for _, f := range fields {
		c.linkType(&f.typ)
	}
}

func (c *checker) linkType(t *typeRef) {
	switch {
	case t.body != nil:
		t.name, t.decl = t.body.head().name, t.body
	case t.name == "":
	case t.basic != named:
		// As int32_t, which a file may declare itself.
		if t.decl = c.types[t.name]; t.decl != nil {
			t.basic = named
		}
	default:
		if t.decl = c.typeNamed(t.name); t.decl == nil && !c.f.unsure[t.name] {
			c.errorf(t.pos, "type '%s' is not declared%s", t.name, c.fromC(t.name))
		}
	}
}

// rpcNames are of <rpc/rpc.h>, which C rpcgen's code always includes.
var rpcNames = map[string]bool{
	"netobj": true, "bool_t": true, "enum_t": true, "caddr_t": true, "rpcprog_t": true, "rpcvers_t": true, "rpcproc_t": true,
	"rpcprot_t": true, "rpcport_t": true, "des_block": true, "opaque_auth": true, "sockaddr_in": true, "size_t": true,
	"netbuf": true, "MAXNETNAMELEN": true, "MAX_NETOBJ_SZ": true, "MAX_AUTH_BYTES": true,
}

// fromC says by which C headers a name may come into the file.
func (c *checker) fromC(name string) string {
	switch {
	case rpcNames[name]:
		return ": C has it from <rpc/rpc.h>; -import FILE.x, with its declaration, supplies it"
	case len(c.pre.headers) == 0:
		return ""
	}
	var names []string
	for i, h := range c.pre.headers {
		if i == 3 && len(c.pre.headers) > 4 {
			names = append(names, fmt.Sprintf("%d others", len(c.pre.headers)-3))
			break
		}
		names = append(names, fmt.Sprintf("%s in line %d", h.name, h.pos.Line))
	}
	return fmt.Sprintf(": a C header may bring it (%%#include %s); -import FILE.x, with its declaration, supplies it", strings.Join(names, ", "))
}

// resolve looks at the numbers and fields of d, whose types are linked.
func (c *checker) resolve(d decl) {
	switch d := d.(type) {
	case *constDecl:
		if c.isString(d.val) {
			if _, err := strconv.Unquote(`"` + d.val.text + `"`); d.val.isString && err != nil {
				c.errorf(d.val.pos, "a string with an escape that Go does not have")
			}
		} else if n := c.eval(d.val); n != nil && n.BitLen() > maxConstBits {
			c.errorf(d.val.pos, "constant '%s' has %d bits: Go has constants of at most %d", d.name, n.BitLen(), maxConstBits)
		}
	case *enumDecl:
		for _, t := range d.tags {
			at := value{text: t.name, pos: t.pos}
			if t.val != nil {
				at.pos = t.val.pos
			}
			t.num, _ = c.number(at, "tag '"+t.name+"'", math.MinInt32, math.MaxInt32)
		}
	case *structDecl:
		c.fields("struct "+d.name, d.fields)
		if n := len(d.fields); n > 0 {
			d.list = pointsTo(d.fields[n-1]) == d
		}
	case *unionDecl:
		c.union(d)
	case *typedefDecl:
		c.field(d.field)
	case *programDecl:
		c.program(d)
	}
}

// pointsTo returns the struct that f is a pointer to, directly or by typedefs.
func pointsTo(f *field) decl {
	for range 100 {
		t, isTypedef := f.typ.decl.(*typedefDecl)
		switch {
		case f.shape == optional:
			return f.base().decl
		case f.shape == one && isTypedef:
			f = t.field
		default:
			return nil
		}
	}
	return nil
}

func (c *checker) fields(owner string, fields []*field) {
	seen := map[string]Pos{}
	for _, f := range fields {
		if old, ok := seen[f.name]; ok {
			c.errorf(f.pos, "%s has a field '%s' in %s already", owner, f.name, where(old, f.pos))
		}
		seen[f.name] = f.pos
		c.field(f)
	}
}

// field resolves the bound of f.
func (c *checker) field(f *field) {
	f.size = math.MaxUint32
	if f.bound == nil {
		return
	}
	if f.shape == fixed {
		n, _ := c.number(*f.bound, "the size of '"+f.name+"'", 0, 1<<26)
		f.size = uint32(n)
		return
	}
	n, _ := c.number(*f.bound, "the bound of '"+f.name+"'", 0, math.MaxUint32)
	f.size = uint32(n)
}
