// Package workspace builds Go code that is not in the repository: what rpcgen
// makes of files that may not be committed.
package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"starfish/rpcgen"
)

// Module is the path of the module that New makes.
const Module = "foreign"

// Space is a temporary folder that is a Go module, in one workspace with the
// repository's.
type Space struct{ dir string }

// New returns an empty space that lasts until the test ends.
func New(t testing.TB) *Space {
	t.Helper()
	return NewModule(t, Module)
}

// NewModule is New with a module path of the caller's.
func NewModule(t testing.TB, module string) *Space {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.GoVersion}} {{.Dir}}").Output()
	version, root, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !ok {
		t.Fatalf("go list -m: %v %q", err, out)
	}
	s := &Space{dir: t.TempDir()}
	s.Write(t, "go.mod", fmt.Appendf(nil, "module %s\n\ngo %s\n", module, version))
	s.Write(t, "go.work", fmt.Appendf(nil, "go %s\n\nuse (\n\t.\n\t%s\n)\n", version, root))
	return s
}

// Write adds a file and returns where it is.
func (s *Space) Write(t testing.TB, path string, text []byte) string {
	t.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// Rpcgen compiles an .x file into the package pkg, a folder of the module, and
// returns its code.
func (s *Space) Rpcgen(t testing.TB, pkg string, opts rpcgen.Options) []rpcgen.Output {
	t.Helper()
	src, err := os.ReadFile(opts.File)
	if err != nil {
		t.Fatal(err)
	}
	opts.Source = string(src)
	opts.Package = filepath.Base(pkg)
	outs, err := rpcgen.Generate(opts)
	if err != nil {
		t.Fatalf("rpcgen %s:\n%v", opts.File, err)
	}
	for _, o := range outs {
		s.Write(t, pkg+"/"+o.Name, o.Code)
	}
	return outs
}

// Go runs the go command, which must do its work without a word.
func (s *Space) Go(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	s.Prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// Prepare makes cmd, a go command, run in the space.
func (s *Space) Prepare(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(s.dir, "go.work"), "GOFLAGS=-buildvcs=false")
}

// Build builds the program in a folder of the module, and returns it.
func (s *Space) Build(t testing.TB, folder string) string {
	t.Helper()
	bin := filepath.Join(s.dir, "bin", folder)
	s.Go(t, "build", "-o", bin, "./"+folder)
	return bin
}
