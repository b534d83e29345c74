// Command rpcgen compiles an .x file (XDR and RPC language) to Go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"starfish/rpcgen"
)

const usage = `rpcgen compiles FILE.x, in the language of RFC 4506 and RFC 5531, to Go:
FILE_xdr.go with the types, and FILE_clnt.go and FILE_svc.go where the file has
programs.

Usage:
  rpcgen [-o DIR] [-p PACKAGE] [-D NAME[=VALUE]]... FILE.x

  -o DIR            where to write (default: the current folder)
  -p PACKAGE        name of the Go package (default: the file's base name)
  -D NAME[=VALUE]   define NAME for #ifdef, and as VALUE (default 1); may be
                    repeated, and written -DNAME

Examples:
  rpcgen structs.x
  rpcgen -o internal/wire -p wire proto.x
  rpcgen -DHANDLER_ONLY structs.x
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

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	opts := rpcgen.Options{Defines: map[string]string{}}
	flags := flag.NewFlagSet("rpcgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	dir := flags.String("o", ".", "")
	flags.StringVar(&opts.Package, "p", "", "")
	flags.Var(defines(opts.Defines), "D", "")
	switch err := flags.Parse(splitD(args)); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "rpcgen --help shows how")
		return exitUsage
	case flags.NArg() != 1:
		fmt.Fprintf(stderr, "rpcgen: one .x file is wanted, %d were given; rpcgen --help shows how\n", flags.NArg())
		return exitUsage
	}
	if err := compile(flags.Arg(0), *dir, opts); err != nil {
		report(stderr, err)
		return exitFailed
	}
	return exitOK
}

// splitD turns -DNAME, as C rpcgen takes it, into -D NAME.
func splitD(args []string) []string {
	var out []string
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "-D"); ok && name != "" && name[0] != '=' {
			out = append(out, "-D", name)
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
