package rpcgen

import (
	"fmt"
	"strings"
)

// stub is one procedure as Go sees it.
type stub struct {
	method string
	params string // ", arg T"
	result string // "" for void
	args   []string
}

func (g *generator) stub(p *proc) stub {
	s := stub{method: g.names.methods[p]}
	for i, a := range p.args {
		name := "arg"
		if len(p.args) > 1 {
			name = fmt.Sprintf("arg%d", i+1)
		}
		s.args = append(s.args, name)
		s.params += ", " + name + " " + g.goType(a)
	}
	if p.result.typ.basic != void {
		s.result = g.goType(p.result)
	}
	return s
}

func (s stub) signature() string {
	if s.result == "" {
		return fmt.Sprintf("%s(ctx context.Context%s) error", s.method, s.params)
	}
	return fmt.Sprintf("%s(ctx context.Context%s) (%s, error)", s.method, s.params, s.result)
}

// hasMethods says whether f's Go type has AppendXDR and DecodeXDR.
func hasMethods(f *field) bool {
	if f.shape != one || f.typ.basic != named {
		return false
	}
	t, ok := f.typ.decl.(*typedefDecl)
	switch {
	case !ok:
		return true
	case t.field.shape == optional:
		return false
	case t.field.shape == one && t.field.typ.basic == named:
		return hasMethods(t.field)
	}
	return true
}

func (g *generator) eachVersion(do func(d *programDecl, v *version)) {
	for _, d := range g.f.decls {
		if prog, ok := d.(*programDecl); ok {
			for _, v := range prog.versions {
				do(prog, v)
			}
		}
	}
}

// clients writes a client for each version.
func (g *generator) clients() {
	g.eachVersion(func(d *programDecl, v *version) {
		name := g.names.stubs[v] + "Client"
		g.use("context")
		g.use(rpcPath)
		g.doc(name+" calls version "+v.name+" of the program "+d.name+".", v.docs)
		g.pf("type %s struct{ c rpc.Caller }\n\n", name)
		g.pf("// New%s returns a client that calls through c.\nfunc New%s(c rpc.Caller) *%s { return &%s{c: c} }\n\n", name, name, name, name)
		for _, p := range v.procs {
			g.clientMethod(d, v, p, name)
		}
	})
}

func (g *generator) clientMethod(d *programDecl, v *version, p *proc, client string) {
	s := g.stub(p)
	g.doc(s.method+" calls "+p.name+".", p.docs)
	g.pf("func (c *%s) %s {\n", client, s.signature())
	args := "nil"
	switch {
	case len(p.args) == 1 && hasMethods(p.args[0]):
		args = "arg"
	case len(p.args) > 0:
		args = "args"
		g.pf("args := ")
		g.appendFunc("xdr.AppendFunc(func(b []byte)", codec{where: p.name}, func(k *codec) {
			for i, a := range p.args {
				k.append(a, s.args[i], g.goType(a))
			}
		})
		g.pf(")\n")
	}
	call := fmt.Sprintf("c.c.Call(ctx, %s, %s, %s, %s, ", g.constNames[d.name], g.constNames[v.name], g.names.procs[p], args)
	switch {
	case s.result == "":
		g.pf("return %snil)\n}\n\n", call)
		return
	case hasMethods(p.result):
		g.pf("var res %s\nerr := %s&res)\n", s.result, call)
	default:
		g.pf("var res %s\nerr := %s", s.result, call)
		g.decodeFunc("xdr.DecodeFunc(func(d *xdr.Decoder)", func(k *codec) { k.decode(p.result, "res", s.result) })
		g.pf("))\n")
	}
	g.pf("return res, err\n}\n\n")
}

// servers writes an interface and a Register function for each version.
func (g *generator) servers() {
	g.eachVersion(func(d *programDecl, v *version) {
		name := g.names.stubs[v]
		g.use("context")
		g.use(rpcPath)
		g.use(xdrPath)
		g.doc(name+"Handler serves version "+v.name+" of the program "+d.name+". An error that a method\n// returns is answered as package rpc says; the detail stays in the log.", v.docs)
		g.pf("type %sHandler interface {\n", name)
		for _, p := range v.procs {
			s := g.stub(p)
			g.apart(p.docs)
			g.comment([]string{s.method + " serves " + p.name + "."})
			g.comment(append(append([]string(nil), p.docs.lead...), p.docs.tail...))
			g.pf("%s\n", s.signature())
		}
		g.pf("}\n\n")
		for _, p := range v.procs {
			g.writer(p)
		}
		g.pf("// Register%s makes s serve version %s of %s with h.\n", name, v.name, d.name)
		g.pf("func Register%s(s *rpc.Server, h %sHandler) {\ns.Register(%s, %s, Dispatch%s(h))\n}\n\n", name, name, g.constNames[d.name], g.constNames[v.name], name)
		g.pf("// Dispatch%s returns what Register%s registers: a handler that reads the arguments\n// of each call, calls h, and writes its result.\n", name, name)
		g.pf("func Dispatch%s(h %sHandler) rpc.Handler {\n", name, name)
		g.pf("return rpc.HandlerFunc(func(ctx context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {\n")
		g.pf("switch call.Proc {\n")
		hasNull := false
		for _, p := range v.procs {
			n := g.eval(p.num)
			hasNull = hasNull || n.Sign() == 0
		}
		if !hasNull {
			g.pf("case 0:\nreturn reply, nil\n")
		}
		for _, p := range v.procs {
			g.pf("case %s:\nreturn serve%s%s(ctx, h, args, reply)\n", g.names.procs[p], name, g.names.methods[p])
		}
		g.pf("}\nreturn reply, rpc.ErrProcUnavail\n})\n}\n\n")
		for _, p := range v.procs {
			g.serveFunc(p, name)
		}
	})
}

// writer writes the interface of a handler that writes the result of p itself.
func (g *generator) writer(p *proc) {
	name, s := g.names.writers[p], g.stub(p)
	if name == "" {
		return
	}
	g.pf("// %s is a handler that appends the result of %s to reply itself, in XDR:\n// where a handler has this method, it is called in the place of %s.\n", name, p.name, s.method)
	g.pf("type %s interface {\n%s(ctx context.Context%s, reply []byte) ([]byte, error)\n}\n\n", name, g.names.appends[p], s.params)
}

// serveFunc writes the function that reads arguments, calls the handler and
// appends the result.
func (g *generator) serveFunc(p *proc, name string) {
	s := g.stub(p)
	in := "d"
	if len(p.args) == 0 {
		in = "_"
	}
	g.pf("func serve%s%s(ctx context.Context, h %sHandler, %s *xdr.Decoder, b []byte) ([]byte, error) {\n", name, s.method, name, in)
	dec := codec{g: g, fail: `return b, fmt.Errorf("%w: %w", rpc.ErrGarbageArgs, err)`}
	for i, a := range p.args {
		dec.pf("var %s %s\n", s.args[i], g.goType(a))
		dec.decode(a, s.args[i], g.goType(a))
	}
	if len(p.args) > 0 {
		g.use("fmt")
		if !dec.atEnd() {
			dec.check("d.Err()")
		}
	}
	g.pf("%s", dec.out)
	list := strings.Join(append([]string{"ctx"}, s.args...), ", ")
	if s.result == "" {
		g.pf("return b, h.%s(%s)\n}\n\n", s.method, list)
		return
	}
	g.pf("if w, ok := h.(%s); ok {\nreturn w.%s(%s, b)\n}\n", g.names.writers[p], g.names.appends[p], list)
	enc := codec{g: g, where: p.name}
	enc.append(p.result, "res", s.result)
	body := strings.TrimPrefix(enc.appendBody(), "var err error\n")
	g.pf("res, err := h.%s(%s)\nif err != nil {\nreturn b, err\n}\n%s}\n\n", s.method, list, body)
}
