// Package portmap runs bin/portmap beside the programs that it serves in the
// place of rpcbind: rpcinfo, libtirpc's servers and clients, Debian's daemons,
// systemd's tools, and attackers. Every test has a network, /run and processes
// of its own.
package portmap
