package rpcgen

import (
	"math/big"
	"strings"
)

// maxConstBits is the size of the largest constant that Go compilers take. What
// is used as a size, tag, label or number has a range of its own.
const maxConstBits = 512

// constant is a const, an enum tag, a program or a version.
type constant struct {
	pos     Pos
	in      modes
	enum    *enumDecl // of a tag
	val     *value
	num     *big.Int // nil while it is not known
	after   *constant
	version bool
	busy    bool
}

func (c *checker) constant(name string, k *constant) bool {
	old := c.constNamed(name)
	switch {
	case old == nil:
		c.consts[name] = k
	case k.pos.Line == 0: // TRUE of each file
	case old.pos.Line == 0:
		c.errorf(k.pos, "'%s' is a word of the language", name)
	case old.in&k.in == 0:
		c.note(k.pos, "'%s' is left out: another part of the file declares it for %v", name, old.in)
		return false
	default:
		c.errorf(k.pos, "constant '%s' is declared in %s already", name, where(old.pos, k.pos))
	}
	return true
}

// constNamed returns the constant of that name, of this file or an imported one.
func (c *checker) constNamed(name string) *constant {
	if k, ok := c.consts[name]; ok {
		return k
	}
	for _, u := range c.units {
		if k, ok := u.consts[name]; ok {
			return k
		}
	}
	return nil
}

// numberNamed returns what may stand for a number: a constant or a procedure.
func (c *checker) numberNamed(name string) *constant {
	if k := c.constNamed(name); k != nil {
		return k
	}
	if k, ok := c.procs[name]; ok {
		return k
	}
	for _, u := range c.units {
		if k, ok := u.procs[name]; ok {
			return k
		}
	}
	return nil
}

// eval returns v's number, or nil after an error.
func (c *checker) eval(v value) *big.Int {
	if v.isString {
		c.errorf(v.pos, "a number is wanted, not a string")
		return nil
	}
	if !isLetter(v.text[0]) {
		n := parseNumber(v.text)
		if n == nil {
			c.errorf(v.pos, "'%s' is not a number: decimal, 0x hexadecimal or 0 octal", v.text)
		}
		return n
	}
	if k := c.numberNamed(v.text); k != nil {
		return c.evalConst(v, k)
	}
	if n := c.definedInC(v.text); n != nil {
		return n
	}
	if !c.f.unsure[v.text] {
		c.errorf(v.pos, "constant '%s' is not declared%s", v.text, c.fromC(v.text))
	}
	return nil
}

// definedInC returns the number that a %#define gives name, nil for none.
func (c *checker) definedInC(name string) *big.Int {
	m := c.pre.cdefs[name]
	if m == nil {
		return nil
	}
	n, err := evalExpr(m.body, func(name string) *macro { return c.pre.cdefs[name] })
	if err != nil {
		return nil
	}
	return big.NewInt(n)
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
	case k.val != nil && c.isString(*k.val):
		name := use.text
		if k.enum != nil {
			name = k.val.text
		}
		c.errorf(use.pos, "'%s' is a string, not a number", name)
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

// isString says whether v is a string or the name of one.
func (c *checker) isString(v value) bool {
	for range 100 {
		if v.isString {
			return true
		}
		k := c.constNamed(v.text)
		if k == nil || k.val == nil {
			return false
		}
		v = *k.val
	}
	return false
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
