/*
 * client.c: client HOST PROGRAM NETWORK WORK CONNECTIONS makes so many handles
 * by clnt_create, writes "ready", and for each line N on standard input makes N
 * calls, one after the other, round the handles. WORK is null or echo; each
 * answer is checked. What it writes then is its begin and its end, nanoseconds of
 * CLOCK_MONOTONIC, N (three 64-bit words), and N 32-bit words: how long each call
 * took.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "load.h"

enum { BLOCK = 1024 };

static struct timeval timeout = { 25, 0 };

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(CLIENT *c, const char *what)
{
    fprintf(stderr, "%s\n", c ? clnt_sperror(c, what) : clnt_spcreateerror(what));
    exit(1);
}

static void null(CLIENT *c)
{
    if (clnt_call(c, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, timeout) != RPC_SUCCESS)
        fail(c, "null");
}

static void echo(CLIENT *c)
{
    static char text[BLOCK];
    load_block arg = { BLOCK, text }, result = { 0, NULL };

    text[0]++;
    if (clnt_call(c, LOAD_ECHO, (xdrproc_t)xdr_load_block, (char *)&arg, (xdrproc_t)xdr_load_block, (char *)&result, timeout) != RPC_SUCCESS)
        fail(c, "echo");
    if (result.load_block_len != BLOCK || memcmp(result.load_block_val, text, BLOCK) != 0) {
        fprintf(stderr, "another answer\n");
        exit(1);
    }
    clnt_freeres(c, (xdrproc_t)xdr_load_block, (char *)&result);
}

int main(int argc, char **argv)
{
    uint64_t head[3];
    uint32_t *took = NULL;
    CLIENT **handles;
    int conns;
    unsigned long n;

    if (argc != 6)
        return 2;
    conns = atoi(argv[5]);
    handles = calloc(conns, sizeof *handles);
    for (int i = 0; i < conns; i++) {
        handles[i] = clnt_create(argv[1], strtoul(argv[2], NULL, 0), LOAD_V1, argv[3]);
        if (handles[i] == NULL)
            fail(NULL, argv[1]);
        null(handles[i]);
    }
    fprintf(stderr, "ready\n");
    while (scanf("%lu", &n) == 1) {
        took = realloc(took, n * sizeof *took);
        head[0] = now();
        for (unsigned long i = 0; i < n; i++) {
            CLIENT *c = handles[i % conns];
            uint64_t begin = now();

            if (argv[4][0] == 'n')
                null(c);
            else
                echo(c);
            took[i] = now() - begin;
        }
        head[1] = now();
        head[2] = n;
        fwrite(head, sizeof head, 1, stdout);
        fwrite(took, sizeof *took, n, stdout);
        fflush(stdout);
    }
    return 0;
}
