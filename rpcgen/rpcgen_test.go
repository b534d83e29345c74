package rpcgen_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
)

var update = flag.Bool("update", false, "write the golden files again")

// compile compiles a file that is on disk.
func compile(t testing.TB, path, pkg string, defines map[string]string) ([]rpcgen.Output, error) {
	t.Helper()
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	return rpcgen.Generate(rpcgen.Options{File: path, Source: string(src), Package: pkg, Defines: defines})
}

// besides are the files that testdata/imports.x imports.
var besides = []rpcgen.Import{
	{File: "testdata/include/imported.x", Package: "golden.test/go/market/v2"},
	{File: "beside.x"},
}

// Each testdata/NAME.x has its Go code, all files in one, and what -v says, as
// NAME.golden.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.x")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			require.NoError(t, err)
			var got bytes.Buffer
			opts := rpcgen.Options{
				File: path, Source: string(src), Package: "golden", Defines: map[string]string{"GIVEN": "9"},
				Include: []string{"testdata/include"},
				Note:    func(pos rpcgen.Pos, text string) { fmt.Fprintf(&got, "%v: %s\n", pos, text) },
			}
			if filepath.Base(path) == "imports.x" {
				opts.Imports = besides
			}
			outs, err := rpcgen.Generate(opts)
			require.NoError(t, err)
			if opts.Imports == nil {
				typecheck(t, outs)
			}
			for _, o := range outs {
				fmt.Fprintf(&got, "-- %s --\n%s", o.Name, o.Code)
			}
			golden := strings.TrimSuffix(path, ".x") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "go test ./rpcgen -update writes it")
			require.Equal(t, string(want), got.String(), "go test ./rpcgen -update accepts it")
		})
	}
}

// The code of imports.x builds with that of the files it imports.
func TestImports(t *testing.T) {
	generate := func(file, pkg string, opts rpcgen.Options) []rpcgen.Output {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		opts.File, opts.Source, opts.Package = file, string(src), pkg
		outs, err := rpcgen.Generate(opts)
		require.NoError(t, err)
		return outs
	}
	market := typecheck(t, generate("testdata/include/imported.x", "market", rpcgen.Options{}))
	outs := generate("testdata/imports.x", "golden", rpcgen.Options{Include: []string{"testdata/include"}, Imports: besides})
	outs = append(outs, generate("testdata/include/beside.x", "golden", rpcgen.Options{})...)
	typecheckWith(t, outs, map[string]*types.Package{besides[0].Package: market})
}

func TestImportFaults(t *testing.T) {
	files := map[string]string{
		"good.x":       "struct s { int a; };",
		"bad.x":        "struct t { nope a; };\n",
		"dir/loop.x":   "#include \"loop.x\"\n",
		"dir/broken.x": "const A = 1\n",
	}
	compile := func(src string, imports ...rpcgen.Import) string {
		outs, err := rpcgen.Generate(rpcgen.Options{
			File: "f.x", Source: src, Imports: imports, Include: []string{"dir"},
			ReadFile: func(name string) ([]byte, error) {
				if text, ok := files[name]; ok {
					return []byte(text), nil
				}
				return nil, os.ErrNotExist
			},
		})
		require.Error(t, err)
		require.Nil(t, outs)
		var list rpcgen.ErrorList
		if errors.As(err, &list) {
			return err.Error() + "\n" + list[0].Excerpt()
		}
		return err.Error()
	}
	require.Equal(t, "rpcgen: -import none.x: there is no such file, here or in a folder of -I", compile("", rpcgen.Import{File: "none.x"}))
	require.Contains(t, compile("", rpcgen.Import{File: "good.x", Package: "a/b-c"}), "the package's name is not the last part of its path")
	require.Equal(t, "bad.x:1:12: type 'nope' is not declared\nf.x:1:7: 'TRUE' is a word", compile("const TRUE = 1;", rpcgen.Import{File: "bad.x"})[:65])
	require.Equal(t, "f.x:2:8: type 's' is declared in good.x, line 1, already\nstruct s { int a; };\n       ^\n", compile("\nstruct s { int a; };", rpcgen.Import{File: "good.x"}))
	require.Equal(t, "dir/loop.x:1:1: #include \"loop.x\": 50 files deep, 50 in all; in a circle?\n#include \"loop.x\"\n^\n", compile("#include <loop.x>"))
	files["twice.x"] = "#include \"twice.x\"\n#include \"twice.x\"\n"
	require.Contains(t, compile("#include \"twice.x\""), "in a circle?", "2 to the power of 50 files")
	require.Equal(t, "f.x:2:1: ';' expected after the value, not 'const'\nconst B = 2;\n^\n", compile("#include \"dir/broken.x\"\nconst B = 2;"))
	require.Contains(t, compile("#include <none.x>"), "f.x:1:1: #include <none.x> is not found in dir: -I DIR adds a folder")
}

// The code in the repository is what rpcgen makes of the .x files beside it.
func TestCommittedCodeIsCurrent(t *testing.T) {
	for _, c := range []struct{ x, dir, pkg string }{
		{"../structs.x", "../structs", "structs"},
		{"../rpc/rpc_msg.x", "../rpc", "rpc"},
		{"../portmap/pmap_prot.x", "../portmap", "portmap"},
		{"../portmap/rpcb_prot.x", "../portmap", "portmap"},
		{"../tests/codec/sample/sample.x", "../tests/codec/sample", "sample"},
		{"../tests/codec/nfs3/nfs3.x", "../tests/codec/nfs3", "nfs3"},
	} {
		outs, err := compile(t, c.x, c.pkg, nil)
		require.NoError(t, err)
		for _, o := range outs {
			have, err := os.ReadFile(filepath.Join(c.dir, o.Name))
			require.NoError(t, err)
			require.Equal(t, string(have), string(o.Code), "%s is stale: go generate ./...", o.Name)
			require.True(t, bytes.HasPrefix(o.Code, []byte("// Code generated by rpcgen from "+filepath.Base(c.x)+". DO NOT EDIT.\n")))
		}
	}
}

func TestHandlerOnly(t *testing.T) {
	outs, err := compile(t, "../structs.x", "", map[string]string{"HANDLER_ONLY": "1"})
	require.NoError(t, err)
	var names []string
	for _, o := range outs {
		names = append(names, o.Name)
		require.False(t, bytes.Contains(o.Code, []byte("const MASTER_PROG")) || bytes.Contains(o.Code, []byte("Coordinate(")), "%s", o.Code)
	}
	require.Equal(t, []string{"structs_xdr.go", "structs_clnt.go", "structs_svc.go"}, names)
	require.Contains(t, string(outs[1].Code), "HandleQuery(")
}

func TestPackageName(t *testing.T) {
	const src = "const A = 1;"
	for _, c := range []struct{ file, pkg, want string }{
		{"dir/some.x", "", "some"}, {"dir/some.x", "other", "other"}, {"two-words.x", "", ""}, {"a.x", "func", ""}, {"a.x", "_", ""},
	} {
		outs, err := rpcgen.Generate(rpcgen.Options{File: c.file, Source: src, Package: c.pkg})
		if c.want == "" {
			require.ErrorContains(t, err, "use -p")
			continue
		}
		require.NoError(t, err)
		require.Contains(t, string(outs[0].Code), "\npackage "+c.want+"\n")
		require.Len(t, outs, 1, "no program, no stubs")
	}
}

// imports finds the compiled packages that generated code imports.
var imports = sync.OnceValues(func() (types.Importer, error) {
	list, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "starfish/xdr", "starfish/rpc").Output()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, line := range strings.Split(string(list), "\n") {
		path, export, _ := strings.Cut(line, " ")
		files[path] = export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }), nil
})

// typecheck fails unless outs are one correct Go package. Stubs are checked
// against package rpc as it is.
func typecheck(t testing.TB, outs []rpcgen.Output) *types.Package {
	t.Helper()
	return typecheckWith(t, outs, nil)
}

// others imports packages that are only in memory, beside those that are compiled.
type others struct {
	packages map[string]*types.Package
	compiled types.Importer
}

func (o others) Import(path string) (*types.Package, error) {
	if p, ok := o.packages[path]; ok {
		return p, nil
	}
	return o.compiled.Import(path)
}

func typecheckWith(t testing.TB, outs []rpcgen.Output, packages map[string]*types.Package) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, o := range outs {
		formatted, err := format.Source(o.Code)
		require.NoError(t, err)
		require.Equal(t, string(formatted), string(o.Code), "gofmt would change it")
		f, err := parser.ParseFile(fset, o.Name, o.Code, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	compiled, err := imports()
	require.NoError(t, err)
	conf := types.Config{Importer: others{packages, compiled}}
	pkg, err := conf.Check(files[0].Name.Name, fset, files, nil)
	require.NoError(t, err)
	return pkg
}
