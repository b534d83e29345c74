package rpcgen

import (
	"fmt"
	gotoken "go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Options say what to compile.
type Options struct {
	File    string            // name of the .x file, for messages and names
	Source  string            // its text
	Package string            // of the Go code; default: the file's base name
	Defines map[string]string // macros, as by -D
	Include []string          // folders in which #include looks, after the file's own
	Imports []Import          // files whose declarations are known, but not written
	// ReadFile reads what is included or imported; nil is os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// Note, if it is there, is told what is left out and what is renamed.
	Note func(pos Pos, text string)
}

// Import is an .x file whose Go code is written elsewhere.
type Import struct {
	File    string
	Package string // import path of that code; "" is the package that is written now
}

// Output is one Go file.
type Output struct {
	Name string // FILE_xdr.go, FILE_clnt.go, FILE_svc.go
	Code []byte
}

// compiler is one run over a file, with those it includes and imports.
type compiler struct {
	Options
	faults faults
	units  []*unit // imported so far
}

// unit is one .x file, with what it includes, read and checked.
type unit struct {
	*checker
	names *naming
	path  string // import path; "" is the package that is written
}

// Generate compiles an .x file. Its error is an ErrorList where the file, or
// one that it includes or imports, is at fault.
func Generate(opts Options) ([]Output, error) {
	base := strings.TrimSuffix(filepath.Base(opts.File), ".x")
	pkg := opts.Package
	if pkg == "" {
		pkg = base
	}
	if !isPackage(pkg) {
		return nil, fmt.Errorf("rpcgen: %q cannot be the name of a Go package: use -p", pkg)
	}
	c := &compiler{Options: opts}
	for _, imp := range opts.Imports {
		if err := c.load(imp); err != nil {
			return nil, err
		}
	}
	u := c.unit(opts.File, opts.Source, "")
	if err := c.faults.err(); err != nil {
		return nil, err
	}
	for _, known := range append(c.units, u) {
		known.nameAll()
	}
	outs, err := generate(c, u, base, pkg)
	if err == nil {
		err = c.verify(outs)
	}
	if err != nil {
		return nil, err
	}
	return outs, nil
}

func isPackage(name string) bool { return isName(name) && !gotoken.IsKeyword(name) && name != "_" }

// load reads an imported file.
func (c *compiler) load(imp Import) error {
	if imp.Package != "" && !isPackage(qualifier(imp.Package)) {
		return fmt.Errorf("rpcgen: -import %s=%s: the package's name is not the last part of its path", imp.File, imp.Package)
	}
	for _, dir := range append([]string{""}, c.Include...) {
		name := filepath.Join(dir, imp.File)
		if src, err := c.read(name); err == nil {
			c.units = append(c.units, c.unit(name, src, imp.Package))
			return nil
		}
	}
	return fmt.Errorf("rpcgen: -import %s: there is no such file, here or in a folder of -I", imp.File)
}

// unit reads and checks one file.
func (c *compiler) unit(file, src, path string) *unit {
	c.faults.source(file, src)
	pre := preprocess(file, src, c)
	f := parse(c, pre.tokens)
	return &unit{checker: check(c, f, pre), path: path}
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// qualifier returns the name by which an imported package is called.
func qualifier(importPath string) string {
	dir, name := path.Split(importPath)
	if majorVersion.MatchString(name) && dir != "" {
		name = path.Base(dir)
	}
	return name
}

func (c *compiler) errorf(pos Pos, format string, args ...any) { c.faults.add(pos, format, args...) }

// note tells what -v shows.
func (c *compiler) note(pos Pos, format string, args ...any) {
	if c.Note != nil {
		c.Note(pos, fmt.Sprintf(format, args...))
	}
}

func (c *compiler) read(name string) (string, error) {
	read := c.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	b, err := read(name)
	return string(b), err
}

// imported says whether a file's declarations come by -import.
func (c *compiler) imported(file string) bool {
	for _, u := range c.units {
		if filepath.Clean(u.file) == filepath.Clean(file) {
			return true
		}
	}
	return false
}
