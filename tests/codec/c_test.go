package codec

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/codec/workspace"
	"starfish/tests/cpeer"
)

// differing is an .x file whose types are compared with C's.
type differing struct {
	x     string
	pkg   string   // import path of its Go code
	flags []string // for C rpcgen
	skip  []string // types that C does not have
}

// ours are the files of the repository.
var ours = []differing{
	{x: "../../structs.x", pkg: "starfish/structs"},
	{x: "../../rpc/rpc_msg.x", pkg: "starfish/rpc"},
	{x: "../../portmap/pmap_prot.x", pkg: "starfish/portmap"},
	{x: "../../portmap/rpcb_prot.x", pkg: "starfish/portmap"},
	{x: "sample/sample.x", pkg: "starfish/tests/codec/sample", flags: []string{"-DFOR_C"}, skip: []string{"wide", "nested_way", "nested_where_deep", "nested_where", "nested_rest", "nested", "only"}},
	{x: "nfs3/nfs3.x", pkg: "starfish/tests/codec/nfs3"},
}

// code returns the Go code of a file of the repository.
func (f differing) code(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", strings.TrimPrefix(f.pkg, "starfish"), strings.TrimSuffix(filepath.Base(f.x), ".x")+"_xdr.go"))
	require.NoError(t, err)
	return string(text)
}

// perType is how many random values of each type go through C and back, and how
// many damaged ones.
const perType = 2000

// The types of our files, and of all that Debian ships, are on the wire what C
// rpcgen's code makes of them.
func TestC(t *testing.T) {
	cpeer.Require(t, "rpcgen", "gcc", "libtirpc")
	space := workspace.New(t)
	files := append([]differing(nil), ours...)
	code := map[string]string{}
	for _, f := range ours {
		code[f.x] = f.code(t)
	}
	for _, d := range debian {
		if d.present() {
			files = append(files, differing{x: d.x, pkg: d.pkg()})
			code[d.x] = string(d.generate(t, space)[0].Code)
		}
	}
	var table, imports bytes.Buffer
	types := map[string][]string{} // by file, in .x
	for i, f := range files {
		fmt.Fprintf(&table, "%q: {\n", f.x)
		alias := fmt.Sprintf("p%d", i)
		for _, k := range kindsOf(code[f.x], f.skip) {
			fmt.Fprintf(&table, "differ.Of[%s.%s](%q),\n", alias, k[0], k[1])
			types[f.x] = append(types[f.x], k[1])
		}
		table.WriteString("},\n")
		fmt.Fprintf(&imports, "%s %q\n", alias, f.pkg)
	}
	main, err := os.ReadFile("testdata/differ.go.txt")
	require.NoError(t, err)
	space.Write(t, "differing/main.go", main)
	space.Write(t, "differing/files.go", fmt.Appendf(nil, "package main\n\nimport (\n\"starfish/tests/codec/differ\"\n%s)\n\nvar files = map[string][]differ.Kind{\n%s}\n", imports.Bytes(), table.Bytes()))
	program := space.Build(t, "differing")
	for _, f := range files {
		t.Run(filepath.Base(f.x), func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, types[f.x])
			out, err := exec.Command(program, f.x, cProgram(t, f, types[f.x], "peer"), fmt.Sprint(perType)).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

var (
	decodes   = regexp.MustCompile(`(?m)^func \(v \*(\w+)\) DecodeXDR`)
	described = regexp.MustCompile(`(?m)^// (\w+) is the (?:struct|union|enum|typedef) (\w+)`)
)

// kindsOf returns the Go and .x names of the types in generated code.
func kindsOf(code string, skip []string) (kinds [][2]string) {
	names := map[string]string{}
	for _, m := range described.FindAllStringSubmatch(code, -1) {
		names[m[1]] = m[2]
	}
types:
	for _, m := range decodes.FindAllStringSubmatch(code, -1) {
		for _, s := range skip {
			if names[m[1]] == s {
				continue types
			}
		}
		kinds = append(kinds, [2]string{m[1], names[m[1]]})
	}
	return kinds
}

// cProgram compiles the C side of f, testdata/NAME.c, for the types named.
func cProgram(t testing.TB, f differing, types []string, name string) string {
	t.Helper()
	dir := t.TempDir()
	stubs := cpeer.Rpcgen(t, dir, renamed(t, f.x), append([]string{"-C"}, f.flags...)...)
	source, err := os.ReadFile("testdata/" + name + ".c")
	require.NoError(t, err)
	var table []string
	for _, name := range types {
		table = append(table, fmt.Sprintf("{(xdrproc_t)xdr_t_%s,sizeof(t_%s)}", name, name))
	}
	defines := fmt.Sprintf("#define HEADER %q\n#define KINDS %s\n", filepath.Base(stubs.Header), strings.Join(table, ","))
	main := cpeer.Source(t, dir, name+".c", defines+string(source))
	args := append([]string{"-O2", "-w", "-Dbool=bool_t", "-Du_longlong_t=u_int64_t"}, f.flags...) // what rpcgen forgets, and glibc has not
	return cpeer.Compile(t, dir, name, []string{main, stubs.XDR}, args...)
}

// notRenamed are the names in an .x file that are not the file's own; netobj is
// libtirpc's.
var notRenamed = wordSet(`bool case const default double enum float hyper int opaque quadruple string struct switch typedef union
	unsigned void program version TRUE FALSE long short char u_int u_long u_short u_char longlong_t u_longlong_t quad_t u_quad_t
	int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t netobj`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

var (
	name       = regexp.MustCompile(`\b[A-Za-z_]\w*`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
	included   = regexp.MustCompile(`^#include "(.*)"`)
	sameName   = regexp.MustCompile(`^typedef struct (\w+) (\w+);`)
	forCMacros = regexp.MustCompile(`^%#define\s+(\w+)\s+(\d+)\s*$`)
)

// renamed copies an .x file with t_ before all names: libtirpc's headers have
// some of them too, and names are not on the wire. C text is left out, but for
// its numbers; what is included is put in.
func renamed(t testing.TB, path string) string {
	t.Helper()
	var out strings.Builder
	prefixed := func(s string) string {
		return name.ReplaceAllStringFunc(s, func(s string) string {
			if notRenamed[s] {
				return s
			}
			return "t_" + s
		})
	}
	var copyFile func(path string)
	copyFile = func(path string) {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		// A backslash joins lines, also those of C text.
		for _, l := range strings.Split(strings.ReplaceAll(string(src), "\\\n", " "), "\n") {
			m := included.FindStringSubmatch(l)
			twice := sameName.FindStringSubmatch(l)
			number := forCMacros.FindStringSubmatch(l)
			switch {
			case m != nil:
				copyFile(filepath.Join(filepath.Dir(path), m[1]))
			case number != nil:
				fmt.Fprintf(&out, "const t_%s = %s;\n", number[1], number[2])
			case strings.HasPrefix(l, "%"), twice != nil && twice[1] == twice[2]:
			case strings.HasPrefix(l, "#"):
				out.WriteString(l + "\n")
			default:
				out.WriteString(prefixed(quoted.ReplaceAllString(l, `"s"`)) + "\n")
			}
		}
	}
	for _, d := range debian {
		for _, i := range d.imports {
			switch {
			case d.x != path:
			case i == "tirpc":
				out.WriteString(prefixed(tirpcInC))
			default:
				copyFile(rpcsvc + i + ".x")
			}
		}
	}
	copyFile(path)
	return cpeer.Source(t, t.TempDir(), "t_"+filepath.Base(path), out.String())
}

// tirpcInC are the types of testdata/tirpc.x as C rpcgen is to see them; netobj
// comes from libtirpc itself.
const tirpcInC = `
const MAXNETNAMELEN = 255;
const MAXNAMELEN = 1025;
typedef opaque des_block[8];
typedef unsigned int rpcprog_t;
typedef unsigned int rpcvers_t;
typedef unsigned int rpcproc_t;
struct netbuf { unsigned int maxlen; opaque buf<>; };
`
