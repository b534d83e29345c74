// Command rpcgen compiles an .x file (XDR and RPC language) to Go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"starfish/cmd/internal/release"
	"starfish/rpcgen"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

const usage = `rpcgen compiles FILE.x, in the language of RFC 4506 and RFC 5531 as C rpcgen
takes it, to Go: FILE_xdr.go with the types, and FILE_clnt.go and FILE_svc.go
where the file has programs. It needs no cpp.

Usage:
  rpcgen [flags] FILE.x

  -o DIR            where to write (default: the current folder)
  -p PACKAGE        name of the Go package (default: the file's base name)
  -D NAME[=VALUE]   define NAME for the preprocessor (default 1)
  -I DIR            where #include and -import look, after the file's own folder
  -import OTHER.x[=GO/PACKAGE]
                    the declarations of OTHER.x are known, but not written: they
                    are in GO/PACKAGE, or in the package that is written
  -version          print the version
  -v                say what is left out, included, and renamed

-D, -I and -import may be repeated; -DNAME and -IDIR may be written as one.
Other options are C rpcgen's (/usr/bin/rpcgen), which writes C: the .x file
stays as it is for both.

Examples:
  rpcgen structs.x
  rpcgen -o internal/wire -p wire proto.x
  rpcgen -DHANDLER_ONLY structs.x
  rpcgen -I /usr/include/rpcsvc -import netobj.x nis.x
  //go:generate go run starfish/cmd/rpcgen -o . ../structs.x

Exit status: 0 written, 1 failed (nothing was written), 2 usage.
`

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// defines collects -D flags.
type defines map[string]string

func (d defines) String() string { return "" }

func (d defines) Set(s string) error {
	name, val, ok := strings.Cut(s, "=")
	if !ok {
		val = "1"
	}
	if name == "" {
		return errors.New("a name is wanted")
	}
	d[name] = val
	return nil
}

// imports collects -import flags.
type imports []rpcgen.Import

func (i *imports) String() string { return "" }

func (i *imports) Set(s string) error {
	file, pkg, ok := strings.Cut(s, "=")
	if file == "" || ok && pkg == "" {
		return errors.New("OTHER.x or OTHER.x=GO/PACKAGE is wanted")
	}
	*i = append(*i, rpcgen.Import{File: file, Package: pkg})
	return nil
}

// folders collects -I flags.
type folders []string

func (f *folders) String() string { return "" }

func (f *folders) Set(s string) error {
	*f = append(*f, s)
	return nil
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	opts := rpcgen.Options{Defines: map[string]string{}}
	flags := flag.NewFlagSet("rpcgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	dir := flags.String("o", ".", "")
	verbose := flags.Bool("v", false, "")
	showVersion := flags.Bool("version", false, "")
	flags.StringVar(&opts.Package, "p", "", "")
	flags.Var(defines(opts.Defines), "D", "")
	flags.Var((*folders)(&opts.Include), "I", "")
	flags.Var((*imports)(&opts.Imports), "import", "")
	switch err := flags.Parse(split(args)); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "rpcgen: %v; rpcgen --help shows how\n", explained(err))
		return exitUsage
	case *showVersion:
		fmt.Fprint(stdout, release.Line("rpcgen", version))
		return exitOK
	case flags.NArg() != 1:
		fmt.Fprintf(stderr, "rpcgen: one .x file is wanted, %d were given; rpcgen --help shows how\n", flags.NArg())
		return exitUsage
	}
	if *verbose {
		opts.Note = func(pos rpcgen.Pos, text string) { fmt.Fprintf(stdout, "%v: %s\n", pos, text) }
	}
	if err := compile(flags.Arg(0), *dir, opts); err != nil {
		report(stderr, err)
		return exitFailed
	}
	return exitOK
}

// ofC are C rpcgen's options that are not ours, as `rpcgen --help` of
// rpcsvc-proto 1.4 lists them.
const ofC = "-5 -a -b -c -C -h -i -K -l -L -m -M -n -N -s -Sc -Sm -Ss -t -T -Y"

// explained says of an option that is not ours whether it is C rpcgen's.
func explained(err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
	switch {
	case !unknown:
		return err
	case slices.Contains(strings.Fields(ofC), name):
		return fmt.Errorf("%s is an option of C rpcgen, which writes C (often /usr/bin/rpcgen; its options are %s); this rpcgen writes Go, "+
			"all files at once, and needs none of them: -o DIR says where", name, ofC)
	}
	return fmt.Errorf("there is no option %s", name)
}

// split turns -DNAME and -IDIR, as C rpcgen takes them, into two arguments.
func split(args []string) []string {
	var out []string
	for _, a := range args {
		if len(a) > 2 && (a[:2] == "-D" || a[:2] == "-I") && a[2] != '=' {
			out = append(out, a[:2], a[2:])
			continue
		}
		out = append(out, a)
	}
	return out
}

// report prints err; that of an .x file with the line and a caret.
func report(w io.Writer, err error) {
	var list rpcgen.ErrorList
	if !errors.As(err, &list) {
		fmt.Fprintln(w, err)
		return
	}
	for _, e := range list {
		fmt.Fprintf(w, "%v\n%s", e, e.Excerpt())
	}
}

// compile writes the Go files of one .x file to dir: all of them or none.
func compile(file, dir string, opts rpcgen.Options) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("rpcgen: %w", err)
	}
	opts.File, opts.Source = file, string(src)
	outs, err := rpcgen.Generate(opts)
	if err != nil {
		return err
	}
	if err := write(dir, outs); err != nil {
		return fmt.Errorf("rpcgen: %w", err)
	}
	return nil
}

// write puts the files beside their places first, so that a full disk leaves
// the old ones as they were.
func write(dir string, outs []rpcgen.Output) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t) // those that were renamed are gone already
		}
	}()
	for _, o := range outs {
		temp := filepath.Join(dir, o.Name+".new")
		temps = append(temps, temp)
		if err := os.WriteFile(temp, o.Code, 0o644); err != nil {
			return err
		}
	}
	for i, o := range outs {
		if err := os.Rename(temps[i], filepath.Join(dir, o.Name)); err != nil {
			return err
		}
	}
	return nil
}
