package rpcgen

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"go/types"
	"strings"
)

// nowhere has no packages.
type nowhere struct{}

func (nowhere) Import(path string) (*types.Package, error) { return nil, errors.New("not looked for") }

// verify type-checks the code that was written, so that a fault of the
// generator is an error here and no Go that does not compile. What other
// packages export is not looked at: they may not be there.
func (c *compiler) verify(outs []Output) error {
	fset := gotoken.NewFileSet()
	var files []*ast.File
	for _, o := range outs {
		f, err := goparser.ParseFile(fset, o.Name, o.Code, goparser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var fault error
	for _, f := range files {
		fault = cmp.Or(fault, unused(fset, f))
	}
	conf := types.Config{Importer: nowhere{}, Error: func(err error) {
		if !c.elsewhere(err) {
			fault = cmp.Or(fault, err)
		}
	}}
	_, _ = conf.Check(files[0].Name.Name, fset, files, nil) // conf.Error has heard of it
	if fault != nil {
		return fmt.Errorf("rpcgen: a fault of rpcgen, not of the file: its Go code would not compile: %w", fault)
	}
	return nil
}

// unused looks for an import that f does not use: go/types does not, where it
// has not the package.
func unused(fset *gotoken.FileSet, f *ast.File) error {
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, i := range f.Imports {
		name := qualifier(strings.Trim(i.Path.Value, `"`))
		if i.Name != nil {
			name = i.Name.Name
		}
		if !used[name] {
			return fmt.Errorf("%v: %s is imported and not used", fset.Position(i.Pos()), i.Path.Value)
		}
	}
	return nil
}

// elsewhere says whether err is about code that is not looked at: of another
// package, or of an imported file that is written into the same one.
func (c *compiler) elsewhere(err error) bool {
	var e types.Error
	if !errors.As(err, &e) {
		return false
	}
	if strings.HasPrefix(e.Msg, "could not import ") {
		return true
	}
	for _, u := range c.units {
		if u.path == "" && strings.HasPrefix(e.Msg, "undefined: ") {
			return true
		}
	}
	return false
}
