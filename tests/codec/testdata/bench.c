/*
 * Times C rpcgen's routines: bench KIND ROUNDS, with a value's bytes on the
 * standard input, prints the nanoseconds of all decodings, each with its
 * xdr_free, and of all encodings.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <rpc/rpc.h>

#include HEADER

static const struct {
	xdrproc_t routine;
	size_t size;
} kinds[] = { KINDS };

static char in[4 << 20], out[4 << 20];

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	int kind = atoi(argv[1]);
	long rounds = atol(argv[2]), i;
	size_t len = fread(in, 1, sizeof in, stdin);
	xdrproc_t routine = kinds[kind].routine;
	void *value = calloc(1, kinds[kind].size);
	int64_t start, decode = 0, encode;
	XDR xdrs;

	start = now();
	for (i = 0; i < rounds; i++) {
		memset(value, 0, kinds[kind].size);
		xdrmem_create(&xdrs, in, len, XDR_DECODE);
		if (!routine(&xdrs, value))
			return 1;
		if (i < rounds - 1)
			xdr_free(routine, value);
	}
	decode = now() - start;
	start = now();
	for (i = 0; i < rounds; i++) {
		xdrmem_create(&xdrs, out, sizeof out, XDR_ENCODE);
		if (!routine(&xdrs, value))
			return 1;
	}
	encode = now() - start;
	if (xdr_getpos(&xdrs) != len || memcmp(in, out, len) != 0)
		return 1;
	printf("%lld %lld\n", (long long)decode, (long long)encode);
	return 0;
}
