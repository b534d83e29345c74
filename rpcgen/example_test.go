package rpcgen_test

import (
	"fmt"
	"strings"

	"starfish/rpcgen"
)

// A file becomes Go code: types with their codecs, clients and servers.
func ExampleGenerate() {
	outs, err := rpcgen.Generate(rpcgen.Options{File: "sum.x", Source: `
struct numbers { int a<>; };
program SUM_PROG {
    version SUM_V1 { hyper SUM(numbers) = 1; } = 1;
} = 0x20000001;
`})
	if err != nil {
		fmt.Println(err)
	}
	for _, o := range outs {
		fmt.Println(o.Name)
		for _, line := range strings.Split(string(o.Code), "\n") {
			if strings.HasPrefix(line, "type ") || strings.HasPrefix(line, "func ") {
				declared, _, _ := strings.Cut(line, " {")
				fmt.Println("   ", declared)
			}
		}
	}
	// Output:
	// sum_xdr.go
	//     type Numbers struct
	//     func (v Numbers) AppendXDR(b []byte) ([]byte, error)
	//     func (v *Numbers) DecodeXDR(d *xdr.Decoder) error
	//     func (v Numbers) XDRSize() int
	// sum_clnt.go
	//     type SumProgSumV1Client struct{ c rpc.Caller }
	//     func NewSumProgSumV1Client(c rpc.Caller) *SumProgSumV1Client
	//     func (c *SumProgSumV1Client) Sum(ctx context.Context, arg Numbers) (int64, error)
	// sum_svc.go
	//     type SumProgSumV1Handler interface
	//     type SumProgSumV1SumAppender interface
	//     func RegisterSumProgSumV1(s *rpc.Server, h SumProgSumV1Handler)
	//     func DispatchSumProgSumV1(h SumProgSumV1Handler) rpc.Handler
	//     func serveSumProgSumV1Sum(ctx context.Context, h SumProgSumV1Handler, d *xdr.Decoder, b []byte) ([]byte, error)
}

// All faults of a file are told at once.
func ExampleErrorList() {
	_, err := rpcgen.Generate(rpcgen.Options{File: "bad.x", Source: "struct s { nope a; int b<-1>; };\n"})
	for _, e := range err.(rpcgen.ErrorList) {
		fmt.Printf("%v\n%s", e, e.Excerpt())
	}
	// Output:
	// bad.x:1:12: type 'nope' is not declared
	// struct s { nope a; int b<-1>; };
	//            ^
	// bad.x:1:26: the bound of 'b' is -1: not in 0 to 4294967295
	// struct s { nope a; int b<-1>; };
	//                          ^
}
