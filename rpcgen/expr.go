package rpcgen

import (
	"fmt"
	"slices"
	"strings"
)

// evaluate returns those of in for which the expression of an #if is not 0.
func (l *lexer) evaluate(pos Pos, word, text string, in modes) modes {
	failed := false
	return each(in, func(m modes) bool {
		if failed {
			return false
		}
		n, err := evalExpr(text, func(name string) *macro { return l.lookup(name, m) })
		if err != nil {
			failed = true
			l.errorf(pos, "#%s %s: %v", word, text, err)
		}
		return n != 0
	})
}

// evalExpr computes an expression in which names mean what lookup says.
func evalExpr(text string, lookup func(name string) *macro) (n int64, err error) {
	e := &expr{lookup: lookup}
	if err := e.split(text, nil); err != nil {
		return 0, err
	}
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(exprError)
			if !ok {
				panic(r)
			}
			n, err = 0, fault
		}
	}()
	n = e.ternary()
	if e.i < len(e.words) {
		e.fail("'%s' is too much", e.words[e.i])
	}
	return n, nil
}

// expr is an expression of integers, read by descent.
type expr struct {
	lookup func(name string) *macro
	words  []string
	i      int
	depth  int
}

// exprError says why an expression has no value.
type exprError string

func (e exprError) Error() string { return string(e) }

func (e *expr) fail(format string, args ...any) { panic(exprError(fmt.Sprintf(format, args...))) }

// maxWords bounds an expression, its macros replaced.
const maxWords = 10_000

// split cuts text into words, replacing macros; those in busy are not replaced.
func (e *expr) split(text string, busy []*macro) error {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := wordLen(text)
		word := text[:n]
		text = text[n:]
		if e.words = append(e.words, word); len(e.words) > maxWords {
			return exprError("it is too long")
		}
		last := len(e.words) - 1
		afterDefined := last > 0 && e.words[last-1] == "defined" || last > 1 && e.words[last-1] == "(" && e.words[last-2] == "defined"
		if !isName(word) || afterDefined {
			continue
		}
		m := e.lookup(word)
		if m == nil || slices.Contains(busy, m) {
			continue
		}
		if m.called {
			return exprError(word + " takes arguments, which cannot stand here")
		}
		e.words = e.words[:last]
		if err := e.split(m.body, append(busy, m)); err != nil {
			return err
		}
	}
	return nil
}

// wordLen returns the length of the word that text begins with.
func wordLen(text string) int {
	switch n := nameLen(text); {
	case n > 0:
		return n
	case text[0] == '\'' && endOfQuoted(text, 0) > 0:
		return endOfQuoted(text, 0)
	case len(text) > 1 && operators[text[:2]] > 0:
		return 2
	}
	return 1
}

// operators are those of two operands, with how tightly they bind.
var operators = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

func (e *expr) peek() string {
	if e.i < len(e.words) {
		return e.words[e.i]
	}
	return ""
}

func (e *expr) accept(word string) bool {
	if e.peek() != word {
		return false
	}
	e.i++
	return true
}

func (e *expr) expect(word string) {
	if !e.accept(word) {
		e.fail("'%s' is missing", word)
	}
}

func (e *expr) ternary() int64 {
	c := e.binary(1)
	if !e.accept("?") {
		return c
	}
	a := e.ternary()
	e.expect(":")
	if b := e.ternary(); c == 0 {
		return b
	}
	return a
}

// binary reads operands joined by operators that bind at least as tightly as least.
func (e *expr) binary(least int) int64 {
	a := e.unary()
	for {
		op := e.peek()
		bind := operators[op]
		if bind < least || bind == 0 {
			return a
		}
		e.i++
		a = e.apply(op, a, e.binary(bind+1))
	}
}

func (e *expr) apply(op string, a, b int64) int64 {
	if (op == "/" || op == "%") && b == 0 {
		return 0 // maybe in a part that does not count, as in A && 1/A
	}
	switch op {
	case "||":
		return truth(a != 0 || b != 0)
	case "&&":
		return truth(a != 0 && b != 0)
	case "|":
		return a | b
	case "^":
		return a ^ b
	case "&":
		return a & b
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(a < b)
	case ">":
		return truth(a > b)
	case "<=":
		return truth(a <= b)
	case ">=":
		return truth(a >= b)
	case "<<":
		return a << (uint64(b) & 63)
	case ">>":
		return a >> (uint64(b) & 63)
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	return a % b
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (e *expr) unary() int64 {
	if e.depth++; e.depth > 200 {
		e.fail("it is nested too deep")
	}
	defer func() { e.depth-- }()
	word := e.peek()
	e.i++
	switch {
	case word == "!":
		return truth(e.unary() == 0)
	case word == "-":
		return -e.unary()
	case word == "+":
		return e.unary()
	case word == "~":
		return ^e.unary()
	case word == "(":
		n := e.ternary()
		e.expect(")")
		return n
	case word == "defined":
		bracket := e.accept("(")
		name := e.peek()
		if !isName(name) {
			e.fail("defined wants a name")
		}
		e.i++
		if bracket {
			e.expect(")")
		}
		return truth(e.lookup(name) != nil)
	case word != "" && word[0] == '\'':
		if n, ok := charNumber(word); ok {
			return int64(n)
		}
	case isName(word):
		return 0 // a name without a meaning, as in C
	case word != "" && isDigit(word[0]):
		if n := parseNumber(strings.TrimRight(word, "uUlL")); n != nil && n.IsUint64() {
			return int64(n.Uint64())
		}
		e.fail("'%s' is not a number", word)
	}
	if word == "" {
		e.fail("a value is missing")
	}
	e.fail("'%s' is not a value", word)
	return 0
}
