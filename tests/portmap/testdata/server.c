/*
 * server.c: server HOW PROG VERS serves an echo of strings (procedure 1) and
 * registers it in one of the ways that libtirpc has: create (svc_create for
 * every visible transport), reg (svc_tli_create and svc_reg), register
 * (svctcp_create, svcudp_create and svc_register), pmapset (the same, with
 * pmap_set). It prints "serving", and on SIGTERM unregisters and ends.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <rpc/pmap_clnt.h>

static unsigned long prog, vers;
static const char *how;

static void dispatch(struct svc_req *req, SVCXPRT *xprt)
{
    char *text = NULL;

    switch (req->rq_proc) {
    case NULLPROC:
        svc_sendreply(xprt, (xdrproc_t)xdr_void, NULL);
        return;
    case 1:
        if (!svc_getargs(xprt, (xdrproc_t)xdr_wrapstring, (caddr_t)&text)) {
            svcerr_decode(xprt);
            return;
        }
        svc_sendreply(xprt, (xdrproc_t)xdr_wrapstring, (caddr_t)&text);
        svc_freeargs(xprt, (xdrproc_t)xdr_wrapstring, (caddr_t)&text);
        return;
    }
    svcerr_noproc(xprt);
}

static void leave(int sig)
{
    (void)sig;
    if (strcmp(how, "register") == 0)
        svc_unregister(prog, vers);
    else if (strcmp(how, "pmapset") == 0)
        pmap_unset(prog, vers);
    else
        svc_unreg(prog, vers);
    _exit(0);
}

static int fail(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    return 1;
}

static int reg(const char *netid)
{
    struct netconfig *nconf = getnetconfigent(netid);
    SVCXPRT *xprt;

    if (nconf == NULL)
        return fail("getnetconfigent");
    xprt = svc_tli_create(RPC_ANYFD, nconf, NULL, 0, 0);
    if (xprt == NULL)
        return fail("svc_tli_create");
    return svc_reg(xprt, prog, vers, dispatch, nconf) ? 0 : fail("svc_reg");
}

static int old(SVCXPRT *xprt, int proto)
{
    if (xprt == NULL)
        return fail("svctcp_create or svcudp_create");
    if (strcmp(how, "register") == 0)
        return svc_register(xprt, prog, vers, dispatch, proto) ? 0 : fail("svc_register");
    if (!svc_register(xprt, prog, vers, dispatch, 0)) /* here alone */
        return fail("svc_register");
    return pmap_set(prog, vers, proto, xprt->xp_port) ? 0 : fail("pmap_set");
}

int main(int argc, char **argv)
{
    int bad;

    if (argc != 4)
        return 2;
    how = argv[1];
    prog = strtoul(argv[2], NULL, 0);
    vers = strtoul(argv[3], NULL, 0);
    signal(SIGTERM, leave);
    if (strcmp(how, "create") == 0)
        bad = svc_create(dispatch, prog, vers, "visible") == 0 ? fail("svc_create") : 0;
    else if (strcmp(how, "reg") == 0)
        bad = reg("tcp") || reg("udp");
    else
        bad = old(svctcp_create(RPC_ANYSOCK, 0, 0), IPPROTO_TCP) || old(svcudp_create(RPC_ANYSOCK), IPPROTO_UDP);
    if (bad)
        return 1;
    printf("serving\n");
    fflush(stdout);
    svc_run();
    return fail("svc_run");
}
