package rpcgen_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// writer writes a random .x file that means something: names are declared once,
// nothing holds itself, labels differ. C rpcgen -N takes it too, unless wide.
type writer struct {
	rng  *rand.Rand
	wide bool // also what only this rpcgen takes
	out  strings.Builder

	names  []string // not yet used
	made   int
	types  []string // declared so far, which may be parts by value
	bodies []string // structs and unions, also those to come
	all    []string // also those to come, which may be behind * and <>
	tags   map[string][]string
	whole  []string // typedefs and names of integers: discriminants
	consts []string // small and not negative: bounds
}

// awkward are names that mean something in Go, in generated code, or are one
// name once they are camel case.
var awkward = strings.Fields(`type func range map chan go select var package import interface defer fallthrough goto
	len nil error make append any iota string_t byte rune new cap copy panic int64 uint32 float32
	b c d v n i err ctx res arg args slabs reply call h s p depth size k t xdr rpc fmt math strconv context
	append_xdr AppendXDR decode_xdr DecodeXDR xdr_size XDRSize decode_node append_node append_depth
	foo_bar FooBar fooBar foo__bar _foo foo_ Foo FOO foo foo_client Foo_handler register_foo new_foo NewFoo append_foo Append_Foo_list decode_foo
	Default case_1 X1 _1 __ _ a_1 a1 A_1 String string_ Proc Call Err Len u_int_ init main`)

// randomFile returns the text of a random .x file.
func randomFile(rng *rand.Rand, wide bool) string {
	w := &writer{rng: rng, wide: wide, tags: map[string][]string{}}
	w.names = append(w.names, awkward...)
	rng.Shuffle(len(w.names), func(i, j int) { w.names[i], w.names[j] = w.names[j], w.names[i] })
	n := 1 + rng.IntN(8)
	kinds := make([]int, n)
	for i := range kinds {
		w.all = append(w.all, w.name())
		if kinds[i] = rng.IntN(6); kinds[i] > 1 {
			w.bodies = append(w.bodies, w.all[i])
		}
	}
	if w.chance(4) {
		w.pf("#define GIVEN 7\n#ifdef GIVEN\nconst %s = GIVEN;\n#endif\n#if 0\nnothing\n#endif\n", w.name())
	}
	for i, name := range w.all {
		w.declare(name, kinds[i])
	}
	if w.chance(2) {
		w.program()
	}
	return w.out.String()
}

func (w *writer) pf(format string, args ...any) { fmt.Fprintf(&w.out, format, args...) }

func (w *writer) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *writer) pick(list ...string) string { return list[w.rng.IntN(len(list))] }

// name returns a new name, which no type, constant or procedure has.
func (w *writer) name() string {
	if n := len(w.names); n > 0 && w.chance(2) {
		name := w.names[n-1]
		w.names = w.names[:n-1]
		return name
	}
	w.made++
	return fmt.Sprintf("%s%d", w.pick("name_", "Name", "NAME_"), w.made)
}

// member returns a name that is new among members.
func (w *writer) member(members map[string]bool) string {
	for {
		name := w.pick(awkward...)
		if w.chance(2) {
			name = fmt.Sprintf("m_%d", w.rng.IntN(100))
		}
		if !members[name] {
			members[name] = true
			return name
		}
	}
}

// declare writes the type name, with constants before it.
func (w *writer) declare(name string, kind int) {
	if w.chance(3) {
		c := w.name()
		w.pf("const %s = %s;\n", c, w.pick("0", "1", "8", "0x10", "010", "255"))
		w.consts = append(w.consts, c)
	}
	if w.chance(4) {
		w.pf("const %s = %s;\n", w.name(), w.pick("-1", "0xffffffff", "18446744073709551615", "0x10000000000000000", "-170141183460469231731687303715884105728", `"text"`))
	}
	if w.chance(5) {
		w.pf("%%#include <%s.h>\n/* about\n * %s */\n", name, name)
	}
	closing := ""
	if w.wide && w.chance(5) {
		w.pf("namespace %s {\n", w.name())
		closing = "}\n"
	}
	switch kind {
	case 0:
		w.pf("enum %s %s;\n", name, w.tagsOf(name))
		w.whole = append(w.whole, name)
	case 1:
		w.typedef(name)
	case 2, 3:
		w.pf("struct %s %s;\n", name, w.fields(0))
	default:
		w.pf("union %s %s;\n", name, w.arms(0))
	}
	w.pf("%s", closing)
	w.types = append(w.types, name)
}

func (w *writer) typedef(name string) {
	if w.chance(3) {
		w.pf("typedef %s %s;\n", w.pick("int", "unsigned", "unsigned int", "hyper", "unsigned hyper", "short", "u_char", "bool", "int64_t"), name)
		w.whole = append(w.whole, name)
		return
	}
	if len(w.whole) > 0 && w.chance(4) {
		of := w.pick(w.whole...)
		w.pf("typedef %s %s;\n", of, name)
		w.whole = append(w.whole, name)
		w.tags[name] = w.tags[of]
		return
	}
	// Of those to come no typedef: they might form a circle.
	w.pf("typedef %s;\n", w.declaration(name, 0, append(w.bodies, w.types...)))
}

// tagsOf writes an enum's body.
func (w *writer) tagsOf(name string) string {
	var tags []string
	for i := range 1 + w.rng.IntN(4) {
		tag := w.name()
		w.tags[name] = append(w.tags[name], tag)
		switch w.rng.IntN(4) {
		case 0:
			tag += fmt.Sprintf(" = %d", 100*i)
		case 1:
			tag += fmt.Sprintf(" = 0x%x", 100*i+1)
		}
		tags = append(tags, tag)
	}
	end := " }"
	if w.wide && w.chance(3) {
		end = ", }"
	}
	return "{ " + strings.Join(tags, ", ") + end
}

func (w *writer) fields(depth int) string {
	var out strings.Builder
	members := map[string]bool{}
	out.WriteString("{\n")
	for range 1 + w.rng.IntN(4) {
		fmt.Fprintf(&out, "%s;%s\n", w.declaration(w.member(members), depth, w.all), w.pick("", "", " /* said */"))
	}
	return out.String() + "}"
}

// arms writes a union from "switch" on.
func (w *writer) arms(depth int) string {
	var out strings.Builder
	members := map[string]bool{}
	disc := w.pick("int", "unsigned", "unsigned int", "bool", "hyper", "unsigned hyper", "short", "u_char", "uint32_t")
	if len(w.whole) > 0 && w.chance(2) {
		disc = w.pick(w.whole...)
	}
	labels := []string{"0", "1", "0x7", "8", "011"}
	if disc == "bool" {
		labels = []string{"TRUE", "FALSE"}
	}
	if tags := w.tags[disc]; tags != nil {
		labels = tags
	} else if slices.Contains(w.whole, disc) {
		labels = []string{"0", "1"} // it may be a bool
	}
	if w.wide && depth == 0 && w.chance(6) {
		inner := w.name()
		disc = "enum " + w.tagsOf(inner)
		labels = w.tags[inner]
	}
	fmt.Fprintf(&out, "switch (%s %s) {\n", disc, w.member(members))
	cut := w.rng.IntN(len(labels)) + 1
	deflt := w.chance(2)
	if w.wide && deflt && w.chance(3) {
		fmt.Fprintf(&out, "default: %s;\n", w.arm(members, depth))
		deflt = false
	}
	for i, l := range labels[:cut] {
		fmt.Fprintf(&out, "case %s:", l)
		if i+1 < cut && w.chance(4) {
			continue // the next one's too
		}
		fmt.Fprintf(&out, " %s;\n", w.arm(members, depth))
	}
	if deflt {
		fmt.Fprintf(&out, "default: %s;\n", w.arm(members, depth))
	}
	return out.String() + "}"
}

func (w *writer) arm(members map[string]bool, depth int) string {
	if w.chance(3) {
		return "void"
	}
	return w.declaration(w.member(members), depth, w.all)
}

var basics = strings.Fields(`bool int unsigned hyper float double quadruple short char long u_int u_long u_short u_char
	longlong_t u_longlong_t quad_t u_quad_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t`)

// declaration writes a field called name: by value of a type before it, or
// behind * and <> of one of far.
func (w *writer) declaration(name string, depth int, far []string) string {
	switch w.rng.IntN(9) {
	case 0:
		return fmt.Sprintf("string %s<%s>", name, w.bound())
	case 1:
		return fmt.Sprintf("opaque %s<%s>", name, w.bound())
	case 2:
		return fmt.Sprintf("opaque %s[%s]", name, w.size())
	case 3:
		if w.wide && depth < 3 {
			return w.body(depth) + " " + w.shaped(name)
		}
	case 4, 5:
		if len(far) > 0 {
			return w.pick(far...) + " " + w.pick("*"+name, name+"<"+w.bound()+">")
		}
	case 6, 7:
		if len(w.types) > 0 {
			return w.pick(w.types...) + " " + w.shaped(name)
		}
	}
	return w.pick(append(basics, "unsigned hyper", "unsigned int", "unsigned short", "unsigned char", "unsigned long")...) + " " + w.shaped(name)
}

// body writes a body without a name.
func (w *writer) body(depth int) string {
	switch w.rng.IntN(3) {
	case 0:
		return "enum " + w.tagsOf(w.name())
	case 1:
		return "struct " + w.fields(depth+1)
	}
	return "union " + w.arms(depth+1)
}

func (w *writer) shaped(name string) string {
	return w.pick(name, name, "*"+name, name+"["+w.size()+"]", name+"<"+w.bound()+">")
}

// bound writes what stands between < and >.
func (w *writer) bound() string {
	if w.chance(3) {
		return ""
	}
	return w.size()
}

func (w *writer) size() string {
	if len(w.consts) > 0 && w.chance(2) {
		return w.pick(w.consts...)
	}
	return w.pick("1", "3", "8", "0x20")
}

func (w *writer) program() {
	w.pf("program %s {\n", w.name())
	for v := range 1 + w.rng.IntN(2) {
		w.pf("version %s {\n", w.name())
		for p := range 1 + w.rng.IntN(4) {
			w.pf("%s %s(%s) = %d;\n", w.result(), w.name(), w.arguments(), p+w.rng.IntN(2)*10)
		}
		w.pf("} = %d;\n", v+1)
	}
	w.pf("} = 0x%x;\n", 0x20000000+w.rng.IntN(1000))
}

func (w *writer) result() string {
	if w.chance(4) {
		return "void"
	}
	star := ""
	if w.wide && w.chance(4) {
		star = " *"
	}
	if t := w.argument(); t != "string" {
		return t + star
	}
	return "string"
}

func (w *writer) argument() string {
	if len(w.all) > 0 && w.chance(2) {
		return w.pick(w.all...)
	}
	return w.pick(append(basics, "string", "unsigned hyper")...)
}

func (w *writer) arguments() string {
	if w.chance(4) {
		return w.pick("", "void")
	}
	var args []string
	for range 1 + w.rng.IntN(3) {
		a := w.argument()
		name := ""
		if w.chance(2) {
			name = " " + w.pick(awkward...)
		}
		switch {
		case a == "string":
			a += name + w.pick("", "<>", "<256>")
		case w.chance(4):
			a += " *" + name
		default:
			a += name
		}
		args = append(args, a)
	}
	return strings.Join(args, ", ")
}
