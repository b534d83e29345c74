package rpcgen

import (
	"fmt"
	"math"
)

// union resolves a union: its discriminant, its labels, its arms.
func (c *checker) union(u *unionDecl) {
	c.field(u.disc)
	base := u.disc.base()
	lo, hi := int64(math.MinInt32), uint64(math.MaxInt32)
	enum, _ := base.decl.(*enumDecl)
	switch {
	case u.disc.shape != one:
		c.errorf(u.disc.typ.pos, "the discriminant of union %s is an array or a pointer", u.name)
	case enum != nil || base.basic == int32Type:
	case base.basic == int8Type:
		lo, hi = math.MinInt8, math.MaxInt8
	case base.basic == uint8Type:
		lo, hi = 0, math.MaxUint8
	case base.basic == int16Type:
		lo, hi = math.MinInt16, math.MaxInt16
	case base.basic == uint16Type:
		lo, hi = 0, math.MaxUint16
	case base.basic == boolean:
		lo, hi = 0, 1
	case base.basic == uint32Type:
		lo, hi = 0, math.MaxUint32
	case base.basic == int64Type:
		lo, hi = math.MinInt64, math.MaxInt64
	case base.basic == uint64Type:
		lo, hi = 0, math.MaxUint64
	case base.basic != named || base.decl != nil:
		c.errorf(u.disc.typ.pos, "the discriminant of union %s is not an integer, bool or enum", u.name)
	}
	seen := map[int64]Pos{}
	var fields []*field
	for _, a := range u.arms {
		for _, l := range a.labels {
			n, ok := c.number(l, "case "+l.text, lo, hi)
			if !ok {
				continue
			}
			if old, dup := seen[n]; dup {
				c.errorf(l.pos, "union %s has a case %s in %s already", u.name, l.text, where(old, l.pos))
			}
			seen[n] = l.pos
			if enum != nil && !enum.has(c, n) {
				c.errorf(l.pos, "case %s: enum %s has no such value", l.text, enum.name)
			}
		}
		if a.field != nil {
			fields = append(fields, a.field)
		}
	}
	c.fields("union "+u.name, fields)
}

func (e *enumDecl) has(c *checker, n int64) bool {
	for _, t := range e.tags {
		if k := c.constNamed(t.name); k != nil && k.enum == e {
			if v := c.evalConst(value{text: t.name, pos: t.pos}, k); v != nil && v.IsInt64() && v.Int64() == n {
				return true
			}
		}
	}
	return false
}

// base returns the type behind f's typedefs, as long as they add no shape.
func (f *field) base() typeRef {
	ref := f.typ
	for range 100 {
		t, ok := ref.decl.(*typedefDecl)
		if !ok || t.field.shape != one {
			return ref
		}
		ref = t.field.typ
	}
	return ref
}

func (c *checker) program(g *programDecl) {
	prog, progOK := c.number(g.num, "program "+g.name, 0, math.MaxUint32)
	for _, v := range g.versions {
		n, ok := c.number(v.num, "version "+v.name, 0, math.MaxUint32)
		key := fmt.Sprintf("%d.%d", prog, n)
		if old, dup := c.programs[key]; dup && ok && progOK {
			c.errorf(v.num.pos, "version %d of program %d is declared in %s already", n, prog, where(old, v.num.pos))
		} else if ok {
			c.programs[key] = v.num.pos
		}
		numbers, names := map[int64]bool{}, map[string]bool{}
		for _, p := range v.procs {
			if names[p.name] {
				c.errorf(p.pos, "version %s has a procedure '%s' already", v.name, p.name)
			}
			names[p.name] = true
			c.proc(v, p, numbers)
		}
	}
}

func (c *checker) proc(v *version, p *proc, numbers map[int64]bool) {
	c.field(p.result)
	for _, a := range p.args {
		c.field(a)
	}
	n, ok := c.number(p.num, "procedure "+p.name, 0, math.MaxUint32)
	if ok && numbers[n] {
		c.errorf(p.num.pos, "version %s has a procedure %d already", v.name, n)
	}
	numbers[n] = ok || numbers[n]
}

// sizes looks for types that contain themselves, and ones that typedef themselves.
func (c *checker) sizes() {
	state := map[decl]int{} // 1 being looked at, 2 done
	var visit func(d decl) bool
	visit = func(d decl) bool {
		switch state[d] {
		case 1:
			return false
		case 2:
			return true
		}
		state[d] = 1
		defer func() { state[d] = 2 }()
		for _, f := range parts(d) {
			inside := f.shape == one || f.shape == fixed || isAlias(d) && isAlias(f.typ.decl)
			instead := "'*" + f.name + "' or '" + f.name + "<>' may hold it, where the wire has the flag or the count"
			if isAlias(d) && isAlias(f.typ.decl) {
				instead = "one of these typedefs has to be a struct"
			}
			if inside && f.typ.decl != nil && !visit(f.typ.decl) {
				c.errorf(f.pos, "'%s' contains itself: its size is infinite, in Go as in C, which compiles no such type; %s", d.head().name, instead)
			}
		}
		return true
	}
	for _, d := range c.f.decls {
		visit(d)
	}
}

// isAlias says whether d is a typedef that is an alias in Go: those may not
// form a circle, also not one with a pointer in it.
func isAlias(d decl) bool {
	t, ok := d.(*typedefDecl)
	return ok && (t.field.shape == optional || t.field.shape == one && t.field.typ.basic == named)
}

// parts returns the fields of a type.
func parts(d decl) []*field {
	switch d := d.(type) {
	case *structDecl:
		return d.fields
	case *unionDecl:
		fs := []*field{d.disc}
		for _, a := range d.arms {
			if a.field != nil {
				fs = append(fs, a.field)
			}
		}
		return fs
	case *typedefDecl:
		return []*field{d.field}
	}
	return nil
}

// recursive says whether a value of d may hold another of d, next nodes of
// lists apart.
func recursive(d decl) bool {
	seen := map[decl]bool{}
	var reach func(from decl) bool
	reach = func(from decl) bool {
		fs := parts(from)
		if s, ok := from.(*structDecl); ok && s.list {
			fs = fs[:len(fs)-1]
		}
		for _, f := range fs {
			t := f.typ.decl
			if t == d {
				return true
			}
			if t != nil && !seen[t] {
				seen[t] = true
				if reach(t) {
					return true
				}
			}
		}
		return false
	}
	return reach(d)
}

// minSize returns the least number of bytes of f on the wire.
func (c *checker) minSize(f *field) int64 {
	const limit = 1 << 30
	switch f.shape {
	case optional, variable:
		return 4
	case fixed:
		if f.typ.basic == opaque {
			return (int64(f.size) + 3) &^ 3
		}
		return min(int64(f.size)*c.minTypeSize(f.typ), limit)
	}
	return min(c.minTypeSize(f.typ), limit)
}

func (c *checker) minTypeSize(t typeRef) int64 {
	switch t.basic {
	case int64Type, uint64Type, double:
		return 8
	case quadruple:
		return 16
	case named: // below
	default:
		return 4
	}
	n, ok := c.least[t.decl]
	if !ok {
		n = c.minDeclSize(t.decl)
		c.least[t.decl] = n
	}
	return n
}

func (c *checker) minDeclSize(d decl) int64 {
	switch d := d.(type) {
	case *structDecl:
		var n int64
		for _, f := range d.fields {
			n = min(n+c.minSize(f), 1<<30)
		}
		return n
	case *unionDecl:
		least := int64(-1)
		for _, a := range d.arms {
			var n int64
			if a.field != nil {
				n = c.minSize(a.field)
			}
			if least < 0 || n < least {
				least = n
			}
		}
		return c.minSize(d.disc) + max(least, 0)
	case *typedefDecl:
		return c.minSize(d.field)
	}
	return 4
}
