// Package cclient runs programs in C, made of structs.x by C rpcgen, against
// the cluster. Its tests compile the programs of cgo/examples themselves, so
// that they need nothing that make has built.
package cclient
