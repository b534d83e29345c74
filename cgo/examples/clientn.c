/*
 * clientn: client.c's version 1 once more, over the stubs of `rpcgen -N -C`,
 * whose arguments are passed by value.
 *
 *     clientn HOST tcp|udp QUERY...
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "structs.h"

static int ask(CLIENT *clnt, char *text)
{
	query_return_value *r = master_query_1(text, clnt);   /* without -N: &text */
	int failed = 0;

	if (r == NULL) {
		fprintf(stderr, "%s\n", clnt_sperror(clnt, "clientn"));
		return 1;
	}
	if (*r->failed_machine != '\0') {
		fprintf(stderr, "clientn: machine %s failed\n", r->failed_machine);
		failed = 1;
	} else {
		printf("word 0x%016" PRIx64 "\n", (uint64_t)r->vector);
	}
	clnt_freeres(clnt, (xdrproc_t)xdr_query_return_value, (caddr_t)r);
	return failed;
}

int main(int argc, char **argv)
{
	CLIENT *clnt;
	int failed = 0;

	if (argc < 4 || (strcmp(argv[2], "tcp") != 0 && strcmp(argv[2], "udp") != 0)) {
		fprintf(stderr, "usage: clientn HOST tcp|udp QUERY...\n");
		return 2;
	}
	clnt = clnt_create(argv[1], MASTER_PROG, MASTER_V1, argv[2]);
	if (clnt == NULL) {
		clnt_pcreateerror(argv[1]);
		return 1;
	}
	for (int i = 3; i < argc; i++)
		failed |= ask(clnt, argv[i]);
	clnt_destroy(clnt);
	return failed;
}
