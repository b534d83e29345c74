// Package portmap is the portmapper: the server that knows on which port and
// address each RPC program of a host is served, its client, and Dial, which
// asks it as C's clnt_create does.
//
// Program 100000 on port 111 has three versions: 2 is the port mapper of RFC
// 1833 section 3 (program, version, protocol and port), 3 and 4 are rpcbind of
// section 2 (netid and universal address). A call to version 4's GETADDR over
// TCP, and its answer:
//
//	80000058              record mark: last fragment, 88 bytes
//	1e1adbcf              xid
//	00000000 00000002     CALL, RPC version 2
//	000186a0 00000004     program 100000, version 4
//	00000003              procedure 3, GETADDR
//	00000000 00000000     credential AUTH_NONE
//	00000000 00000000     verifier AUTH_NONE
//	20000099 00000001     r_prog, r_vers
//	00000003 74637000     r_netid "tcp"
//	0000000f 3132372e...  r_addr "127.0.0.1.0.111", where the caller sees us
//	00000008 6c696274...  r_owner "libtirpc"
//
//	8000002c 1e1adbcf 00000001 00000000 00000000 00000000 00000000
//	00000010 3132372e...  "127.0.0.1.206.65": 127.0.0.1, port 206*256+65
//
// # Rules
//
// They are those of rpcbind 1.2.6, which the tests compare byte by byte:
//   - SET of what is registered is TRUE for the same address, else FALSE. UNSET
//     of what is not registered is TRUE. Both are for loopback and the unix
//     socket only; others get AUTH_TOOWEAK.
//   - The owner is the uid of the process at the other end of the unix socket
//     ("superuser" for 0), whatever the call says. Over TCP and UDP it is
//     "superuser" where the source port is one that only root can have, else
//     "unknown". Only the owner and the superuser may UNSET.
//   - GETADDR answers for the transport over which it is asked, whatever netid it
//     names. GETADDR and GETPORT give another version's address where the asked
//     version is not registered; GETVERSADDR does not.
//   - A registration of 0.0.0.0 is answered with the address on which the caller
//     reached us.
//   - GETSTAT counts what rpcbind counts.
//
// Ours differs where rpcbind helps an attacker or a mistake: a port below 1024
// takes root to register; CALLIT, BCAST and INDIRECT go where the caller would
// be sent, not to loopback, and never to the programs of this module; an UNSET
// removes all it names or nothing; nobody unsets the portmapper itself; an
// address that is none is FALSE for "tcp", "udp", "tcp6" and "udp6"; a list too
// long for a datagram is SYSTEM_ERR; another host gets at most three times its
// own bytes over UDP, and a bounded number of answers a second; the bounds of
// limits.go hold.
//
// # Parts
//
// Server serves. Auto serves only where nobody else does. Client speaks to one
// portmapper, Keeper keeps programs registered with the host's own, and Dial,
// Lookup and Resolver find programs.
package portmap
