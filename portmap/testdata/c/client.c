/* client.c: client HOST NETTYPE VERSION TEXT prints what PEER_ECHO answers. */
#include <stdio.h>
#include <stdlib.h>
#include "peer.h"

int main(int argc, char **argv)
{
    CLIENT *clnt;
    char **answer;
    unsigned long vers;

    if (argc != 5)
        return 2;
    vers = strtoul(argv[3], NULL, 10);
    clnt = clnt_create(argv[1], PEER_PROG, vers, argv[2]);
    if (clnt == NULL) {
        clnt_pcreateerror(argv[1]);
        return 1;
    }
    answer = vers == PEER_V1 ? peer_echo_1(&argv[4], clnt) : peer_echo_3(&argv[4], clnt);
    if (answer == NULL) {
        clnt_perror(clnt, argv[1]);
        return 1;
    }
    printf("%s\n", *answer);
    clnt_destroy(clnt);
    return 0;
}
