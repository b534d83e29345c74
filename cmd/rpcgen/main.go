// Command rpcgen compiles an .x file (XDR and RPC language) to Go.
package main

import (
	"errors"
	"flag"
	"fmt"
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
  -D NAME[=VALUE]   define NAME for #ifdef; may be repeated

Examples:
  rpcgen structs.x
  rpcgen -o internal/wire -p wire proto.x
  rpcgen -D HANDLER_ONLY structs.x
  //go:generate go run starfish/cmd/rpcgen -o . ../structs.x

Exit status: 0 written, 1 the file has errors (nothing was written), 2 usage.
`

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

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	opts := rpcgen.Options{Defines: map[string]string{}}
	flags := flag.NewFlagSet("rpcgen", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	dir := flags.String("o", ".", "")
	flags.StringVar(&opts.Package, "p", "", "")
	flags.Var(defines(opts.Defines), "D", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1:
		fmt.Fprintf(os.Stderr, "rpcgen: one .x file is wanted, %d were given; rpcgen --help shows how\n", flags.NArg())
		return 2
	}
	opts.File = flags.Arg(0)
	src, err := os.ReadFile(opts.File)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rpcgen:", err)
		return 1
	}
	opts.Source = string(src)
	outs, err := rpcgen.Generate(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, o := range outs {
		if err := os.WriteFile(filepath.Join(*dir, o.Name), o.Code, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "rpcgen:", err)
			return 1
		}
	}
	return 0
}
