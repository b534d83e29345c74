/*
 * dial: clnt_create over TCP for programs that run for long.
 *
 * clnt_create remembers the portmappers that it asked. In libtirpc 1.3.3 (Debian
 * 12) it frees what it remembers of a host twice when that host's portmapper
 * refuses a later connection, and the process is aborted; and each look-up of a
 * host but the first loses 16 bytes. It also waits for a host that does not
 * answer as long as the kernel does, two minutes. A program that opens its
 * CLIENTs once does not mind. One that opens them again after a machine died, as
 * a database system or a handler does, is better off with this.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dial.h"
#include <rpc/pmap_prot.h>      /* after rpc/rpc.h */

static long long now(void)              /* milliseconds */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static long long left(long long end) { return end > now() ? end - now() : 1; }

/* Waits until the connection is there; an errno where it is not. */
static int connected(int fd, long long end)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int error = 0, n;
	socklen_t len = sizeof error;

	do
		n = poll(&p, 1, left(end));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return ETIMEDOUT;
	return n < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

/* A connection to the port, or -1 and rpc_createerr. */
static int connect_to(const struct sockaddr_in *to, long long end)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP), error = 0;

	if (fd < 0)
		error = errno;
	else if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0)
		error = errno == EINPROGRESS ? connected(fd, end) : errno;
	if (error == 0 && fcntl(fd, F_SETFL, 0) < 0)    /* libtirpc wants it to block */
		error = errno;
	if (error == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	memset(&rpc_createerr, 0, sizeof rpc_createerr);
	rpc_createerr.cf_stat = RPC_SYSTEMERROR;
	rpc_createerr.cf_error.re_errno = error;
	return -1;
}

/* A CLIENT of the program at that port, which it is connected to. */
static CLIENT *client(struct sockaddr_in *at, rpcprog_t prog, rpcvers_t vers, long long end)
{
	int fd = connect_to(at, end);
	CLIENT *clnt = fd < 0 ? NULL : clnttcp_create(at, prog, vers, &fd, 0, 0);

	if (clnt != NULL)
		clnt_control(clnt, CLSET_FD_CLOSE, NULL);
	else if (fd >= 0)
		close(fd);
	return clnt;
}

/* The port of the program: PMAPPROC_GETPORT. 0 and rpc_createerr where there is none. */
static u_short port_of(struct sockaddr_in *host, rpcprog_t prog, rpcvers_t vers, long long end)
{
	struct pmap args = { .pm_prog = prog, .pm_vers = vers, .pm_prot = IPPROTO_TCP };
	struct timeval wait;
	enum clnt_stat st;
	u_short port = 0;
	CLIENT *clnt;

	host->sin_port = htons(PMAPPORT);
	clnt = client(host, PMAPPROG, PMAPVERS, end);
	if (clnt == NULL)
		return 0;
	wait.tv_sec = left(end) / 1000;
	wait.tv_usec = left(end) % 1000 * 1000;
	st = clnt_call(clnt, PMAPPROC_GETPORT, (xdrproc_t)xdr_pmap, (caddr_t)&args, (xdrproc_t)xdr_u_short, (caddr_t)&port, wait);
	if (st != RPC_SUCCESS) {
		rpc_createerr.cf_stat = RPC_PMAPFAILURE;
		clnt_geterr(clnt, &rpc_createerr.cf_error);
		port = 0;
	} else if (port == 0) {
		rpc_createerr.cf_stat = RPC_PROGNOTREGISTERED;
	}
	clnt_destroy(clnt);
	return port;
}

CLIENT *dial(const char *host, rpcprog_t prog, rpcvers_t vers, time_t seconds)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	long long end = now() + 1000LL * seconds;
	CLIENT *clnt = NULL;

	if (getaddrinfo(host, NULL, &hints, &found) != 0) {
		memset(&rpc_createerr, 0, sizeof rpc_createerr);
		rpc_createerr.cf_stat = RPC_UNKNOWNHOST;
		return NULL;
	}
	for (struct addrinfo *a = found; clnt == NULL && a != NULL; a = a->ai_next) {
		struct sockaddr_in at;
		u_short port;

		memcpy(&at, a->ai_addr, sizeof at);
		port = port_of(&at, prog, vers, end);
		at.sin_port = htons(port);
		if (port != 0)
			clnt = client(&at, prog, vers, end);
	}
	freeaddrinfo(found);
	return clnt;
}
