/*
 * dial: clnt_create over TCP for programs that run for long. See dial.c.
 */
#ifndef DIAL_H
#define DIAL_H

#include <rpc/rpc.h>

/*
 * Asks the portmapper of host (a name or an IPv4 address) for the program, and
 * connects to it, all within so many seconds. NULL where that failed: why is in
 * rpc_createerr, as after clnt_create. clnt_destroy closes the connection.
 */
CLIENT *dial(const char *host, rpcprog_t prog, rpcvers_t vers, time_t seconds);

#endif
