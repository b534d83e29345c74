/*
 * register.c: register set|unset PROG VERS [PORT] registers a program by
 * libtirpc's rpcb_set, or removes it, as the user who runs it, and prints the
 * answer; pmapset PROG VERS PORT and pmapunset PROG VERS by the older calls;
 * getport PROG VERS by pmap_getport, over UDP.
 */
#include <arpa/inet.h>
#include <netconfig.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rpc/rpc.h>
#include <rpc/pmap_clnt.h>
#include <rpc/rpcb_clnt.h>

int main(int argc, char **argv)
{
    unsigned long prog, vers, port;
    struct netconfig *tcp = getnetconfigent("tcp");
    struct sockaddr_in sin;
    struct netbuf addr;
    unsigned short found;

    if (argc < 4 || tcp == NULL)
        return 2;
    prog = strtoul(argv[2], NULL, 0);
    vers = strtoul(argv[3], NULL, 0);
    port = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
    memset(&sin, 0, sizeof sin);
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    addr.len = addr.maxlen = sizeof sin;
    addr.buf = &sin;
    if (strcmp(argv[1], "set") == 0)
        printf("%d\n", rpcb_set(prog, vers, tcp, &addr));
    else if (strcmp(argv[1], "unset") == 0)
        printf("%d\n", rpcb_unset(prog, vers, NULL));
    else if (strcmp(argv[1], "pmapset") == 0)
        printf("%d\n", pmap_set(prog, vers, IPPROTO_TCP, port));
    else if (strcmp(argv[1], "pmapunset") == 0)
        printf("%d\n", pmap_unset(prog, vers));
    else if (strcmp(argv[1], "getport") == 0) {
        sin.sin_addr.s_addr = inet_addr("127.0.0.1");
        sin.sin_port = 0;
        found = pmap_getport(&sin, prog, vers, IPPROTO_TCP);
        printf("%d\n", found);
    }
    return 0;
}
