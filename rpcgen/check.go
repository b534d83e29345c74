package rpcgen

import (
	"math"
	"math/big"
	"strings"
)

// checker finds what the grammar alone does not: names without a meaning or
// with two, numbers out of range, structs of infinite size.
type checker struct {
	f     *file
	errs  *ErrorList
	types map[string]decl
	// consts are the constants and enum tags; procs the procedures, which may
	// stand in several versions with one number.
	consts map[string]*constant
	procs  map[string]*big.Int
	least  map[decl]int64 // bytes on the wire
}

// constant is a const, an enum tag, a program or a version.
type constant struct {
	pos   Pos
	enum  *enumDecl // of a tag
	val   *value
	num   *big.Int // nil while it is not known
	after *constant
	busy  bool
}

// check resolves all names of f and fills in what the generator needs.
func check(f *file, errs *ErrorList) *checker {
	c := &checker{f: f, errs: errs, types: map[string]decl{}, consts: map[string]*constant{}, procs: map[string]*big.Int{}, least: map[decl]int64{}}
	c.constant("TRUE", &constant{num: big.NewInt(1)})
	c.constant("FALSE", &constant{num: big.NewInt(0)})
	for _, d := range f.decls {
		c.declare(d)
	}
	for _, d := range f.decls {
		c.link(d)
	}
	for _, d := range f.decls {
		c.resolve(d)
	}
	if len(*errs) == 0 {
		c.sizes()
	}
	return c
}

func (c *checker) errorf(pos Pos, format string, args ...any) {
	c.errs.add(c.f.name, pos, format, args...)
}

// declare enters the names of d.
func (c *checker) declare(d decl) {
	h := d.head()
	switch d := d.(type) {
	case *constDecl:
		c.constant(h.name, &constant{pos: h.pos, val: &d.val})
	case *enumDecl:
		c.typeName(d)
		var prev *constant
		for _, t := range d.tags {
			k := &constant{pos: t.pos, enum: d, val: t.val, after: prev}
			c.constant(t.name, k)
			prev = k
		}
	case *structDecl, *unionDecl, *typedefDecl:
		c.typeName(d)
	case *programDecl:
		c.constant(h.name, &constant{pos: h.pos, val: &d.num})
		for _, v := range d.versions {
			c.constant(v.name, &constant{pos: v.pos, val: &v.num})
		}
	}
}

func (c *checker) typeName(d decl) {
	h := d.head()
	if old, ok := c.types[h.name]; ok {
		c.errorf(h.pos, "type '%s' is declared in line %d already", h.name, old.head().pos.Line)
		return
	}
	c.types[h.name] = d
}

func (c *checker) constant(name string, k *constant) {
	if old, ok := c.consts[name]; ok {
		if old.pos.Line == 0 {
			c.errorf(k.pos, "'%s' is a word of the language", name)
		} else {
			c.errorf(k.pos, "constant '%s' is declared in line %d already", name, old.pos.Line)
		}
		return
	}
	c.consts[name] = k
}

// eval returns v's number, or nil after an error.
func (c *checker) eval(v value) *big.Int {
	if !isLetter(v.text[0]) {
		n := parseNumber(v.text)
		if n == nil {
			c.errorf(v.pos, "'%s' is not a number: decimal, 0x hexadecimal or 0 octal", v.text)
		}
		return n
	}
	k, ok := c.consts[v.text]
	if !ok {
		c.errorf(v.pos, "constant '%s' is not declared", v.text)
		return nil
	}
	return c.evalConst(v, k)
}

func (c *checker) evalConst(use value, k *constant) *big.Int {
	switch {
	case k.num != nil:
		return k.num
	case k.busy:
		c.errorf(use.pos, "the value of '%s' depends on itself", use.text)
		return nil
	}
	k.busy = true
	defer func() { k.busy = false }()
	switch {
	case k.val != nil:
		k.num = c.eval(*k.val)
	case k.after != nil:
		if prev := c.evalConst(value{text: use.text, pos: k.pos}, k.after); prev != nil {
			k.num = new(big.Int).Add(prev, big.NewInt(1))
		}
	default:
		k.num = big.NewInt(0)
	}
	return k.num
}

// parseNumber reads a C number; nil if it is none.
func parseNumber(s string) *big.Int {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || !isDigit(digits[0]) || strings.Contains(s, "_") {
		return nil
	}
	if len(digits) > 1 && digits[0] == '0' && !isDigit(digits[1]) && digits[1] != 'x' && digits[1] != 'X' {
		return nil // 0b and 0o are Go's
	}
	n, ok := new(big.Int).SetString(s, 0)
	if !ok {
		return nil
	}
	return n
}

// number evaluates v and checks that it is in lo..hi.
func (c *checker) number(v value, what string, lo int64, hi uint64) (int64, bool) {
	n := c.eval(v)
	if n == nil {
		return 0, false
	}
	if n.Cmp(big.NewInt(lo)) < 0 || n.Cmp(new(big.Int).SetUint64(hi)) > 0 {
		c.errorf(v.pos, "%s is %v: not in %d to %d", what, n, lo, hi)
		return 0, false
	}
	if n.IsUint64() {
		return int64(n.Uint64()), true
	}
	return n.Int64(), true
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
		if f.typ.name == "" {
			continue
		}
		if f.typ.decl = c.types[f.typ.name]; f.typ.decl == nil {
			c.errorf(f.typ.pos, "type '%s' is not declared", f.typ.name)
		}
	}
}

// resolve looks at the numbers and fields of d, whose types are linked.
func (c *checker) resolve(d decl) {
	switch d := d.(type) {
	case *constDecl:
		if n := c.eval(d.val); n != nil && !n.IsInt64() && !n.IsUint64() {
			c.errorf(d.val.pos, "constant '%s' does not fit 64 bits", d.name)
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
		last := d.fields[len(d.fields)-1]
		d.list = pointsTo(last) == d
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
			c.errorf(f.pos, "%s has a field '%s' in line %d already", owner, f.name, old.Line)
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
