// Package nfs3 is what rpcgen makes of nfs3.x, a part of NFS version 3: for
// benchmarks of READDIRPLUS, and for a server that foreign clients mount.
package nfs3

//go:generate go run ../../../cmd/rpcgen nfs3.x
