/*
 * client.c: client HOW HOST PROG VERS finds a server of server.c in one of the
 * ways that libtirpc has, and prints what it echoes of "hello":
 *
 *   tcp, udp, netpath, visible   clnt_create for that nettype
 *   vers                         clnt_create_vers for versions 1 to VERS; prints the version too
 *   clnttcp, clntudp             clnttcp_create, clntudp_create
 *   callrpc, rpc_call            the calls that find and call at once
 *   pmap_rmtcall, rpcb_rmtcall   calls that the portmapper passes on
 *   hold                         clnt_create for tcp; echoes the lines of standard input
 *
 * and, without a server: getport, getaddr, gettime, pmap_getmaps, rpcb_getmaps
 * print what the portmapper answers; pmap_set PORT and pmap_unset (for HOST)
 * print 1 or 0.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rpc/rpc.h>
#include <rpc/pmap_clnt.h>
#include <rpc/pmap_prot.h>
#include <rpc/pmap_rmt.h>
#include <rpc/rpcb_clnt.h>

static unsigned long prog, vers;
static struct timeval wait_for = {10, 0};

static int echo(CLIENT *clnt, char *text)
{
    char *answer = NULL;

    if (clnt == NULL) {
        clnt_pcreateerror("client");
        return 1;
    }
    if (clnt_call(clnt, 1, (xdrproc_t)xdr_wrapstring, (caddr_t)&text,
                  (xdrproc_t)xdr_wrapstring, (caddr_t)&answer, wait_for) != RPC_SUCCESS) {
        clnt_perror(clnt, "client");
        return 1;
    }
    printf("%s\n", answer);
    fflush(stdout);
    return 0;
}

static int hold(CLIENT *clnt)
{
    char line[256];
    int bad = 0;

    while (!bad && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        bad = echo(clnt, line);
    }
    return bad;
}

static int old(const char *how, const char *host)
{
    struct sockaddr_in sin;
    int sock = RPC_ANYSOCK;

    memset(&sin, 0, sizeof sin);
    sin.sin_family = AF_INET;
    sin.sin_addr.s_addr = inet_addr(host);
    if (strcmp(how, "clnttcp") == 0)
        return echo(clnttcp_create(&sin, prog, vers, &sock, 0, 0), "hello");
    if (strcmp(how, "clntudp") == 0)
        return echo(clntudp_create(&sin, prog, vers, wait_for, &sock), "hello");
    if (strcmp(how, "getport") == 0) {
        int tcp = pmap_getport(&sin, prog, vers, IPPROTO_TCP);

        printf("%d %d\n", tcp, pmap_getport(&sin, prog, vers, IPPROTO_UDP));
        return 0;
    }
    if (strcmp(how, "pmap_getmaps") == 0) {
        struct pmaplist *list = pmap_getmaps(&sin);

        for (; list != NULL; list = list->pml_next)
            printf("%lu %lu %lu %lu\n", list->pml_map.pm_prog, list->pml_map.pm_vers,
                   list->pml_map.pm_prot, list->pml_map.pm_port);
        return 0;
    }
    if (strcmp(how, "pmap_rmtcall") == 0) {
        char *text = "hello", *answer = NULL;
        u_long port = 0;
        enum clnt_stat stat = pmap_rmtcall(&sin, prog, vers, 1, (xdrproc_t)xdr_wrapstring, (caddr_t)&text,
                                           (xdrproc_t)xdr_wrapstring, (caddr_t)&answer, wait_for, &port);

        printf("%s\n", stat == RPC_SUCCESS ? answer : clnt_sperrno(stat));
        return stat != RPC_SUCCESS;
    }
    return 2;
}

static int newer(const char *how, const char *host)
{
    char *text = "hello", *answer = NULL;
    struct netconfig *nconf = getnetconfigent("udp");
    enum clnt_stat stat;

    if (strcmp(how, "callrpc") == 0) {
        stat = callrpc(host, prog, vers, 1, (xdrproc_t)xdr_wrapstring, (char *)&text,
                       (xdrproc_t)xdr_wrapstring, (char *)&answer);
    } else if (strcmp(how, "rpc_call") == 0) {
        stat = rpc_call(host, prog, vers, 1, (xdrproc_t)xdr_wrapstring, (char *)&text,
                        (xdrproc_t)xdr_wrapstring, (char *)&answer, "udp");
    } else if (strcmp(how, "rpcb_rmtcall") == 0) {
        struct sockaddr_in sin;
        struct netbuf from = {sizeof sin, sizeof sin, &sin};

        stat = rpcb_rmtcall(nconf, host, prog, vers, 1, (xdrproc_t)xdr_wrapstring, (caddr_t)&text,
                            (xdrproc_t)xdr_wrapstring, (caddr_t)&answer, wait_for, &from);
    } else if (strcmp(how, "getaddr") == 0) {
        struct sockaddr_in sin;
        struct netbuf found = {sizeof sin, 0, &sin};

        if (rpcb_getaddr(prog, vers, nconf, &found, host))
            printf("%s\n", taddr2uaddr(nconf, &found));
        else
            printf("%s\n", clnt_sperrno(rpc_createerr.cf_stat));
        return 0;
    } else if (strcmp(how, "gettime") == 0) {
        time_t now = 0;

        printf("%d\n", rpcb_gettime(host, &now) && now > 1500000000);
        return 0;
    } else if (strcmp(how, "rpcb_getmaps") == 0) {
        rpcblist *list = rpcb_getmaps(getnetconfigent("tcp"), host);

        for (; list != NULL; list = list->rpcb_next)
            printf("%u %u %s %s %s\n", list->rpcb_map.r_prog, list->rpcb_map.r_vers,
                   list->rpcb_map.r_netid, list->rpcb_map.r_addr, list->rpcb_map.r_owner);
        return 0;
    } else {
        return echo(clnt_create(host, prog, vers, how), "hello");
    }
    printf("%s\n", stat == RPC_SUCCESS ? answer : clnt_sperrno(stat));
    return stat != RPC_SUCCESS;
}

int main(int argc, char **argv)
{
    CLIENT *clnt;
    rpcvers_t found;
    int code;

    if (argc != 5)
        return 2;
    prog = strtoul(argv[3], NULL, 0);
    vers = strtoul(argv[4], NULL, 0);
    if (strcmp(argv[1], "hold") == 0)
        return hold(clnt_create(argv[2], prog, vers, "tcp"));
    if (strcmp(argv[1], "pmap_set") == 0) {
        printf("%d\n", pmap_set(prog, vers, IPPROTO_TCP, atoi(argv[2])));
        return 0;
    }
    if (strcmp(argv[1], "pmap_unset") == 0) {
        printf("%d\n", pmap_unset(prog, vers));
        return 0;
    }
    if (strcmp(argv[1], "vers") == 0) {
        clnt = clnt_create_vers(argv[2], prog, &found, 1, vers, "tcp");
        if (clnt != NULL)
            printf("version %u: ", (unsigned)found);
        return echo(clnt, "hello");
    }
    code = old(argv[1], argv[2]);
    return code == 2 ? newer(argv[1], argv[2]) : code;
}
