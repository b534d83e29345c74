//go:build linux

package cclient_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/cluster"
	"starfish/tests/cpeer"
)

const (
	structsX = "../../structs.x"
	examples = "../../cgo/examples"
)

// TestStubsCompile holds structs.x to C rpcgen in each of its ways, for C and
// for what gcc says about the outcome.
func TestStubsCompile(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":          nil,
		"-C":             {"-C"},
		"-N":             {"-N"},
		"-N -C":          {"-N", "-C"},
		"-M":             {"-M"},
		"-M -N -C":       {"-M", "-N", "-C"},
		"-DHANDLER_ONLY": {"-C", "-DHANDLER_ONLY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			stubs := cpeer.Rpcgen(t, dir, structsX, flags...)
			for _, source := range []string{stubs.XDR, stubs.Client, stubs.Server} {
				require.NotEmpty(t, source)
				cpeer.Compile(t, dir, filepath.Base(source)+".o", []string{source}, "-c", "-w")
			}
		})
	}
}

// TestTypesAreTheOriginalOnes holds the two structs that old programs know to
// their members, types and order.
func TestTypesAreTheOriginalOnes(t *testing.T) {
	stubs := cpeer.Rpcgen(t, t.TempDir(), structsX, "-C")
	header, err := os.ReadFile(stubs.Header)
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(header)), " ")
	require.Contains(t, text, "struct machine_vec_node { char *machine_addr; vec_t vector; struct machine_vec_node *next; };")
	require.Contains(t, text, "struct query_return_value { vec_t vector; char *failed_machine; };")
	require.Contains(t, text, "typedef u_quad_t vec_t;")
}

// programs are the compiled examples.
type programs struct{ dir string }

func (p programs) client() string      { return filepath.Join(p.dir, "c", "client") }
func (p programs) clientN() string     { return filepath.Join(p.dir, "n", "clientn") }
func (p programs) slaveClient() string { return filepath.Join(p.dir, "c", "slave_client") }
func (p programs) handler() string     { return filepath.Join(p.dir, "handler", "handler") }
func (p programs) index() string       { return filepath.Join(p.dir, "m", "index") }
func (p programs) pageRows() string    { return filepath.Join(p.dir, "m", "page_rows") }
func (p programs) careless() string    { return filepath.Join(p.dir, "handler", "careless") }

// dirEnv tells a test in a namespace where its parent built the programs.
const dirEnv = "STARFISH_TEST_CCLIENT"

var built struct {
	sync.Mutex
	dir string // ours to remove
}

// build compiles the examples once, with what a warning says as an error. It
// belongs before netns.Enter, so that the children need not build again.
func build(t *testing.T) programs {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if dir := os.Getenv(dirEnv); dir != "" {
		return programs{dir}
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "starfish-cclient-")
		require.NoError(t, err)
		built.dir = dir
	}
	stubs := func(name string, flags ...string) cpeer.Stubs {
		sub := filepath.Join(built.dir, name)
		require.NoError(t, os.MkdirAll(sub, 0o755))
		return cpeer.Rpcgen(t, sub, structsX, flags...)
	}
	link := func(name string, s cpeer.Stubs, sources ...string) {
		source, err := filepath.Abs(filepath.Join(examples, name+".c"))
		require.NoError(t, err)
		object := cpeer.Compile(t, s.Dir, name+".o", []string{source}, "-c", "-Wall", "-Wextra", "-Werror")
		cpeer.Compile(t, s.Dir, name, append([]string{object, s.XDR, s.Client}, sources...), "-w")
	}
	c := stubs("c", "-C")
	link("client", c)
	link("slave_client", c)
	link("clientn", stubs("n", "-N", "-C"))
	buildIndex(t, stubs("m", "-M", "-C"))
	h := stubs("handler", "-C", "-DHANDLER_ONLY")
	dial, err := filepath.Abs(filepath.Join(examples, "dial.c"))
	require.NoError(t, err)
	link("handler", h, h.Server, cpeer.Compile(t, h.Dir, "dial.o", []string{dial}, "-c", "-Wall", "-Wextra", "-Werror"))
	careless, err := filepath.Abs("testdata/careless.c")
	require.NoError(t, err)
	main := cpeer.ServerMain(t, h, structsX, []string{"tcp", "udp"}, "-C", "-DHANDLER_ONLY") // rpcgen's own main
	cpeer.Compile(t, h.Dir, "careless", []string{careless, h.XDR, h.Client, main}, "-w")
	require.NoError(t, os.Setenv(dirEnv, built.dir))
	return programs{built.dir}
}

// buildIndex compiles the program of several files, and with its reader of answers
// a program that has it read what the tests make up.
func buildIndex(t *testing.T, s cpeer.Stubs) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(examples, "index"))
	require.NoError(t, err)
	object := func(in, name string) string {
		source, err := filepath.Abs(filepath.Join(in, name+".c"))
		require.NoError(t, err)
		return cpeer.Compile(t, s.Dir, name+".o", []string{source}, "-c", "-Wall", "-Wextra", "-Werror", "-I", dir, "-I", filepath.Dir(dir))
	}
	bitmap := object(dir, "bitmap")
	cpeer.Compile(t, s.Dir, "index", []string{object(dir, "index"), object(dir, "session"), object(examples, "dial"), bitmap, s.XDR, s.Client}, "-w")
	cpeer.Compile(t, s.Dir, "page_rows", []string{object("testdata", "page_rows"), bitmap, s.XDR}, "-w")
}

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}
