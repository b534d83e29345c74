package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"starfish/rpc"
	"starfish/xdr"
)

const (
	sumProg = 0x20000001
	sumVers = 1
	sumProc = 1 // SUM(int<>) -> int
)

// sum answers SUM. rpcgen writes what is done by hand here.
func sum(_ context.Context, call *rpc.Call, args *xdr.Decoder, reply []byte) ([]byte, error) {
	if call.Proc != sumProc {
		return nil, rpc.ErrProcUnavail
	}
	var total int32
	for range args.ArrayLen(1000, 4) {
		total += args.Int32()
	}
	if err := args.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrGarbageArgs, err)
	}
	return xdr.AppendInt32(reply, total), nil
}

func Example() {
	ctx := context.Background()
	server := rpc.NewServer(rpc.ServerConfig{})
	server.Register(sumProg, sumVers, rpc.HandlerFunc(sum))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()

	client, err := rpc.Dial(ctx, "tcp", l.Addr().String(), rpc.ClientConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var total int32
	err = client.Call(ctx, sumProg, sumVers, sumProc,
		xdr.AppendFunc(func(b []byte) ([]byte, error) {
			b = xdr.AppendUint32(b, 3)
			for _, n := range []int32{20, 23, -1} {
				b = xdr.AppendInt32(b, n)
			}
			return b, nil
		}),
		xdr.DecodeFunc(func(d *xdr.Decoder) error { total = d.Int32(); return d.Err() }))
	fmt.Println(total, err)

	err = client.Call(ctx, sumProg, 2, sumProc, nil, nil)
	var refused *rpc.ReplyError
	if errors.As(err, &refused) && errors.Is(err, rpc.ErrProgMismatch) {
		fmt.Println("versions", refused.Low, "to", refused.High)
	}

	fmt.Println(client.Close(), server.Shutdown(ctx), <-served)
	// Output:
	// 42 <nil>
	// versions 1 to 1
	// <nil> <nil> <nil>
}
