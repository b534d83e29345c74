// Package structs is the Go side of structs.x, the wire contract: all of it but
// this file is written by rpcgen.
package structs

//go:generate go run ../cmd/rpcgen -o . ../structs.x
