// Package rpcgen compiles .x files, the XDR language of RFC 4506 section 6 with
// the programs of RFC 5531 section 12, to Go. The files may be the ones that C
// rpcgen reads.
//
// The work goes through four stages: lex.go with cpp.go and expr.go, the
// preprocessor, makes tokens; parse.go a tree (ast.go); check.go resolves names
// and numbers and refuses what has no meaning; names.go and gen_*.go write Go.
// compile.go puts them together. docs/rpcgen.md is the user's guide:
//
//	enum color                   type Color int32, with String; tags keep their spelling
//	struct s, union u            structs; of a union's fields the discriminant says which
//	                             counts, and a function for each arm makes one
//	T *x, T x<n>, T x[n]         *T, []T, [n]T
//	string, opaque<>, opaque[n]  string, []byte, [n]byte
//	typedef of a basic type,     a Go type of its own
//	string, opaque or array
//	typedef of another name,     an alias; that of a pointer T *P has AppendP and DecodeP,
//	or of a pointer              since an alias of a pointer has no methods
//	program P, version V         PVClient, PVHandler, RegisterPV and DispatchPV
//
// Every type but those aliases is an xdr.Appender, an xdr.DecoderFrom and an
// xdr.Sizer. A struct that ends in a pointer to the next of its kind is a list,
// written and read in a loop. Other recursion ends at xdr.MaxDepth.
//
// A construct that is not known here is an error with its place, never skipped;
// all errors of a file come at once, as an ErrorList. C text after % at the
// start of a line is left out.
package rpcgen
