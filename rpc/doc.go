// Package rpc is version 2 of ONC RPC (RFC 5531): a server and a client over
// TCP, UDP and unix sockets. What a procedure's arguments and results look like
// is the business of the caller, or of the code that rpcgen writes; where a
// program listens, that of package portmap.
//
// # Bytes
//
// Everything is XDR: big-endian words of four bytes. On a stream each message is
// a record (section 11), cut into fragments, of which we write one and read any
// number:
//
//	80 00 00 28   mark: last fragment (high bit), 40 bytes
//
// A call (section 9), here of procedure 0 without arguments:
//
//	11 22 33 44   xid, which the reply repeats
//	00 00 00 00   CALL
//	00 00 00 02   version of RPC
//	20 00 00 99   program
//	00 00 00 01   version of the program
//	00 00 00 00   procedure
//	00 00 00 00   credential: AUTH_NONE
//	00 00 00 00     length of its body, at most 400, and the body
//	00 00 00 00   verifier: AUTH_NONE
//	00 00 00 00     length of its body, at most 400, and the body
//	              arguments
//
// A reply with a result, and one of a call that was denied:
//
//	11 22 33 44   xid                   11 22 33 44   xid
//	00 00 00 01   REPLY                 00 00 00 01   REPLY
//	00 00 00 00   MSG_ACCEPTED          00 00 00 01   MSG_DENIED
//	00 00 00 00   verifier: AUTH_NONE   00 00 00 01   AUTH_ERROR
//	00 00 00 00     length of its body  00 00 00 05   AUTH_TOOWEAK
//	00 00 00 00   SUCCESS
//	              result
//
// A datagram is a message without a mark.
//
// # Server
//
// A [Server] has a [Handler] for each version of each program. The calls of one
// connection run side by side and are answered as they finish. Everything is
// bounded ([ServerConfig]): at a bound the server stops reading, and never
// queues. Who breaks the protocol gets the reply that the RFC names, else the
// connection is closed, or the datagram ignored.
//
// # Client
//
// A [Client] makes any number of calls at once over one connection and matches
// replies by xid. Its errors say what is known of a call: refused
// ([ReplyError]), not sent ([ErrNotSent]), or lost with its connection
// ([ErrClosed]). It never dials again by itself; a [Pool] does, and makes a call
// again only where it cannot run twice, or may.
package rpc
