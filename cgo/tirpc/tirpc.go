//go:build cgo

// Package tirpc is the C side of structs.x for tests and benchmarks: the xdr
// routines that C rpcgen writes, over libtirpc. It is the only package that
// imports "C"; without cgo it exists, and Available is false.
package tirpc

/*
#cgo CFLAGS: -O2 -w
#cgo pkg-config: libtirpc
#include <stdlib.h>
#include "list.h"
*/
import "C"

import (
	"errors"
	"time"
	"unsafe"
)

// Available tells whether the binding was built.
const Available = true

// The bounds keep rpcgen's recursive list routines within the stack of the
// thread that Go runs them on; they overflow 8 MiB at about 58,000 nodes.
const (
	maxNodes = 10_000
	maxBytes = 30_000 * 16 // 16 bytes are the smallest node
)

// ErrXDR is an encode or decode that libtirpc refuses.
var ErrXDR = errors.New("tirpc: refused by the xdr routine")

// ErrTooMany is a list that rpcgen's recursive routines may not have the stack
// for.
var ErrTooMany = errors.New("tirpc: more nodes than the C routines have stack for")

// EncodeList encodes handle_query_args as rpcgen's C routine does.
func EncodeList(list []Node, word uint64) ([]byte, error) {
	if len(list) > maxNodes {
		return nil, ErrTooMany
	}
	args := C.args_new(C.uint64_t(word))
	defer C.args_free(args)
	// C builds a list at its head.
	for i := len(list) - 1; i >= 0; i-- {
		addr := C.CString(list[i].Machine)
		C.args_push(args, addr, C.uint64_t(list[i].ID))
	}
	buf := make([]byte, C.args_size(args))
	n := C.args_encode(args, (*C.char)(unsafe.Pointer(unsafe.SliceData(buf))), C.uint(len(buf)))
	if n == 0 {
		return nil, ErrXDR
	}
	return buf[:n], nil
}

// DecodeList decodes handle_query_args as rpcgen's C routine does. Like that it
// accepts bytes behind the end.
func DecodeList(b []byte) (list []Node, word uint64, err error) {
	if len(b) > maxBytes {
		return nil, 0, ErrTooMany
	}
	args := C.args_new(0)
	defer C.args_free(args)
	data := C.CBytes(b) // libtirpc takes the address of what it reads
	defer C.free(data)
	if C.args_decode(args, (*C.char)(data), C.uint(len(b))) == 0 {
		return nil, 0, ErrXDR
	}
	for n := args.list; n != nil; n = n.next {
		list = append(list, Node{Machine: C.GoString(n.machine_addr), ID: uint64(n.vector)})
	}
	return list, uint64(args.result), nil
}

// TimeEncode encodes a list of nodes nodes rounds times, in C without a step
// into Go, and tells how long it took. It is what benchmarks compare with.
func TimeEncode(nodes, rounds int) (time.Duration, error) {
	return timed(nodes, func(args *C.handle_query_args, buf *C.char, size C.uint) C.int64_t {
		return C.time_encode(args, buf, size, C.int(rounds))
	})
}

// TimeDecode is TimeEncode for decoding; the list is freed in each round.
func TimeDecode(nodes, rounds int) (time.Duration, error) {
	return timed(nodes, func(_ *C.handle_query_args, buf *C.char, size C.uint) C.int64_t {
		return C.time_decode(buf, size, C.int(rounds))
	})
}

// timed gives f a list of nodes nodes, and that list encoded.
func timed(nodes int, f func(args *C.handle_query_args, buf *C.char, size C.uint) C.int64_t) (time.Duration, error) {
	if nodes > maxNodes {
		return 0, ErrTooMany
	}
	args := C.args_new(1)
	defer C.args_free(args)
	for i := range nodes {
		C.args_push(args, C.CString(BenchMachine), C.uint64_t(nodes-1-i))
	}
	size := C.args_size(args)
	buf := (*C.char)(C.malloc(C.size_t(size)))
	defer C.free(unsafe.Pointer(buf))
	if C.args_encode(args, buf, size) == 0 {
		return 0, ErrXDR
	}
	ns := f(args, buf, size)
	if ns < 0 {
		return 0, ErrXDR
	}
	return time.Duration(ns), nil
}
