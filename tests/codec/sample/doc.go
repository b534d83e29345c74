// Package sample is what rpcgen makes of sample.x, a file with every construct
// that both compilers know: the tests of generated code run on it.
package sample

//go:generate go run ../../../cmd/rpcgen sample.x
