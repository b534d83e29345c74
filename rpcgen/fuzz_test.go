package rpcgen_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
)

// FuzzGenerate compiles text: an error with a place, or Go that type-checks.
func FuzzGenerate(f *testing.F) {
	files, err := filepath.Glob("testdata/*.x")
	require.NoError(f, err)
	for _, path := range append(files, "../structs.x", "../rpc/rpc_msg.x", "../portmap/rpcb_prot.x") {
		src, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(string(src))
	}
	f.Add("#define A A\nconst B = A;")
	f.Add("#define A B\n#define B A\nconst C = A;")
	f.Add("struct a { a *next; }; typedef a *b; struct c { b next; };")
	f.Add("enum e { A = B, B = A };")
	f.Add("union u switch (int a) { case 1: u *v; default: void; };")
	f.Add("/* caf\xe9 \x00 */ const A = 1;")
	f.Add("/**/const A=1;//\n/*/*/")
	f.Add("#if defined(A) || 1 / 0\n#elif (2 ? 3 : 4) << 5\n#endif\n#include \"a.x\"\n")
	f.Add("#define F(a, b) a b; a b<F(1, 2)>\nstruct s { F(int, c); };")
	f.Add("namespace a::b { struct { int a; } b; typedef union switch (enum { A } d) { default: struct { int e; } f; } u; }")
	f.Add("struct *a { a b; }; program P { version V { a *F(a, a b) = F; } = 1; } = P;")
	f.Add("const A = \"a\\\"b\"; const B = '\\n'; const c = A;")
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 8<<10 {
			return
		}
		outs, err := rpcgen.Generate(rpcgen.Options{File: "fuzz.x", Source: src, ReadFile: func(name string) ([]byte, error) {
			return []byte(src), nil // it includes itself
		}})
		var list rpcgen.ErrorList
		switch {
		case errors.As(err, &list):
			for _, e := range list {
				if e.Line < 1 || e.Col < 1 || e.Line > 1+strings.Count(src, "\n") || e.File == "" {
					t.Fatalf("no such place: %v", e)
				}
			}
		case err != nil:
			t.Fatalf("not a fault of the file: %v", err)
		default:
			typecheck(t, outs)
		}
	})
}
