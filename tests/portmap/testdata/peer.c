/* peer.c: the procedures of peer.x; the rest of the server is rpcgen's. */
#include "peer.h"

char **peer_echo_1_svc(char **text, struct svc_req *req)
{
    static char *answer;

    (void)req;
    answer = *text;
    return &answer;
}

char **peer_echo_3_svc(char **text, struct svc_req *req)
{
    return peer_echo_1_svc(text, req);
}
